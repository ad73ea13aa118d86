"""Messages of AMQP 1.0: their sections, and the facts that the broker acts on."""
