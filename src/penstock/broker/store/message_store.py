"""The message store: what must be there after a restart, one batch of records per tick.

During a tick it only collects: entries that were enqueued, entries that were dequeued, definitions
that changed. `end_of_tick` writes all of it as one batch, so whatever belongs together (a
transaction, a dead letter that leaves one queue and reaches another) is there entirely or not at
all. A message is written once, however many queues it reached; one that was dequeued within the
same tick is not written.

Invariants
- a message's `location` is set exactly while a record of it is on disk that some queue needs;
- `live` counts, per segment, the (queue, position) pairs in it that are still in their queues;
- nothing is confirmed before the flush that covers its batch.
"""

from array import array

from penstock.broker.definition_log import DefinitionLog
from penstock.broker.delays.delay_line import DelayLine
from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message, MessageDecoder
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.paged_list import PagedReadyList, PagingLimits
from penstock.broker.queues.priority import PagedPriorityList
from penstock.broker.queues.queue_journal import PreparedRecords, QueueJournal, ReadyLists
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.state import BrokerState
from penstock.broker.store import records
from penstock.broker.store.definition_records import Change, encode_change
from penstock.broker.store.dequeued_entries import DequeuedEntries
from penstock.broker.store.enqueued_entries import EnqueuedEntries
from penstock.broker.store.locations import counts_by_segment, may_be_spooled
from penstock.broker.store.pages import QueuePages
from penstock.broker.store.prepared_records import StoredRecords
from penstock.broker.store.segments import SegmentLives
from penstock.broker.store.spool import FILE_BYTES_MAX, SPOOLED, Spool
from penstock.broker.timers import WallClock
from penstock.broker.topology import BrokerCommand, DeclareQueue, OpenDelayLine, VhostCommand
from penstock.storage.journal import Journal
from penstock.storage.long_payload import LongPayload
from penstock.storage.segment import segment_of
from penstock.world.disk import Disk


class MessageStore:
    """Held by the node of a broker that has a data directory."""

    def __init__(
        self,
        state: BrokerState,
        disk: Disk,
        journal: Journal,
        decoder: MessageDecoder,
        paging: PagingLimits | None = None,
        spool_bytes_max: int = FILE_BYTES_MAX,
    ) -> None:
        self.state: BrokerState = state
        self.journal: Journal = journal
        self.decoder: MessageDecoder = decoder
        self.wall: WallClock = state.wall
        self.paging: PagingLimits = PagingLimits() if paging is None else paging
        self.spool: Spool = Spool(disk, spool_bytes_max)
        self.lives: SegmentLives = SegmentLives()
        self.next_queue_number: int = 1
        # Queues whose lists have something to page out at the end of this tick.
        self.page_list: list[PagedReadyList] = []

        # What this tick brought.
        self.enqueued: EnqueuedEntries = EnqueuedEntries()
        self.dequeued: DequeuedEntries = DequeuedEntries()
        self._changes: list[bytes] = []
        self._snapshot: bytes = b""
        # The segment of the latest snapshot: definitions in earlier ones do not count any more.
        self.snapshot_segment: int = 0
        # And entries that were enqueued together, with their records.
        self._prepared: list[StoredRecords] = []
        # Records that are copied out of an old segment, and where to note their new places.
        self._moved: list[MovedRecord] = []

    # Calls from queues.

    def prepare(self, number: int) -> StoredRecords:
        """Records of entries that will be enqueued together in the queue of this number."""
        return StoredRecords(self._prepared, number, self.state.discarded)

    # Calls from virtual hosts.

    def changed(self, vhost: str | None, command: VhostCommand | BrokerCommand) -> None:
        number = 0
        if isinstance(command, DeclareQueue) and vhost is not None:
            queue = self.state.vhost(vhost).queues[command.name]
            number = self.next_queue_number
            self.next_queue_number += 1
            self.attach(queue, number)
        elif isinstance(command, OpenDelayLine) and vhost is not None:
            number = self.next_queue_number
            self.next_queue_number += 1
            self.attach_delay_line(self.state.vhost(vhost).delay_line, number)
        self._changes.append(encode_change(Change(vhost, command, number)))

    def attach(self, queue: MessageQueue, number: int) -> None:
        """From now on this queue's persistent messages are written to the journal."""
        queue.number = number
        queue.journal = StoredQueue(self, number)
        ready = queue.journal_list()
        if isinstance(ready, (PagedReadyList, PagedPriorityList)):
            pages = ready.pages
            assert isinstance(pages, QueuePages)
            pages.number = number

    def attach_delay_line(self, line: DelayLine, number: int) -> None:
        """From now on persistent messages that wait in delayed exchanges are written to the
        journal.
        """
        line.number = number
        line.journal = StoredQueue(self, number)

    def move(self, moved: "MovedRecord", old_segment: int) -> None:
        """Copy a record to the end of the journal with this tick's batch."""
        moved.old_segment = old_segment
        self._moved.append(moved)

    def add_snapshot(self, text: bytes) -> None:
        """Write everything that is defined; earlier definitions do not count any more."""
        self._changes = []
        self._snapshot = text

    def make_pages(self) -> QueuePages:
        """For the ready list of a new queue."""
        return QueuePages(self.journal, self.spool, self.decoder, self.wall)

    # Ticks.

    def has_pending(self) -> bool:
        return self._has_records() or bool(self.page_list)

    def _has_records(self) -> bool:
        return bool(
            not self.enqueued.is_empty()
            or self._prepared
            or not self.dequeued.is_empty()
            or self._changes
            or self._snapshot
            or self._moved
        )

    def end_of_tick(self) -> bool:
        """Write what this tick brought. True when something was written that a flush must cover."""
        wrote = self._has_records() and self._write()
        if self.page_list:
            listed = self.page_list[:]
            # Cleared first: one that has more to page out lists itself for the next tick.
            self.page_list.clear()
            for ready in listed:
                ready.page_out()
            self.spool.write()
        return wrote

    def _write(self) -> bool:
        pieces: list[bytes] = []
        size = 0
        has_snapshot = bool(self._snapshot)
        has_definitions = has_snapshot or bool(self._changes)
        if self._snapshot:
            size += records.append_text(pieces, records.SNAPSHOT, self._snapshot)
            self._snapshot = b""
        for text in self._changes:
            size += records.append_text(pieces, records.DEFINITION, text)
        self._changes = []
        encoded = self.enqueued.encode(pieces, size, self.wall.offset_ms)
        size = encoded.size
        count = encoded.pair_count
        body_bytes = encoded.body_bytes
        prepared = self._prepared[:]
        # The list object stays the same, because unfinished records refer to it.
        self._prepared.clear()
        # What comes before them in the batch.
        pieces_before = len(pieces)
        for stored in prepared:
            stored.offset = size
            size += stored.payload.size
            count += stored.count
            body_bytes += stored.body_bytes
        self.dequeued.add_gone(prepared)
        moved = self._moved
        self._moved = []
        for record in moved:
            record.offset = size
            size += records.append_raw(pieces, record.octets)
            count += record.pair_count
            body_bytes += record.body_bytes
        self.dequeued.encode(pieces)
        if prepared:
            base = self.journal.append_long(_around(prepared, pieces, pieces_before))
        elif pieces:
            base = self.journal.append(b"".join(pieces))
        else:
            return False
        segment = segment_of(base)
        for message in encoded.messages:
            message.location += base
        for stored in prepared:
            stored.written(base)
        if has_snapshot:
            self.snapshot_segment = segment
        self.lives.wrote(segment, count, body_bytes, has_definitions)
        for stored in prepared:
            for entry in stored.gone:
                self.lives.dequeued(segment, 1, len(entry.message.body))
            stored.forget()
        # Before anything moves: a message may be dequeued from one queue and be moved for another.
        self.dequeued.count_into(self.lives)
        for record in moved:
            record.settle(base + record.offset)
            self.lives.dequeued(record.old_segment, record.pair_count, record.body_bytes)
        return True


def _around(prepared: list[StoredRecords], pieces: list[bytes], before: int) -> LongPayload:
    """A batch with what was prepared behind the first so many of the other pieces."""
    payload = LongPayload()
    payload.add(b"".join(pieces[:before]))
    for stored in prepared:
        payload.extend(stored.payload)
    payload.add(b"".join(pieces[before:]))
    return payload


class MovedRecord:
    """A live message record on its way from an old segment to the newest."""

    def __init__(self, octets: bytes, pair_count: int) -> None:
        self.octets: bytes = octets
        self.pair_count: int = pair_count
        # The body's, once per pair.
        self.body_bytes: int = 0
        self.offset: int = 0
        self.old_segment: int = 0
        # Messages in memory, and paged lists with positions, that must get the new location.
        self.messages: list[Message] = []
        self.lists: list[ReadyList] = []
        self.positions: list[int] = []

    def settle(self, location: int) -> None:
        for message in self.messages:
            message.location = location
        for index, ready in enumerate(self.lists):
            ready.moved(self.positions[index], location)


class StoredQueue(QueueJournal):
    """The store as one queue sees it."""

    def __init__(self, store: MessageStore, number: int) -> None:
        self._store: MessageStore = store
        self._enqueued: EnqueuedEntries = store.enqueued
        self._dequeued: DequeuedEntries = store.dequeued
        self._number: int = number

    def prepare(self) -> PreparedRecords:
        return self._store.prepare(self._number)

    def enqueued(self, entry: QueueEntry) -> None:
        self._enqueued.add(self._number, entry)

    def dequeued(self, entry: QueueEntry) -> None:
        self._dequeued.add(self._number, entry)

    def dequeued_many(self, entries: list[QueueEntry]) -> None:
        self._dequeued.add_many(self._number, entries)

    def dequeued_tail(self, positions: "array[int]", locations: "array[int]") -> None:
        store = self._store
        if not may_be_spooled(locations):
            for segment, count in counts_by_segment(locations).items():
                store.lives.dequeued_unread(segment, count)
            self._dequeued.add_tail(self._number, positions)
            return
        gone: list[int] = []
        for index in range(len(positions)):
            location: int = locations[index]
            if not location & SPOOLED:
                gone.append(positions[index])
                store.lives.dequeued_unread(segment_of(location))
        if gone:
            self._dequeued.add_positions(self._number, gone)


class StoredDefinitions(DefinitionLog):
    """The store as virtual hosts and the broker's state see it."""

    def __init__(self, store: MessageStore) -> None:
        super().__init__()
        self._store: MessageStore = store

    def vhost_changed(self, vhost: str, command: VhostCommand) -> None:
        self.change_count += 1
        self._store.changed(vhost, command)

    def broker_changed(self, command: BrokerCommand) -> None:
        self.change_count += 1
        self._store.changed(None, command)


class StoredLists(ReadyLists):
    """Makes ready lists that page into journal and spool."""

    def __init__(self, store: MessageStore) -> None:
        self._store: MessageStore = store

    def make(self, max_priority: int) -> ReadyList:
        store = self._store
        pages = store.make_pages()
        if max_priority > 0:
            return PagedPriorityList(max_priority, pages, store.page_list, store.paging)
        return PagedReadyList(pages, store.page_list, store.paging)

    def gone(self, locations: "array[int]") -> None:
        if not may_be_spooled(locations):
            return
        for index in range(len(locations)):
            location: int = locations[index]
            if location & SPOOLED:
                self._store.spool.forget(location)
