"""Streams: queues that keep their messages, read by offset and by any number of consumers."""
