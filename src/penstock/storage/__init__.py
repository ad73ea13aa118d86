"""Batches of octets in segment files that survive a power loss. Knows no message."""
