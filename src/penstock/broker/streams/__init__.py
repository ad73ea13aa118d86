"""Streams: queues that keep what they hold, read by offset and by as many as like."""
