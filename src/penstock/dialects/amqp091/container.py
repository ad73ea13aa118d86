"""What the AMQP 0-9-1 connections of one node share beside what all share."""

from typing import Final

from penstock.broker.arguments import settings_of
from penstock.broker.discarded import Discarded
from penstock.broker.message import NOBODY, Address, Message, MessageDecoder
from penstock.broker.queues.message_queue import QueueOwner
from penstock.broker.queues.queue import Queue
from penstock.broker.state import BrokerState
from penstock.dialects.amqp091.properties import (
    MessageProperties,
    read_properties,
    read_stored_properties,
)
from penstock.dialects.amqp091.reply_to import PSEUDO_QUEUE, ReplyConsumers
from penstock.dialects.container import Container as SharedContainer
from penstock.dialects.login_checker import LoginChecker
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties, encode_header
from penstock.wire.amqp091.limits import Limits
from penstock.world.entropy import Entropy

# Parsed headers that are kept. Applications use few different ones, or a new one per message; above
# the number all are dropped, and a header costs its scan again.
PROPERTIES_MAX: Final = 4096

# Headers longer than this are not kept: 4096 of them must not hold memory that nobody counts.
KEPT_HEADER_BYTES_MAX: Final = 1024


class Container(SharedContainer):
    """Held by the node and by every connection."""

    def __init__(
        self,
        state: BrokerState,
        entropy: Entropy,
        login_checker: LoginChecker,
        limits: Limits,
        server_properties: dict[str, object],
    ) -> None:
        super().__init__(state, entropy, login_checker)
        self.limits: Limits = limits
        self.server_properties: dict[str, object] = server_properties
        self.properties: dict[bytes, MessageProperties] = {}
        self.reply_consumers: ReplyConsumers = ReplyConsumers()
        state.streams.decoder = ContainerDecoder(self)
        # Stands for the queue that direct replies do not have.
        self.reply_queue: Queue = Queue(
            QueueOwner("", state.timers, [], Discarded()),
            PSEUDO_QUEUE,
            False,
            -1,
            False,
            settings_of({}, {}),
            {},
            0,
        )

    def read_properties(self, header: bytes) -> MessageProperties:
        """Check a content header that has not been seen, and keep it for the next message."""
        return self._kept(header, read_properties(header))

    def read_stored_properties(self, header: bytes) -> MessageProperties:
        """The same for a message that was let in before; one that would not be let in today is not
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


class ContainerDecoder(MessageDecoder):
    """Makes messages of this dialect again out of what was written down."""

    def __init__(self, container: Container) -> None:
        self._container: Container = container
        # Messages of one queue mostly have one address.
        self._addresses: dict[tuple[str, str], Address] = {}

    def decode(self, exchange: str, routing_key: str, header: bytes, body: bytes) -> Message:
        address = self._addresses.get((exchange, routing_key))
        if address is None:
            address = Address(exchange, routing_key, b"")
            if len(self._addresses) >= PROPERTIES_MAX:
                self._addresses.clear()
            self._addresses[(exchange, routing_key)] = address
        properties = self._container.properties.get(header)
        if properties is None:
            properties = self._container.read_stored_properties(header)
        return Message(address, properties, body, NOBODY)

    def wrap(self, octets: bytes) -> Message:
        return wrap(octets)


def wrap(octets: bytes) -> Message:
    """Octets as the body of a persistent message; such a header is not kept for the next one."""
    properties = read_properties(
        encode_header(len(octets), BasicProperties(delivery_mode=PERSISTENT))
    )
    return Message(Address("", "", b""), properties, octets, NOBODY)
