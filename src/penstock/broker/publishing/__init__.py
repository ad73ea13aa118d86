"""Publishing: from an exchange and a message to the queues that get it, now, later or after a death."""
