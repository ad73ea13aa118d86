"""The makers of queues by type. Another room adds a kind here, without changes elsewhere.

A maker may be interpreted. A new subclass of `MessageQueue` must be compiled where the broker is.
"""

from mypy_extensions import mypyc_attr

from penstock.broker.arguments import QueueArguments, QueueType
from penstock.broker.queues.message_queue import MessageQueue, QueueOwner


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueMaker:
    """Makes the queues of one type. Held by the kinds."""

    def make(
        self,
        vhost: QueueOwner,
        name: str,
        durable: bool,
        exclusive_owner: int,
        auto_delete: bool,
        settings: QueueArguments,
        arguments: dict[str, object],
        now: int,
    ) -> MessageQueue:
        """Called before anything is changed, so it may raise a `Refusal`."""
        raise NotImplementedError


class QueueKinds:
    """All types that can be declared. One for all virtual hosts of a broker."""

    def __init__(self) -> None:
        # By the value of `x-queue-type`.
        self.types: dict[str, QueueType] = {}
        self._makers: dict[QueueType, QueueMaker] = {}

    def add(self, queue_type: QueueType, maker: QueueMaker) -> None:
        """Queues of this type are made by this maker from now on; those there are stay."""
        self.types[queue_type.value] = queue_type
        self._makers[queue_type] = maker

    def maker(self, queue_type: QueueType) -> QueueMaker:
        return self._makers[queue_type]
