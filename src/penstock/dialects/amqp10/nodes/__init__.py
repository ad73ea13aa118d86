"""Nodes of AMQP 1.0: addresses, and what the source and the target of an attach stand for."""
