"""The maker of classic queues, and of quorum queues on one server."""

from penstock.broker.arguments import QueueArguments
from penstock.broker.queues.message_queue import MessageQueue, QueueOwner
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.queue_kinds import QueueMaker


class PlainQueueMaker(QueueMaker):
    """Held by the kinds of queue."""

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
        return Queue(vhost, name, durable, exclusive_owner, auto_delete, settings, arguments, now)
