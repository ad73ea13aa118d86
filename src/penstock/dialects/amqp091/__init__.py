"""AMQP 0-9-1 with RabbitMQ's extensions, on the server's side of a connection."""
