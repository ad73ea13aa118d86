"""The principal of a request: one user in one virtual host."""

from typing import Final

from penstock.broker.access.permissions import Access, Permission, ResourceKind
from penstock.broker.access.topic_permissions import TopicAccessTable
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.exchanges.kinds import TOPIC
from penstock.broker.message import Properties
from penstock.broker.partitions import partitions_of
from penstock.broker.publishing.target import Target
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import (
    BindExchange,
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    UnbindExchange,
    UnbindQueue,
    VhostCommand,
)
from penstock.broker.vhost import VirtualHost

# Kept targets per user and virtual host. Above it all are dropped and fill again: a publisher with
# more live routing keys than this pays one resolution in a while, about two microseconds.
TARGETS_MAX: Final = 65_536


class Principal:
    """One user in one virtual host. Shared by all of its connections, so that what one of them has
    resolved serves the others.
    """

    def __init__(
        self, user: str, vhost: VirtualHost, access: Access, topics: TopicAccessTable
    ) -> None:
        self.user: str = user
        self.vhost: VirtualHost = vhost
        self.access: Access = access
        self._topics: TopicAccessTable = topics
        # Where publishes go, by the octets that name it: the payload of a publish method in AMQP
        # 0-9-1, exchange and routing key in AMQP 1.0.
        self.targets: dict[bytes, Target] = {}
        # Lists of queues that these targets share, and the generation they belong to.
        self._queue_lists: dict[tuple[MessageQueue, ...], list[MessageQueue]] = {}
        self._lists_generation: int = -1

    def keep(self, octets: bytes, target: Target) -> None:
        if len(self.targets) >= TARGETS_MAX:
            self.targets.clear()
        self._share_queues(target)
        self.targets[octets] = target

    def _share_queues(self, target: Target) -> None:
        """Thousands of routing keys lead to a few sets of queues. One list for each set stays in the
        processor's caches, where one for each key does not.
        """
        if target.generation != self._lists_generation:
            # They may hold queues that are deleted.
            self._queue_lists.clear()
            self._lists_generation = target.generation
        queues = target.queues
        target.queues = self._queue_lists.setdefault(tuple(queues), queues)

    def check_publish(self, exchange: str) -> None:
        self.access.check(Permission.WRITE, ResourceKind.EXCHANGE, exchange)

    def check_topic(self, permission: Permission, exchange: Exchange, routing_key: str) -> None:
        """Asked when a target is resolved or a binding made, never for each message."""
        if exchange.kind == TOPIC:
            self._topics.check(self.access, exchange.name, permission, routing_key)

    def check_copies(self, exchange: str, properties: Properties) -> None:
        """The keys of CC and BCC, which are not part of a target: asked for each message that has
        some.
        """
        found = self.vhost.exchanges.get(exchange)
        if found is not None and found.kind == TOPIC:
            for key in properties.extra_keys():
                self.check_topic(Permission.WRITE, found, key)

    def check_read_queue(self, name: str) -> None:
        self.access.check(Permission.READ, ResourceKind.QUEUE, name)

    def check(self, command: VhostCommand) -> None:
        creates = False
        if isinstance(command, DeclareQueue):
            creates = command.name not in self.vhost.queues
        elif isinstance(command, DeclareExchange):
            creates = command.name not in self.vhost.exchanges
        self.access.check_command(command, creates)
        if isinstance(command, (BindQueue, UnbindQueue)):
            self._check_binding(command.exchange, command.routing_key)
        elif isinstance(command, (BindExchange, UnbindExchange)):
            self._check_binding(command.source, command.routing_key)
        if isinstance(command, (DeclareExchange, DeleteExchange)):
            for name in partitions_of(self.vhost.exchanges, command, creates):
                self.access.check(Permission.CONFIGURE, ResourceKind.QUEUE, name)

    def _check_binding(self, source: str, routing_key: str) -> None:
        exchange = self.vhost.exchanges.get(source)
        if exchange is not None:
            self.check_topic(Permission.READ, exchange, routing_key)
