"""The management API, in the shape of RabbitMQ's."""
