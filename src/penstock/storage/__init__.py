"""Batches of bytes in segment files that survive a power loss. Knows nothing of messages."""
