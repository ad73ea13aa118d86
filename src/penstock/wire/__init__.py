"""Bytes to events and back, for both AMQP dialects. Knows no queue, no socket, no clock."""
