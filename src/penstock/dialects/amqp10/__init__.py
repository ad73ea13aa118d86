"""AMQP 1.0: what its words mean to the broker."""
