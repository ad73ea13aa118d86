"""What all AMQP 0-9-1 connections of one node share."""

from typing import Final

from penstock.broker.arguments import settings_of
from penstock.broker.discarded import Discarded
from penstock.broker.message import NOBODY, Address, Message
from penstock.broker.queues.death_budget import DeathBudget
from penstock.broker.queues.message_queue import QueueOwner
from penstock.broker.queues.queue import Queue
from penstock.dialects.amqp091.properties import (
    MessageProperties,
    no_properties,
    read_properties,
    read_stored_properties,
)
from penstock.dialects.amqp091.reply_to import PSEUDO_QUEUE, ReplyConsumers
from penstock.dialects.container import Container
from penstock.dialects.login_counts import LoginCounts
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties, encode_header
from penstock.wire.amqp091.limits import Limits

# Parsed headers that are kept. Applications use few different ones, or a new one per message; above
# the number all are dropped, and a header costs its scan again.
PROPERTIES_MAX: Final = 4096

# Headers longer than this are not kept: 4096 of them must not hold unaccounted memory.
KEPT_HEADER_BYTES_MAX: Final = 1024


class Dialect091:
    """Held by the node and by every AMQP 0-9-1 connection."""

    def __init__(
        self, container: Container, limits: Limits, server_properties: dict[str, object]
    ) -> None:
        self.container: Container = container
        self.limits: Limits = limits
        self._server_properties: dict[str, object] = server_properties
        self.login_counts: LoginCounts = LoginCounts()
        self.properties: dict[bytes, MessageProperties] = {}
        self.no_properties: MessageProperties = no_properties()
        self.reply_consumers: ReplyConsumers = ReplyConsumers()
        # Takes the place of a queue for direct replies, which have none.
        owner = QueueOwner("", container.state.timers, [], Discarded(), DeathBudget())
        self.reply_queue: Queue = Queue(
            owner, PSEUDO_QUEUE, False, -1, False, settings_of({}, {}), {}, 0
        )

    def server_properties(self) -> dict[str, object]:
        """As a connection is told them that begins now."""
        return self.container.with_name(self._server_properties)

    def read_properties(self, header: bytes) -> MessageProperties:
        """Check a content header that has not been seen, and keep it for the next message."""
        return self._kept(header, read_properties(header))

    def read_stored_properties(self, header: bytes) -> MessageProperties:
        """The same for a message that was accepted before; a header that is invalid today is not
        kept, so that every publish of it is refused.
        """
        properties = read_stored_properties(header)
        return self._kept(header, properties) if properties.is_utf8 else properties

    def _kept(self, header: bytes, properties: MessageProperties) -> MessageProperties:
        if len(header) <= KEPT_HEADER_BYTES_MAX:
            if len(self.properties) >= PROPERTIES_MAX:
                self.properties.clear()
            self.properties[header] = properties
        return properties


def wrap(octets: bytes) -> Message:
    """Octets as the body of a persistent message; such a header is not kept for the next one."""
    properties = read_properties(
        encode_header(len(octets), BasicProperties(delivery_mode=PERSISTENT))
    )
    return Message(Address("", "", b""), properties, octets, NOBODY)
