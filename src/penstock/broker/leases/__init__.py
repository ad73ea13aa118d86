"""Leases: batches of messages that a job takes under a name and a number and gives back or finishes."""
