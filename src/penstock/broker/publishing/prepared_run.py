"""Messages that are to reach queues together, made ready beforehand.

A long commit makes its entries, and their records for the journal, in slices. Enqueueing them is
then one step that costs little per message. Positions are guessed, with some left free for what
others enqueue meanwhile. Where that is not enough the run is overtaken: it is made anew, or its
positions are corrected in that step.

Invariant: nothing of a run can be seen, by queue or journal, before `enqueue`.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import NO_EXPIRATION, Message
from penstock.broker.publishing.target import Target
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.queue_journal import PreparedRecords
from penstock.broker.shared_services import RouteCount
from penstock.formats.replication_id import count_of

# Messages that others may enqueue while a run is made, which takes a second or two.
POSITIONS_LEFT_FREE: Final = 1 << 20
# A root of a cluster has 2^40 positions for a queue. When half of them are used up, after half a
# million runs at the earliest, none are left free any more: the others are for messages alone.
GENEROUS_COUNT_MAX: Final = 1 << 39


def can_be_prepared(queue: MessageQueue, message: Message) -> bool:
    """Whether the queue orders messages by nothing but their position."""
    return message.properties.expiration_ms == NO_EXPIRATION and queue.run_start() >= 0


class PreparedRun:
    """Held by `PreparedRuns`, one for each queue."""

    def __init__(self, queue: MessageQueue) -> None:
        self._queue: MessageQueue = queue
        self._entries: list[QueueEntry] = []
        self._octets: int = 0
        self._start: int = queue.run_start()
        if count_of(self._start) < GENEROUS_COUNT_MAX:
            self._start += POSITIONS_LEFT_FREE
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
        """Whether the queue, apart from its messages, is still as it was when the run was begun."""
        return self._queue.run_start() >= 0

    def is_overtaken(self) -> bool:
        """Whether others have taken its positions."""
        return self._queue.run_start() > self._start

    def forget(self) -> None:
        """Drop the run without enqueueing it; its memory is freed a part at a time."""
        self._queue.vhost.discarded.add(self._entries)
        self._entries = []
        if self._records is not None:
            self._records.forget()

    def enqueue(self, now: int) -> None:
        queue = self._queue
        shift = max(queue.run_start() - self._start, 0)
        if shift:
            for entry in self._entries:
                entry.position += shift
        if self._records is not None:
            self._records.arrived(shift != 0)
        queue.enqueue_run(self._entries, self._octets, now)
        for observer in queue.observers:
            for entry in self._entries:
                observer.enqueued(entry)
        queue.vhost.discarded.add(self._entries)


class PreparedRuns:
    """The runs of one commit, and what they add to counts of publishes. Held by the commit.

    Messages that are not plain, go to several queues or to one that needs more than to have them
    appended are published one by one, and so is everything else for the queues that these reach:
    messages reach a queue in the order in which they were published.
    """

    def __init__(self) -> None:
        self._runs: dict[MessageQueue, PreparedRun] = {}
        self._counts: dict[RouteCount, int] = {}
        self._unprepared: set[MessageQueue] = set()
        # What was added since runs were last made.
        self._added: dict[MessageQueue, list[Message]] = {}

    def look_at(self, target: Target, message: Message) -> None:
        """All messages are looked at before the first is added."""
        queues = target.queues
        if (
            len(queues) != 1
            or target.delayed
            or message.properties.has_extra_keys
            or not can_be_prepared(queues[0], message)
        ):
            self._unprepared.update(queues)

    def takes(self, target: Target) -> bool:
        return (
            len(target.queues) == 1
            and not target.delayed
            and target.queues[0] not in self._unprepared
        )

    def add(self, target: Target, message: Message) -> None:
        self._added.setdefault(target.queues[0], []).append(message)
        count = target.count
        if count is not None:
            self._counts[count] = self._counts.get(count, 0) + 1

    def make(self) -> None:
        """Make entries, and their records, of what was added."""
        for queue, messages in self._added.items():
            run = self._runs.get(queue)
            if run is None:
                run = PreparedRun(queue)
                self._runs[queue] = run
            run.add(messages)
        self._added = {}

    def is_overtaken(self) -> bool:
        """Whether others have taken positions of it."""
        return any([run.is_overtaken() for run in self._runs.values()])

    def forget(self) -> None:
        """Nothing that was added is published; what was looked at remains so."""
        for run in self._runs.values():
            run.forget()
        self._runs = {}
        self._counts = {}
        self._added = {}

    def can_be_published(self) -> bool:
        return all([run.can_be_enqueued() for run in self._runs.values()])

    def publish(self, now: int) -> None:
        for run in self._runs.values():
            run.enqueue(now)
        for count, added in self._counts.items():
            count.count += added
