"""The message store: what must be there after a restart, one batch of records per tick.

During a tick it only collects: entries that were enqueued, entries that were dequeued, definitions
that changed. `end_of_tick` writes all of it as one batch, so whatever belongs together (a
transaction, a dead letter that leaves one queue and reaches another) is there entirely or not at
all. A message is written once, however many queues it reached; one that was dequeued within the
same tick is not written.

The batch begins with what the tick changed: definitions, messages, positions that left. In a cluster
this part is one operation, and the backups get the same octets. Behind it comes housekeeping, which
concerns this store alone: a snapshot of the definitions, records that are copied out of an old
segment, how far the stream of operations was applied.

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
from penstock.broker.queue_notes import write_returns
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.paged_list import PagedReadyList, PagingLimits
from penstock.broker.queues.position_runs import progression
from penstock.broker.queues.priority import PagedPriorityList
from penstock.broker.queues.queue_journal import PreparedRecords, QueueJournal, ReadyLists
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.shared_services import SharedServices
from penstock.broker.state import BrokerState
from penstock.broker.store import records
from penstock.broker.store.appended_blocks import AppendedBlocks
from penstock.broker.store.batch import Batch
from penstock.broker.store.definition_records import Change, encode_change
from penstock.broker.store.dequeued_entries import DequeuedEntries
from penstock.broker.store.enqueued_entries import EncodedEntries, EnqueuedEntries
from penstock.broker.store.locations import counts_by_segment, may_be_spooled
from penstock.broker.store.operation_log import OperationLog
from penstock.broker.store.pages import QueuePages
from penstock.broker.store.prepared_records import StoredRecords
from penstock.broker.store.segments import SegmentLives
from penstock.broker.store.spool import FILE_BYTES_MAX, SPOOLED, Spool
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.timers import WallClock
from penstock.broker.topology import (
    BrokerCommand,
    DeclareQueue,
    NumberFrom,
    OpenDelayLine,
    VhostCommand,
)
from penstock.formats.replication_id import first_id
from penstock.storage.journal import Journal
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
        self._shared: SharedServices = state.shared
        self.paging: PagingLimits = PagingLimits() if paging is None else paging
        self.spool: Spool = Spool(disk, spool_bytes_max)
        self.lives: SegmentLives = SegmentLives()
        # Of the root that numbers queues and positions; 0 without a cluster.
        self.epoch: int = 0
        self.next_queue_number: int = first_id(0)
        # The stream of operations that ticks become part of; None without a cluster, and on a
        # backup.
        self.operations: OperationLog | None = None
        # Epoch and k of the last operation that the state contains, (0, 0) without a cluster; and the
        # latest segment in which the journal says so.
        self.syn: tuple[int, int] = (0, 0)
        self.syn_segment: int = 0
        # Of a member of a cluster.
        self.streams: ReplicatedStreams | None = None
        # Queues whose lists have something to page out at the end of this tick.
        self.page_list: list[PagedReadyList] = []

        # What this tick brought.
        self.enqueued: EnqueuedEntries = EnqueuedEntries()
        self.dequeued: DequeuedEntries = DequeuedEntries()
        self._changes: list[bytes] = []
        self._snapshot: bytes = b""
        self._repeats_syn: bool = False
        # The segment of the latest snapshot: definitions in earlier ones do not count any more.
        self.snapshot_segment: int = 0
        # And entries that were enqueued together, with their records.
        self._prepared: list[StoredRecords] = []
        # Records that are copied out of an old segment, and where to note their new places.
        self._moved: list[MovedRecord] = []
        # On a backup: messages of a SYNC that is not done, by queue number. They are not part of the
        # state, and what is copied of them is a batch of its own.
        self.staged: dict[int, ReplicaList] = {}
        self._moved_staged: list[MovedRecord] = []

    # Calls from queues.

    def prepare(self, number: int, journals_all: bool) -> StoredRecords:
        """Records of entries that will be enqueued together in the queue of this number."""
        return StoredRecords(self._prepared, number, self.state.discarded, journals_all)

    # Calls from virtual hosts.

    def changed(
        self, vhost: str | None, command: VhostCommand | BrokerCommand, gone_number: int
    ) -> None:
        assert not self._snapshot, "a snapshot counts for all changes of its tick"
        number = 0
        if isinstance(command, DeclareQueue) and vhost is not None:
            queue = self.state.vhost(vhost).queues[command.name]
            # What a queue holds that does not last is never written, so it has no number.
            if queue.is_lasting:
                number = self._take_number()
                self.attach(queue, number)
                queue.begin_epoch(self.epoch)
        elif isinstance(command, OpenDelayLine) and vhost is not None:
            number = self._take_number()
            line = self.state.vhost(vhost).delay_line
            self.attach_delay_line(line, number)
            line.begin_epoch(self.epoch)
        elif isinstance(command, NumberFrom):
            self.epoch = command.epoch
            self.next_queue_number = max(self.next_queue_number, first_id(self.epoch))
        gone = [gone_number] if gone_number else None
        self._changes.append(encode_change(Change(vhost, command, number, gone)))

    def _take_number(self) -> int:
        number = self.next_queue_number
        self.next_queue_number += 1
        return number

    def attach(self, queue: MessageQueue, number: int) -> None:
        """From now on this queue's persistent messages are written to the journal."""
        queue.number = number
        queue.journal = StoredQueue(self, number, queue.journals_all)
        ready = queue.journal_list()
        if isinstance(ready, (PagedReadyList, PagedPriorityList)):
            pages = ready.pages
            assert isinstance(pages, QueuePages)
            pages.number = number
            pages.journals_all = queue.journals_all

    def attach_delay_line(self, line: DelayLine, number: int) -> None:
        """From now on persistent messages that wait in delayed exchanges are written to the
        journal.
        """
        line.number = number
        line.journal = StoredQueue(self, number, line.journals_all)

    def move(self, moved: "MovedRecord", old_segment: int) -> None:
        """Copy a record to the end of the journal with this tick's batch."""
        moved.old_segment = old_segment
        if moved.is_staged:
            self._moved_staged.append(moved)
        else:
            self._moved.append(moved)

    def add_snapshot(self, text: bytes) -> None:
        """Write everything that is defined at the end of this tick; definitions before it in the
        journal, those of this tick included, do not count at the next start.
        """
        # It has them, but backups have not.
        write_returns(self._shared)
        self._snapshot = text

    def repeat_syn(self) -> None:
        """Write with this tick how far the stream of operations was applied, unless the tick is an
        operation, which says it.
        """
        self._repeats_syn = True

    def note_syn(self, epoch: int, k: int, segment: int) -> None:
        """The state contains the stream of an epoch up to operation k, and a record in this segment
        says so.
        """
        self.syn = (epoch, k)
        self.syn_segment = segment

    def make_pages(self) -> QueuePages:
        """For the ready list of a new queue."""
        return QueuePages(self.journal, self.spool, self.decoder, self.wall)

    # Ticks.

    def has_pending(self) -> bool:
        return self.has_records() or bool(self.page_list or self._moved_staged)

    def has_records(self) -> bool:
        """Whether the tick has brought something that is not written yet."""
        return bool(
            not self.enqueued.is_empty()
            or self._prepared
            or not self.dequeued.is_empty()
            or self._changes
            or self._snapshot
            or self._moved
            or self._repeats_syn
            or self._shared.returned
            or (self.streams is not None and self.streams.busy.touched)
        )

    def end_of_tick(self) -> bool:
        """Write what this tick brought. True when something was written that a flush must cover."""
        if self._shared.returned:
            write_returns(self._shared)
        wrote = self.has_records() and self._write()
        if self._moved_staged:
            self._write_staged()
            wrote = True
        if self.page_list:
            listed = self.page_list[:]
            # Cleared first: one that has more to page out lists itself for the next tick.
            self.page_list.clear()
            for ready in listed:
                ready.page_out()
            self.spool.write()
        return wrote

    def _write_staged(self) -> None:
        """Copies of messages that are staged, and stay so."""
        moved = self._moved_staged
        self._moved_staged = []
        pieces = [records.STAGED_RECORD]
        size = records.HEAD_SIZE
        for record in moved:
            record.offset = size
            size += records.append_raw(pieces, record.octets)
        base = self.journal.append(b"".join(pieces))
        for record in moved:
            self.lives.wrote(segment_of(base), record.pair_count, record.body_bytes, False)
            record.settle(base + record.offset)
            self.lives.dequeued(record.old_segment, record.pair_count, record.body_bytes)

    def append_tick(self) -> None:
        """A journal position for a tick that wrote to streams only."""
        self.journal.append(records.TICK_RECORD)
        if self.operations is not None:
            self.operations.wrote_housekeeping(self.journal.position)

    def _write(self) -> bool:
        batch = Batch(self.operations)
        appends = self._take_appends()
        has_definitions = bool(self._snapshot or self._changes or appends.streams)
        for text in self._changes:
            batch.size += records.append_text(batch.pieces, records.DEFINITION, text)
        self._changes = []
        batch.size += appends.encode(batch.pieces, batch.size)
        encoded = self.enqueued.encode(batch.pieces, batch.size, self.wall.offset_ms)
        batch.size = encoded.size
        prepared = self._prepared[:]
        # The list object stays the same, because unfinished records refer to it.
        self._prepared.clear()
        for stored in prepared:
            batch.add_prepared(stored)
            encoded.pair_count += stored.count
            encoded.body_bytes += stored.body_bytes
        self.dequeued.add_gone(prepared)
        batch.size += self.dequeued.encode(batch.pieces)
        batch.size += appends.encode_truncated(batch.pieces)
        batch.end_operation()
        has_snapshot, repeats_syn = bool(self._snapshot), self._repeats_syn
        moved = self._moved
        self._add_housekeeping(batch, encoded)
        if not batch.size:
            return False
        base = batch.append_to(self.journal)
        segment = segment_of(base)
        for message in encoded.messages:
            message.location += base
        for stored in prepared:
            stored.written(base)
        if self.streams is not None:
            appends.written(self.streams, batch.beginning(), base, self.journal.position)
            if appends.blocks:
                self.lives.wrote_blocks(segment, len(appends.blocks), appends.octets, True)
        if has_snapshot:
            self.snapshot_segment = segment
        if batch.operation_size:
            self.note_syn(batch.epoch, batch.k, segment)
        elif repeats_syn:
            self.syn_segment = segment
        self.lives.wrote(segment, encoded.pair_count, encoded.body_bytes, has_definitions)
        for stored in prepared:
            for entry in stored.gone:
                self.lives.dequeued(segment, 1, len(entry.message.body))
            stored.forget()
        # Before anything moves: a message may be dequeued from one queue and be moved for another.
        self.dequeued.count_into(self.lives)
        for record in moved:
            record.settle(base + record.offset)
            self.lives.dequeued(record.old_segment, record.pair_count, record.body_bytes)
        # Last: the stream of operations may find it committed at once.
        batch.tell(self.journal.position)
        return True

    def _take_appends(self) -> AppendedBlocks:
        """What the tick brought to replicated streams; what these know beside their messages becomes
        a definition.
        """
        streams = self.streams
        appends = AppendedBlocks(self.epoch)
        if streams is None or not streams.busy.touched:
            return appends
        for files in streams.busy.take_touched():
            if files.values.has_changed():
                change = Change(files.vhost_name, files.values.take_change(files.name), 0)
                self._changes.append(encode_change(change))
            appends.add(files)
        return appends

    def _add_housekeeping(self, batch: Batch, encoded: EncodedEntries) -> None:
        """What concerns this store alone."""
        if self._snapshot:
            batch.size += records.append_text(batch.pieces, records.SNAPSHOT, self._snapshot)
            self._snapshot = b""
        for record in self._moved:
            record.offset = batch.size
            batch.size += records.append_raw(batch.pieces, record.octets)
            encoded.pair_count += record.pair_count
            encoded.body_bytes += record.body_bytes
        self._moved = []
        if self._repeats_syn and not batch.operation_size:
            epoch, k = self.syn
            octets = records.position_record(epoch, k)
            batch.size += records.append_raw(batch.pieces, octets)
        self._repeats_syn = False


class MovedRecord:
    """A live message record on its way from an old segment to the newest; or a row of them, which are
    all of one list.
    """

    def __init__(self, octets: bytes, pair_count: int) -> None:
        self.octets: bytes = octets
        self.pair_count: int = pair_count
        # The body's, once per pair.
        self.body_bytes: int = 0
        self.offset: int = 0
        self.old_segment: int = 0
        # Whether it is one that a backup has staged.
        self.is_staged: bool = False
        # Messages in memory, and paged lists with positions, that must get the new location.
        self.messages: list[Message] = []
        self.lists: list[ReadyList] = []
        self.positions: list[int] = []
        # Of a row: how many records, and the octets of each. Its list and its first position are the
        # only ones.
        self.count: int = 1
        self.size: int = 0

    def settle(self, location: int) -> None:
        if self.count > 1:
            row = progression(location, self.count, self.size)
            self.lists[0].moved_row(self.positions[0], row)
            return
        for message in self.messages:
            message.location = location
        for index, ready in enumerate(self.lists):
            ready.moved(self.positions[index], location)


class StoredQueue(QueueJournal):
    """The store as one queue sees it."""

    def __init__(self, store: MessageStore, number: int, journals_all: bool) -> None:
        self._store: MessageStore = store
        self._journals_all: bool = journals_all
        self._enqueued: EnqueuedEntries = store.enqueued
        self._dequeued: DequeuedEntries = store.dequeued
        self._number: int = number

    def prepare(self) -> PreparedRecords:
        return self._store.prepare(self._number, self._journals_all)

    def enqueued(self, entry: QueueEntry) -> None:
        self._enqueued.add(self._number, entry)

    def dequeued(self, entry: QueueEntry) -> None:
        self._dequeued.add(self._number, entry)

    def dequeued_many(self, entries: list[QueueEntry]) -> None:
        self._dequeued.add_many(self._number, entries)

    def dequeued_tail(
        self, positions: "array[int]", locations: "array[int]", body_bytes: int
    ) -> None:
        store = self._store
        if not may_be_spooled(locations):
            for segment, count in counts_by_segment(locations).items():
                store.lives.dequeued_unread(segment, count)
            self._dequeued.add_tail(self._number, positions, body_bytes)
            return
        gone: list[int] = []
        for index in range(len(positions)):
            location: int = locations[index]
            if not location & SPOOLED:
                gone.append(positions[index])
                store.lives.dequeued_unread(segment_of(location))
        if gone:
            # With the bodies of those that were spooled. A replicated queue has none of these, and
            # nobody else adds up what left.
            self._dequeued.add_positions(self._number, gone, body_bytes)


class StoredDefinitions(DefinitionLog):
    """The store as virtual hosts and the broker's state see it."""

    def __init__(self, store: MessageStore, hears_transient: bool = False) -> None:
        super().__init__()
        self._store: MessageStore = store
        self.hears_transient = hears_transient

    def vhost_changed(self, vhost: str, command: VhostCommand, gone_number: int = 0) -> None:
        self.change_count += 1
        self._store.changed(vhost, command, gone_number)

    def broker_changed(self, command: BrokerCommand, gone_number: int = 0) -> None:
        self.change_count += 1
        self._store.changed(None, command, gone_number)


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
