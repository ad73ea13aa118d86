"""What a queue whose messages stay does not do: nothing is taken out of it, and nothing expires."""

from penstock.broker.entry import BROKER_ITSELF, QueueEntry
from penstock.broker.errors import NotImplementedHere
from penstock.broker.names import described
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.walk import Walk


class LastingQueue(MessageQueue):
    """The part of a stream that refuses."""

    @property
    def ready_count(self) -> int:
        """A stream is limited by retention, not by its length."""
        return 0

    @property
    def keeps_messages(self) -> bool:
        return True

    def used(self, now: int) -> None:
        """Streams do not expire."""

    def get(self, now: int, holder: int = BROKER_ITSELF) -> QueueEntry | None:
        raise self._unable("basic.get")

    def browse_on(self, walk: Walk) -> QueueEntry | None:
        """Consumers remove nothing, so browsing is not needed."""
        raise self._unable("browsing")

    def lease_many(self, entries: list[QueueEntry]) -> None:
        raise self._unable("leasing")

    def purge(self, now: int) -> int:
        raise self._unable("queue.purge")

    def _unable(self, what: str) -> NotImplementedHere:
        queue = described("queue", self.name, self.vhost.name)
        return NotImplementedHere(f"{what} not supported by stream queues {queue}")
