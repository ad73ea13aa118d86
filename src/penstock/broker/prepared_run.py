"""Messages that are to reach one queue together, made ready for it beforehand.

A long commit makes its entries, and their records for the journal, in slices. To show them is then
one step that costs little for each. Positions are guessed, with some left free for what others
enqueue meanwhile. Where that is not enough the run is overtaken: it is made anew, or its positions
are corrected in that step.

Invariant: nothing of a run can be seen, by queue or journal, before `enqueue`.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import NO_EXPIRATION, Message
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.queue_journal import PreparedRecords
from penstock.broker.streams.stream import Stream

# Messages of others that may arrive while a run is made, which takes a second or two. A queue has
# positions for more than 2^40 runs.
POSITIONS_LEFT_FREE: Final = 1 << 20


def can_be_prepared(queue: Queue, message: Message) -> bool:
    """Whether nothing but the order of arrival matters to the queue."""
    return (
        message.properties.expiration_ms == NO_EXPIRATION
        and queue.run_start() >= 0
        and not isinstance(queue, Stream)
    )


class PreparedRun:
    """Held by a commit, one for each queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue: Queue = queue
        self._entries: list[QueueEntry] = []
        self._octets: int = 0
        self._start: int = queue.run_start() + POSITIONS_LEFT_FREE
        self._records: PreparedRecords | None = None
        if queue.journal is not None:
            self._records = queue.journal.prepare()

    def add(self, messages: list[Message]) -> None:
        position = self._start + len(self._entries)
        added: list[QueueEntry] = []
        for message in messages:
            added.append(QueueEntry(message, position))
            self._octets += len(message.body)
            position += 1
        self._entries.extend(added)
        if self._records is not None:
            self._records.add(added)

    def can_be_enqueued(self) -> bool:
        """Whether the queue is still as it was when the run was begun, but for its messages."""
        return self._queue.run_start() >= 0

    def is_overtaken(self) -> bool:
        """Whether others have taken its positions."""
        return self._queue.run_start() > self._start

    def forget(self) -> None:
        """It is not enqueued, and freed a part at a time."""
        self._queue.vhost.discarded.add(self._entries)
        self._entries = []
        if self._records is not None:
            self._records.forget()

    def enqueue(self) -> None:
        queue = self._queue
        shift = max(queue.run_start() - self._start, 0)
        if shift:
            for entry in self._entries:
                entry.position += shift
        if self._records is not None:
            self._records.arrived(shift != 0)
        queue.enqueue_run(self._entries, self._octets)
        for observer in queue.observers:
            for entry in self._entries:
                observer.enqueued(entry)
        queue.vhost.discarded.add(self._entries)
