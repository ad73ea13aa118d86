"""Who wants to see every queue there is, and what is published where: the ledger."""

from mypy_extensions import mypyc_attr

from penstock.broker.queues.message_queue import MessageQueue


class RouteCount:
    """How many messages were published to one exchange with one routing key, since somebody asked.
    Held by the targets of publishes, which add to it, and by the ledger, which gave it to them and
    reads it.
    """

    def __init__(self, text: bytes) -> None:
        self.count: int = 0
        # What the ledger calls it, and the number of that name in which of its files.
        self.text: bytes = text
        self.name: int = 0
        self.file: int = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueWatcher:
    """Given to the broker's state, which tells it of queues that come and go."""

    def watch(self, queue: MessageQueue) -> None:
        raise NotImplementedError

    def forget(self, queue: MessageQueue) -> None:
        raise NotImplementedError

    def route(self, vhost: str, exchange: str, key: str) -> RouteCount:
        """Where publishes with this exchange and key are to be counted, until the virtual host's
        generation changes.
        """
        raise NotImplementedError
