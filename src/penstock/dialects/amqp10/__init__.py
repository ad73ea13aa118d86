"""AMQP 1.0, on the server's side of a connection."""
