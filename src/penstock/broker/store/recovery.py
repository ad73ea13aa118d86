"""From the journal back to queues: definitions first, then what is left in each queue.

One pass over all batches collects, per queue number, positions and locations of the messages and
the ranges of positions that left. Neither depends on the order of records in a batch: a position that
left never returns, and of two records of one position the later one counts. Bodies are not read: a restored queue is all tail, and its first
messages come into memory when somebody asks for them.
"""

from array import array

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.paged_list import PAGE_COUNT, PagedReadyList, inherit
from penstock.broker.queues.priority import PagedPriorityList
from penstock.broker.queues.queue_journal import JournalledMessages
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.state import BrokerState
from penstock.broker.store import records
from penstock.broker.store.definition_records import Change, decode_change, decode_snapshot
from penstock.broker.store.message_store import MessageStore
from penstock.broker.store.pages import QueuePages
from penstock.broker.store.recovered_queue import RecoveredQueue
from penstock.broker.store.segments import RECORD_WEIGHT, SegmentLives
from penstock.broker.topology import BrokerCommand, OpenDelayLine
from penstock.formats.replication_id import first_id
from penstock.storage.recovery import BatchListener
from penstock.storage.segment import segment_of


class StoreRecovery(BatchListener):
    """Held by the node while it starts."""

    def __init__(self) -> None:
        self._queues: dict[int, RecoveredQueue] = {}
        # Queues that are restored, until `resume`.
        self._restored: list[MessageQueue] = []
        self._changes: list[Change] = []
        self._lives: SegmentLives = SegmentLives()
        self._snapshot_segment: int = 0
        self._next_queue_number: int = first_id(0)
        self._syn: tuple[int, int] = (0, 0)
        self._syn_segment: int = 0
        # False when the journal was empty: the store is new.
        self.found_anything: bool = False

    def batch(self, location: int, payload: bytes) -> None:
        self.found_anything = True
        at = 0
        end = len(payload)
        while at < end:
            size = records.size_at(payload, at)
            kind = payload[at]
            if kind == records.MESSAGE:
                self._message(records.MessageRecord(payload, at), location + at)
            elif kind == records.DEQUEUED:
                self._dequeued(payload, at)
            elif kind in {records.DEFINITION, records.SNAPSHOT}:
                self._definitions(kind, payload[at + records.HEAD_SIZE : at + size], location)
            elif kind != records.TICK:
                self._of_the_stream(kind, payload, at, location)
            at += size

    def _of_the_stream(self, kind: int, payload: bytes, at: int, location: int) -> None:
        """Members of a cluster say how far they have applied the stream of operations."""
        if kind == records.OPERATION:
            operation = records.OperationRecord(payload, at)
            self._syn = (operation.epoch, operation.k)
        elif kind == records.ROOT:
            self._syn = (records.root_epoch(payload, at), 0)
        else:
            assert kind == records.POSITION, "what else members write is read elsewhere"
            self._syn = records.position_at(payload, at)
        self._syn_segment = segment_of(location)

    def _queue(self, number: int) -> RecoveredQueue:
        queue = self._queues.get(number)
        if queue is None:
            queue = RecoveredQueue()
            self._queues[number] = queue
        return queue

    def _message(self, record: records.MessageRecord, location: int) -> None:
        weight = record.pair_count * (RECORD_WEIGHT + record.body_size)
        self._lives.of(segment_of(location)).total_weight += weight
        for index in range(record.pair_count):
            queue = self._queue(record.queue_number(index))
            position = record.position(index)
            queue.add(position, location, record.body_size)
            if record.expires_at(index):
                queue.may_expire = True

    def _dequeued(self, payload: bytes, at: int) -> None:
        record = records.DequeuedRecord(payload, at)
        queue = self._queue(record.queue_number)
        for first, count in record.ranges:
            queue.left(first, first + count)

    def _definitions(self, kind: int, text: bytes, location: int) -> None:
        self._lives.of(segment_of(location)).has_definitions = True
        if kind == records.SNAPSHOT:
            self._changes, self._next_queue_number = decode_snapshot(text)
            self._snapshot_segment = segment_of(location)
            return
        change = decode_change(text)
        self._changes.append(change)
        if change.queue_number >= self._next_queue_number:
            self._next_queue_number = change.queue_number + 1

    def left_in(self, number: int) -> tuple["array[int]", "array[int]"]:
        """Positions and locations of what a queue number still holds, for whoever checks a store."""
        queue = self._queues.get(number)
        if queue is None:
            return array("Q"), array("Q")
        queue.settle()
        return queue.positions, queue.locations

    def restore(self, state: BrokerState, store: MessageStore, now: int) -> int:
        """Restore everything; returns how many messages there are."""
        for change in self._changes:
            self._apply(state, store, change, now)
        self._changes = []
        store.next_queue_number = self._next_queue_number
        store.snapshot_segment = self._snapshot_segment
        store.lives = self._lives
        epoch, k = self._syn
        store.note_syn(epoch, k, self._syn_segment)
        count = 0
        for vhost in state.vhosts.values():
            for queue in vhost.queues.values():
                recovered = self._queues.pop(queue.number, None) if queue.number else None
                if recovered is not None:
                    found = FoundMessages(recovered, queue.number, store, self._lives)
                    count += queue.restore(found)
                self._restored.append(queue)
            line = vhost.delay_line
            recovered = self._queues.pop(line.number, None) if line.number else None
            if recovered is not None:
                entries = FoundMessages(recovered, line.number, store, self._lives).entries()
                line.restored(entries, recovered.highest_position)
                for entry in entries:
                    line.hold(entry, now)
                count += len(entries)
        self._queues = {}
        return count

    def resume(self, now: int) -> None:
        """Times to live and length limits apply again. Called only when every queue has its
        messages and changes are recorded: a message that dies now may be dead-lettered to any
        queue.
        """
        for queue in self._restored:
            queue.resume(now)
        self._restored = []

    def _apply(self, state: BrokerState, store: MessageStore, change: Change, now: int) -> None:
        command = change.command
        vhost = change.vhost
        if vhost is None:
            assert isinstance(command, BrokerCommand)
            state.apply(command, now)
            return
        assert not isinstance(command, BrokerCommand)
        host = state.vhosts.get(vhost)
        if host is None:
            # Its virtual host was deleted in the same batch.
            return
        if isinstance(command, OpenDelayLine):
            store.attach_delay_line(host.delay_line, change.queue_number)
            return
        host.apply(command, now)
        if change.queue_number:
            queue = host.queues[getattr(command, "name")]  # noqa: B009 - only DeclareQueue has one
            store.attach(queue, change.queue_number)


class FoundMessages(JournalledMessages):
    """The messages of one queue, or of a delay line. Held while it is restored."""

    def __init__(
        self, recovered: RecoveredQueue, number: int, store: MessageStore, lives: SegmentLives
    ) -> None:
        super().__init__(recovered.highest_position, recovered.may_expire)
        recovered.settle()
        self._recovered: RecoveredQueue = recovered
        self._number: int = number
        self._store: MessageStore = store
        self._lives: SegmentLives = lives

    def fill(self, ready: ReadyList) -> int:
        recovered = self._recovered
        total = recovered.count_into(self._lives)
        if isinstance(ready, PagedReadyList):
            ready.restore(recovered.positions, recovered.locations)
        else:
            assert isinstance(ready, PagedPriorityList), "made by a store"
            # Priorities are known from the messages only, so all are read, and paged out again.
            fill_levels(ready, recovered.positions, recovered.locations, self.highest_position)
        return total

    def entries(self) -> list[QueueEntry]:
        recovered = self._recovered
        recovered.count_into(self._lives)
        pages = self._store.make_pages()
        pages.number = self._number
        return read_entries(pages, recovered.positions, recovered.locations)


def fill_levels(
    ready: PagedPriorityList,
    positions: "array[int]",
    locations: "array[int]",
    highest_position: int,
) -> None:
    """Read everything, a page at a time, put it into its level, and page it out again."""
    ready.inherits(highest_position)
    begin = 0
    while begin < len(positions):
        end = begin + PAGE_COUNT
        read = ready.pages.page_in(positions[begin:end].tolist(), locations[begin:end].tolist())
        for entry in read:
            inherit(entry)
            ready.append(entry)
        ready.page_out_all()
        begin += len(read)


def read_entries(
    pages: QueuePages, positions: "array[int]", locations: "array[int]"
) -> list[QueueEntry]:
    """Everything, in order."""
    entries: list[QueueEntry] = []
    while len(entries) < len(positions):
        begin = len(entries)
        end = begin + PAGE_COUNT
        read = pages.page_in(positions[begin:end].tolist(), locations[begin:end].tolist())
        entries.extend(read)
    for entry in entries:
        inherit(entry)
    return entries
