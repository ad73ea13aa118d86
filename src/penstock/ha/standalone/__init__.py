"""Replicas of single queues, between servers that are not members of one cluster (seed 001)."""
