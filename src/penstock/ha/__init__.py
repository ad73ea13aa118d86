"""Replication: a primary's stream of operations, and backups that hold what it has confirmed."""
