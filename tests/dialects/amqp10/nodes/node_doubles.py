"""A virtual host that links attach to, and consumers as a core makes them."""

import pytest

from penstock.broker.access.permissions import Access
from penstock.broker.access.topic_permissions import TopicAccessTable
from penstock.broker.consumer import Consumer
from penstock.broker.entry import QueueEntry
from penstock.broker.errors import (
    Refusal,
)
from penstock.broker.message import Address, Message
from penstock.broker.publishing.routing import resolve
from penstock.broker.topology import DeclareExchange, DeclareQueue
from penstock.dialects.amqp10.nodes.nodes import (
    SourceNode,
    TargetNode,
    recall_source,
    resolve_source,
    resolve_target,
)
from penstock.dialects.principal import Principal
from penstock.wire.amqp10.performatives_generated import (
    Source,
    Target,
)
from tests.broker.doubles import CountingEntropy, PlainProperties
from tests.broker.streams.doubles import Host

OWN, OTHER = 7, 8
CONTAINER, LINK = "ID:one", "news-reader"


class Taking(Consumer):
    """A link's consumer, as a core makes it from a node."""

    def __init__(self, node: SourceNode) -> None:
        super().__init__("link", 0, False, False)
        self.node = node
        self.selective = node.selection.is_selective
        self.entries: list[QueueEntry] = []
        self.heard_cancel = False
        node.queue.add_consumer(self)

    @property
    def bodies(self) -> list[bytes]:
        return [entry.message.body for entry in self.entries]

    def can_take(self) -> bool:
        return True

    def wants(self, entry: QueueEntry) -> bool:
        return self.node.selection.wants(entry)

    def take(self, entry: QueueEntry) -> None:
        self.entries.append(entry)

    def cancelled(self) -> None:
        self.heard_cancel = True


class World:
    """One virtual host, one user, and the ticks that drive them."""

    def __init__(self) -> None:
        self.host = Host()
        self.vhost = self.host.vhost
        self.access = Access("user", "/")
        self.access.grant(".*", ".*", ".*")
        self.topics = TopicAccessTable()
        self.principal = Principal("user", self.vhost, self.access, self.topics)
        self.entropy = CountingEntropy()
        # Whether bare names that are missing are created.
        self.creates_queues = False
        self.vhost.apply(DeclareQueue("orders", durable=True), 0)
        self.vhost.apply(DeclareExchange("news", "topic", durable=True), 0)

    def source(
        self,
        source: Source,
        link: str = LINK,
        container: str = CONTAINER,
        connection: int = OWN,
    ) -> SourceNode:
        return resolve_source(
            self.principal,
            self.vhost,
            source,
            container,
            link,
            connection,
            self.entropy,
            0,
            self.creates_queues,
        )

    def target(self, target: Target, connection: int = OWN) -> TargetNode:
        return resolve_target(
            self.principal,
            self.vhost,
            target,
            connection,
            self.entropy,
            0,
            self.creates_queues,
        )

    def attach(self, terminus: Source | Target) -> None:
        if isinstance(terminus, Source):
            self.source(terminus)
        else:
            self.target(terminus)

    def recall(self, link: str = LINK, *capabilities: str) -> SourceNode:
        return recall_source(self.principal, self.vhost, list(capabilities), CONTAINER, link, OWN)

    def publish(
        self, exchange: str, key: str, body: bytes, origin: int = OTHER, **headers: object
    ) -> list[str]:
        """Returns the names of the queues that it reached."""
        properties = PlainProperties(headers)
        route = resolve(self.vhost.routing, self.vhost.exchanges[exchange], key, properties)
        for queue in route.queues:
            queue.enqueue(Message(Address(exchange, key, b""), properties, body, origin), 0)
        self.tick()
        return [queue.name for queue in route.queues]

    def tick(self) -> None:
        self.vhost.timers.fire_due(self.host.now)
        self.host.tick()

    def names(self) -> list[str]:
        return list(self.vhost.queues)


def refused(world: World, terminus: Source | Target) -> Refusal:
    """How a terminus is refused; nothing may be left of it."""
    before = (world.names(), list(world.vhost.exchanges), world.vhost.bindings.listed())
    with pytest.raises(Refusal) as refusal:
        world.attach(terminus)
    assert before == (world.names(), list(world.vhost.exchanges), world.vhost.bindings.listed())
    return refusal.value
