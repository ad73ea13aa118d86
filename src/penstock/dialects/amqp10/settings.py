"""What an operator decides about AMQP 1.0 clients."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Amqp10Settings:
    """Given to the node when it is made; never changed afterwards."""

    # Whether clients that name no user are let in, with the SASL mechanism ANONYMOUS or without a
    # SASL layer. They are the default user, from where that one may log in, and only while it has
    # its default password.
    anonymous: bool = True
    # Whether an attach to a bare name creates a queue when there is neither a queue nor an exchange
    # of that name, and its user may configure it.
    creates_queues: bool = True
