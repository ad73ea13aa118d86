"""Bytes to events and back, for both AMQP dialects. Knows nothing of queues, sockets or clocks."""
