"""The messages that wait in the delayed exchanges of one virtual host, in a form the journal knows.

To the journal it is one more queue: a delayed message is enqueued here, and dequeued in the same
tick in which it is enqueued in its queues.
"""

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.queues.queue_journal import QueueJournal
from penstock.broker.queues.ready_list import ReadyList
from penstock.formats.replication_id import first_id


class DelaySchedule:
    """Publishes a waiting message when its delay is over; `publishing` implements it."""

    def schedule(self, entry: QueueEntry, now: int) -> None:
        raise NotImplementedError


class DelayLine:
    """Held by the virtual host. An entry's `expires_at` is when its delay ends."""

    def __init__(self) -> None:
        # Set by the virtual host before anything waits.
        self.due: DelaySchedule | None = None
        # Identifies it in the journal; 0 until something durable waits.
        self.number: int = 0
        self.journal: QueueJournal | None = None
        # Whether messages that are not persistent are written too: the exchanges are replicated.
        self.journals_all: bool = False
        self.waiting: ReadyList = ReadyList()
        # The size of all waiting bodies.
        self.octets: int = 0
        self._next_position: int = 1
        # Its virtual host is deleted: nothing is published any more.
        self.is_closed: bool = False

    def begin_epoch(self, epoch: int) -> None:
        """As of a queue."""
        self._next_position = max(self._next_position, first_id(epoch))

    def put(self, message: Message, due: int, durable: bool) -> QueueEntry:
        entry = QueueEntry(message, self._next_position)
        self._next_position += 1
        entry.expires_at = max(due, 1)
        self.waiting.append(entry)
        self.octets += len(message.body)
        if durable and self.journal is not None:
            self.journal.enqueued(entry)
        return entry

    def hold(self, entry: QueueEntry, now: int) -> None:
        """Add a message that begins to wait, or that waited before a restart."""
        assert self.due is not None, "the virtual host says who publishes what is due"
        self.due.schedule(entry, now)

    def take(self, entry: QueueEntry) -> None:
        """Remove a message that is due, or whose exchange is gone."""
        self.waiting.remove_at(self.waiting.index_from(entry.position))
        self.octets -= len(entry.message.body)
        if self.journal is not None and entry.message.is_journalled:
            self.journal.dequeued(entry)

    def close(self) -> None:
        """The virtual host is deleted, and with it what waits."""
        self.is_closed = True
        self.octets = 0
        for entry in self.waiting.clear():
            if self.journal is not None and entry.message.is_journalled:
                self.journal.dequeued(entry)

    def restored(self, entries: list[QueueEntry], highest_position: int) -> None:
        """These waited before a restart; the virtual host lets them go on when they are due."""
        self._next_position = highest_position + 1
        for entry in entries:
            self.waiting.append(entry)
            self.octets += len(entry.message.body)
