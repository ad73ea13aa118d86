"""What all AMQP 0-9-1 connections of one node share.

Seed 002: "The AmqpConnection references an IContainer, which is abstraction for the application.
In this case, a message broker/queue."
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.arguments import settings_of
from penstock.broker.durability import Durability
from penstock.broker.message import NOBODY, Address, Message, MessageDecoder
from penstock.broker.partitions import partitions_of
from penstock.broker.permissions import Access, Permission, ResourceKind
from penstock.broker.publishing import PublishInterceptor
from penstock.broker.queues.queue import Queue, QueueOwner
from penstock.broker.state import BrokerState
from penstock.broker.topology import DeclareExchange, DeclareQueue, DeleteExchange, VhostCommand
from penstock.broker.users import Verification
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp091.confirms import Confirms
from penstock.dialects.amqp091.properties import MessageProperties, no_properties, read_properties
from penstock.dialects.amqp091.reply_to import PSEUDO_QUEUE, ReplyConsumers
from penstock.dialects.amqp091.targets import PublishTarget
from penstock.wire.amqp091.limits import Limits
from penstock.wire.outgoing import Outgoing
from penstock.world.entropy import Entropy

# Parsed headers that are kept. Applications use few different ones, or a new one per message; above
# the number all are dropped, and a header costs its scan again.
PROPERTIES_MAX: Final = 4096

# Headers longer than this are not kept: 4096 of them must not hold memory that nobody counts.
KEPT_HEADER_BYTES_MAX: Final = 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginWaiter:
    """Who waits for a password to be checked: a connection."""

    def login_checked(self, verification: Verification, now: int) -> None:
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginChecker:
    """Runs a `Verification`, which takes tens of milliseconds: the server's runs it in a thread,
    the simulator's at once.
    """

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        raise NotImplementedError


class Principal:
    """One user in one virtual host. Shared by all of its connections, so that what one of them has
    resolved serves the others.
    """

    def __init__(self, user: str, vhost: VirtualHost, access: Access) -> None:
        self.user: str = user
        self.vhost: VirtualHost = vhost
        self.access: Access = access
        # What publish method payloads mean; see `targets`.
        self.targets: dict[bytes, PublishTarget] = {}

    def check_publish(self, exchange: str) -> None:
        self.access.check(Permission.WRITE, ResourceKind.EXCHANGE, exchange)

    def check_read_queue(self, name: str) -> None:
        self.access.check(Permission.READ, ResourceKind.QUEUE, name)

    def check(self, command: VhostCommand) -> None:
        creates = False
        if isinstance(command, DeclareQueue):
            creates = command.name not in self.vhost.queues
        elif isinstance(command, DeclareExchange):
            creates = command.name not in self.vhost.exchanges
        self.access.check_command(command, creates)
        if isinstance(command, (DeclareExchange, DeleteExchange)):
            for name in partitions_of(self.vhost, command, creates):
                self.access.check(Permission.CONFIGURE, ResourceKind.QUEUE, name)


class Container:
    """Held by the node and by every connection."""

    def __init__(
        self,
        state: BrokerState,
        entropy: Entropy,
        login_checker: LoginChecker,
        limits: Limits,
        server_properties: dict[str, object],
    ) -> None:
        self.state: BrokerState = state
        self.entropy: Entropy = entropy
        self.login_checker: LoginChecker = login_checker
        self.limits: Limits = limits
        self.server_properties: dict[str, object] = server_properties
        # Connections with output, and channels with confirms, at the end of this tick.
        self.flush_list: list[Outgoing] = []
        self.confirm_list: list[Confirms] = []
        self.durability: Durability = Durability()
        # Connections whose output, from this tick on, waits until what the tick wrote is safe.
        self.gate_list: list[Outgoing] = []
        self.interceptor: PublishInterceptor | None = None
        # Why publishers are blocked now; empty when they are not.
        self.alarm: str = ""
        self.principals: dict[tuple[str, str], Principal] = {}
        self.connection_counts: dict[str, int] = {}

        self.properties: dict[bytes, MessageProperties] = {}
        self.no_properties: MessageProperties = no_properties()
        self.reply_consumers: ReplyConsumers = ReplyConsumers()
        state.streams.decoder = ContainerDecoder(self)
        # Stands for the queue that direct replies do not have.
        self.reply_queue: Queue = Queue(
            QueueOwner("", state.timers), PSEUDO_QUEUE, False, -1, False, settings_of({}, {}), {}, 0
        )

    def gate(self, outgoing: Outgoing) -> None:
        """Say nothing more to this client before what it asked for is safe on disk."""
        self.gate_list.append(outgoing)

    def read_properties(self, header: bytes) -> MessageProperties:
        """Scan a content header that has not been seen, and keep it for the next message."""
        properties = read_properties(header)
        if len(header) <= KEPT_HEADER_BYTES_MAX:
            if len(self.properties) >= PROPERTIES_MAX:
                self.properties.clear()
            self.properties[header] = properties
        return properties

    def principal(self, user: str, vhost: VirtualHost, access: Access) -> Principal:
        key = (user, vhost.name)
        known = self.principals.get(key)
        if known is None or known.vhost is not vhost or known.access is not access:
            known = Principal(user, vhost, access)
            self.principals[key] = known
        return known


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
            properties = self._container.read_properties(header)
        return Message(address, properties, body, NOBODY)
