"""Exchanges: which bindings a message's routing key and properties select."""
