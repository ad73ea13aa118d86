"""Links of AMQP 1.0: attaching, transfers in both directions, settlement, suspension and resumption."""
