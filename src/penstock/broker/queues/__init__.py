"""Queues: ready list, unacknowledged entries, consumers, limits, expiry, dead-lettering."""
