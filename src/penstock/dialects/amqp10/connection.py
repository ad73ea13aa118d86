"""One client's AMQP 1.0 connection."""

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.queue import Queue
from penstock.dialects.amqp10.link_registry import LinkRegistry
from penstock.dialects.container import Container
from penstock.dialects.principal import Principal
from penstock.wire.outgoing import Outgoing


class Connection:
    """Held by the node's connection from the protocol header to the end of the transport."""

    def __init__(
        self,
        container: Container,
        links: LinkRegistry,
        outgoing: Outgoing,
        number: int,
        peer_host: str,
        peer_is_loopback: bool,
        now: int,
    ) -> None:
        self.container: Container = container
        self.links: LinkRegistry = links
        self.outgoing: Outgoing = outgoing
        self.number: int = number
        self.principal: Principal | None = None

    def received(self, data: bytes, now: int) -> None:
        self.outgoing.close()

    def tick(self, now: int) -> None: ...
    def lost(self, now: int) -> None: ...
    def failed(self, now: int) -> None: ...
    def stop(self, reason: str, now: int) -> None: ...
    def alarm_changed(self, now: int) -> None: ...
    def update_is_plain(self) -> None: ...
    def add_unsettled(self, found: list[tuple[Queue, QueueEntry]]) -> None: ...
