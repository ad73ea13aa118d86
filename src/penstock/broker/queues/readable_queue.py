"""What can be seen of a queue without changing it: its ready messages, and how old they are."""

from penstock.broker.arguments import QueueArguments
from penstock.broker.entry import QueueEntry
from penstock.broker.queues.ages import QueueAges, TimeInQueue
from penstock.broker.queues.message_queue import NO_AGE, MessageQueue, QueueOwner
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.walk import Walk, walked


class ReadableQueue(MessageQueue):
    """What `Queue` is made of. It calls `stamp` and `sample` when they are due."""

    def __init__(
        self,
        vhost: QueueOwner,
        name: str,
        durable: bool,
        exclusive_owner: int,
        auto_delete: bool,
        settings: QueueArguments,
        arguments: dict[str, object],
    ) -> None:
        super().__init__(vhost, name, durable, exclusive_owner, auto_delete, settings, arguments)
        self.ready: ReadyList = vhost.make_ready_list(settings.max_priority)
        # Made with the first message, so that thousands of queues without one have none.
        self._ages: QueueAges | None = None
        # Neither is due before these times.
        self.stamp_due: int = 0
        self.sample_due: int = 0

    def replace_list(self, ready: ReadyList) -> None:
        self.ready = ready

    @property
    def keeps_messages(self) -> bool:
        return False

    def held_bytes(self, message_bytes: int) -> int:
        count = self.ready.count
        if count == 0:
            return 0
        in_memory = self.ready.in_memory_count()
        # Those that were paged out are taken to be of the same size.
        octets = self.ready_bytes * in_memory // count
        return in_memory * message_bytes + octets

    def browse(self, limit: int) -> list[QueueEntry]:
        return walked(self.ready, limit)

    def browse_on(self, walk: Walk) -> QueueEntry | None:
        return walk.next(self.ready)

    def look_on(self, walk: Walk) -> QueueEntry | None:
        return walk.next(self.ready)

    def entry_from(self, position: int) -> QueueEntry | None:
        return self.ready.next_from(position)

    def positions_from(self, position: int, count: int) -> list[int]:
        return self.ready.positions_from(position, count)

    def entry_at(self, position: int) -> QueueEntry | None:
        level = self.ready.level_with(position)
        return None if level is None else level.next_from(position)

    def stamp(self, position: int, now: int) -> None:
        """What arrives from this position on arrived now."""
        if self._ages is None:
            self._ages = QueueAges()
        oldest = self.oldest_position()
        if oldest < 0:
            oldest = position
        # What is out is mostly what came before; it may come back.
        self.stamp_due = self._ages.arrived(position, oldest - self.unacked_count, now)

    def sample(self, entry: QueueEntry | None, now: int) -> None:
        """Of the entry that is delivered next."""
        if self._ages is not None and entry is not None:
            total = self.delivered_total + 1
            self.sample_due = self._ages.delivered(entry.position, total, now)

    def oldest_position(self) -> int:
        """Of everything that is not out with consumers; -1 when there is nothing."""
        return self.ready.oldest_position()

    def oldest_age_ms(self, now: int) -> int:
        oldest = self.oldest_position()
        return NO_AGE if oldest < 0 else self.age_ms_of(oldest, now)

    def age_ms_of(self, position: int, now: int) -> int:
        return NO_AGE if self._ages is None else now - self._ages.arrival_of(position, now)

    def head_in_memory(self) -> QueueEntry | None:
        return self.ready.head_in_memory()

    def time_in_queue(self) -> TimeInQueue | None:
        return None if self._ages is None else self._ages.time_in_queue(self.delivered_total)
