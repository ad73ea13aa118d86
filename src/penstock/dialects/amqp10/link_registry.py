"""Links by container and name, beyond the connection that they were attached on."""

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.queue import Queue
from penstock.dialects.container import Container
from penstock.wire.amqp10.limits import Limits


class LinkRegistry:
    """Held by the node and by every AMQP 1.0 connection."""

    def __init__(self, container: Container, limits: Limits, container_id: str) -> None:
        self.container: Container = container
        self.limits: Limits = limits
        self.container_id: str = container_id

    def add_unsettled(self, found: list[tuple[Queue, QueueEntry]]) -> None:
        """Append everything that is out with suspended links."""
