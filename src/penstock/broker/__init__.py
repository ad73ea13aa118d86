"""The core: exchanges, queues, messages. Knows no AMQP bytes, no peer, no clock."""
