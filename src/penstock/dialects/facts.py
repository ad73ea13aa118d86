"""What an operator sees of a connection, its channels and its consumers, whatever the client speaks.

Put together when somebody asks. Everything here is read from what connections keep anyway: nothing
is counted per message for it. A count that could not be had in this way is `UNKNOWN`.
"""

from typing import Final

UNKNOWN: Final = -1


class ConnectionFacts:
    """Made by a connection for whoever asks."""

    def __init__(self, protocol: str) -> None:
        # "AMQP 0-9-1" or "AMQP 1.0".
        self.protocol: str = protocol
        # RabbitMQ's words: starting, tuning, opening, running, blocked, closing.
        self.state: str = "starting"
        self.user: str = ""
        self.vhost: str = ""
        self.mechanism: str = ""
        self.frame_max: int = 0
        self.channel_max: int = 0
        self.heartbeat_seconds: int = 0
        # Of both dialects the properties that the client has sent with its start-ok or open.
        self.client_properties: dict[str, object] = {}
        # What the client calls its connection, or its container.
        self.client_name: str = ""
        self.channel_count: int = 0


class ChannelFacts:
    """One channel of AMQP 0-9-1, or one session of AMQP 1.0. Made by its connection."""

    def __init__(self, number: int) -> None:
        self.number: int = number
        self.is_confirming: bool = False
        self.is_transactional: bool = False
        self.consumer_count: int = 0
        self.prefetch_count: int = 0
        self.global_prefetch_count: int = 0
        self.unacknowledged: int = 0
        self.unconfirmed: int = 0
        # Of an open transaction.
        self.uncommitted: int = 0
        self.acks_uncommitted: int = 0

        # Since it was opened.
        self.published: int = UNKNOWN
        self.confirmed: int = UNKNOWN
        # Of those that were published, the ones that were to be confirmed.
        self.received_confirm: int = 0
        self.returned: int = 0
        # With those that were asked for one by one.
        self.delivered: int = 0
        self.delivered_unowned: int = UNKNOWN
        self.redelivered: int = 0
        self.acknowledged: int = UNKNOWN
        self.got: int = 0
        self.got_unowned: int = 0
        self.got_empty: int = 0


class ConsumerFacts:
    """One consumer of a channel, or one receiver of a session. Made by its connection."""

    def __init__(self, channel: int, tag: str, queue: str) -> None:
        self.channel: int = channel
        self.tag: str = tag
        self.queue: str = queue
        self.acknowledges: bool = True
        self.is_exclusive: bool = False
        # With a single active consumer only one is.
        self.is_active: bool = True
        self.prefetch_count: int = 0
        self.arguments: dict[str, object] = {}
