"""Replicas of queues outside of a cluster: what a source sends, and in which form."""
