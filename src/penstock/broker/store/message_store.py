"""The message store: what must be there after a restart, one batch of records per tick.

During a tick it only collects: entries that arrived, entries that left, definitions that changed.
`end_of_tick` writes all of it as one batch, so whatever belongs together (a transaction, a dead
letter's leaving one queue and reaching another) is there entirely or not at all. A message is
written once, however many queues it reached; one that left again within the tick not at all.

Invariants
- a message's `location` is set exactly while a record of it is on disk that some queue needs;
- `live` counts, per segment, the (queue, position) pairs in it that are still in their queues;
- nothing is confirmed before the flush that covers its batch.
"""

from array import array
from typing import Final

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
from penstock.broker.store.locations import counts_by_segment, may_be_spooled, stretches
from penstock.broker.store.pages import QueuePages
from penstock.broker.store.prepared_records import StoredRecords
from penstock.broker.store.record_run import RecordRun
from penstock.broker.store.segments import SegmentLives
from penstock.broker.store.spool import FILE_BYTES_MAX, SPOOLED, Spool
from penstock.broker.timers import WallClock
from penstock.broker.topology import BrokerCommand, DeclareQueue, OpenDelayLine, VhostCommand
from penstock.storage.journal import Journal
from penstock.storage.long_payload import LongPayload
from penstock.storage.segment import segment_of
from penstock.world.disk import Disk

NOT_WRITTEN: Final = -1


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

        # What this tick brought: entries that arrived with the numbers of their queues, entries
        # that left likewise, definitions.
        self._arrived: list[QueueEntry] = []
        self._arrived_numbers: list[int] = []
        self._run: RecordRun = RecordRun()
        # Whether entries of one message stand apart in them.
        self._is_mixed: bool = False
        self._left: list[QueueEntry] = []
        self._left_numbers: list[int] = []
        self._left_positions: dict[int, list[int]] = {}
        # Queue number, first position and how many: a whole tail at once.
        self._left_ranges: list[tuple[int, int, int]] = []
        self._changes: list[bytes] = []
        self._snapshot: bytes = b""
        # The segment of the latest snapshot: definitions in earlier ones do not count any more.
        self.snapshot_segment: int = 0
        # And entries that arrived together, with their records.
        self._prepared: list[StoredRecords] = []
        # Whether anything left that is not written, so that some of these may be gone.
        self._has_left_at_once: bool = False
        # Records that are copied out of an old segment, and where to note their new places.
        self._moved: list[MovedRecord] = []

    # What queues say.

    def arrived(self, number: int, entry: QueueEntry) -> None:
        message = entry.message
        if not message.is_journalled:
            message.is_journalled = True
        else:
            assert message.location == NOT_WRITTEN, "a message arrives everywhere in one tick"
            if not self._arrived or self._arrived[-1].message is not message:
                self._is_mixed = True
        self._arrived.append(entry)
        self._arrived_numbers.append(number)

    def left(self, number: int, entry: QueueEntry) -> None:
        # Here and not when the tick is written: whoever said it must hear of it, and nobody else.
        assert not entry.is_gone, "an entry leaves its queue once"
        # One that came in this very tick need not be written at all, and one that is written need
        # not be copied.
        entry.is_gone = True
        # Nor is one that is not persistent.
        if entry.message.location == NOT_WRITTEN:
            self._has_left_at_once = True
            return
        self._left.append(entry)
        self._left_numbers.append(number)

    def left_many(self, number: int, entries: list[QueueEntry]) -> None:
        for entry in entries:
            self.left(number, entry)

    def prepare(self, number: int) -> StoredRecords:
        """Records of entries that will arrive together in the queue of this number."""
        return StoredRecords(self._prepared, number, self.state.discarded)

    def left_by_position(self, number: int, positions: list[int]) -> None:
        known = self._left_positions.get(number)
        if known is None:
            self._left_positions[number] = positions
        else:
            known.extend(positions)

    def left_tail(self, number: int, positions: "array[int]") -> None:
        """Everything that a queue had paged out is gone, in order."""
        found = stretches(positions)
        if found is None:
            self.left_by_position(number, positions.tolist())
        else:
            for first, count in found:
                self._left_ranges.append((number, first, count))

    # What virtual hosts say.

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
        """From now on this queue's persistent messages are written down."""
        queue.number = number
        queue.journal = StoredQueue(self, number)
        ready = queue.journal_list()
        if isinstance(ready, (PagedReadyList, PagedPriorityList)):
            pages = ready.pages
            assert isinstance(pages, QueuePages)
            pages.number = number

    def attach_delay_line(self, line: DelayLine, number: int) -> None:
        """From now on persistent messages that wait in delayed exchanges are written down."""
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
        return bool(
            self._arrived
            or self._prepared
            or self._left
            or self._changes
            or self._snapshot
            or self._moved
            or self._left_positions
            or self._left_ranges
            or self.page_list
        )

    def end_of_tick(self) -> bool:
        """Write what this tick brought. True when something was written that a flush must cover."""
        wrote = False
        if (
            self._arrived
            or self._prepared
            or self._left
            or self._changes
            or self._snapshot
            or self._moved
            or self._left_positions
            or self._left_ranges
        ):
            wrote = self._write()
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
        written: list[Message] = []
        count = self._encode_arrived(pieces, size, written)
        size = self._size
        body_bytes = self._body_bytes
        prepared = self._prepared[:]
        # The same list stays, because records that are not ready yet know it.
        self._prepared.clear()
        # What comes before them in the batch.
        pieces_before = len(pieces)
        for stored in prepared:
            stored.offset = size
            size += stored.payload.size
            count += stored.count
            body_bytes += stored.body_bytes
        self._encode_gone(prepared)
        moved = self._moved
        self._moved = []
        for record in moved:
            record.offset = size
            size += records.append_raw(pieces, record.octets)
            count += record.pair_count
            body_bytes += record.body_bytes
        self._encode_left(pieces)
        if prepared:
            base = self.journal.append_long(_around(prepared, pieces, pieces_before))
        elif pieces:
            base = self.journal.append(b"".join(pieces))
        else:
            return False
        segment = segment_of(base)
        for message in written:
            message.location += base
        for stored in prepared:
            stored.written(base)
        if has_snapshot:
            self.snapshot_segment = segment
        self.lives.wrote(segment, count, body_bytes, has_definitions)
        for stored in prepared:
            for entry in stored.gone:
                self.lives.left(segment, 1, len(entry.message.body))
            stored.forget()
        # Before anything moves: a message may have left one queue and be moved for another.
        self._count_left()
        for record in moved:
            record.settle(base + record.offset)
            self.lives.left(record.old_segment, record.pair_count, record.body_bytes)
        return True

    def _encode_arrived(self, pieces: list[bytes], size: int, written: list[Message]) -> int:
        """Append message records; entries of one message stand together. Returns their number.

        The location of what is `written` is its offset in the batch until the batch has a place. If
        it gets none, the disk has failed and nothing is written any more.
        """
        if self._is_mixed:
            self._bring_together()
        arrived = self._arrived
        numbers = self._arrived_numbers
        self._arrived = []
        self._arrived_numbers = []
        count = 0
        body_bytes = 0
        index = 0
        total = len(arrived)
        wall_offset = self.wall.offset_ms
        while index < total:
            entry = arrived[index]
            message = entry.message
            following = index + 1
            if following == total or arrived[following].message is not message:
                if not entry.is_gone:
                    written.append(message)
                    message.location = size
                    size += self._run.append(pieces, entry, numbers[index], wall_offset)
                    count += 1
                    body_bytes += len(message.body)
                index = following
                continue
            group: list[QueueEntry] = []
            group_numbers: list[int] = []
            while index < total and arrived[index].message is message:
                if not arrived[index].is_gone:
                    group.append(arrived[index])
                    group_numbers.append(numbers[index])
                index += 1
            if not group:
                continue
            written.append(message)
            message.location = size
            size += records.append_message(
                pieces,
                message,
                message.properties.encoded(),
                message.address.octets(),
                group_numbers,
                group,
                wall_offset,
            )
            count += len(group)
            body_bytes += len(group) * len(message.body)
        self._size = size
        self._body_bytes = body_bytes
        return count

    def _bring_together(self) -> None:
        """A message came to one queue, another message came, and the first to one more queue."""
        places: dict[Message, list[int]] = {}
        for index, entry in enumerate(self._arrived):
            places.setdefault(entry.message, []).append(index)
        arrived: list[QueueEntry] = []
        numbers: list[int] = []
        for indices in places.values():
            for index in indices:
                arrived.append(self._arrived[index])
                numbers.append(self._arrived_numbers[index])
        self._arrived = arrived
        self._arrived_numbers = numbers
        self._is_mixed = False

    def _encode_gone(self, prepared: list[StoredRecords]) -> None:
        if self._has_left_at_once:
            self._has_left_at_once = False
            for stored in prepared:
                gone = stored.gone_positions()
                if gone:
                    # They may be few of many, so the records are written as they are.
                    self.left_by_position(stored.number, gone)

    def _encode_left(self, pieces: list[bytes]) -> None:
        by_queue: dict[int, list[bytes]] = {}
        for number, positions in self._left_positions.items():
            by_queue[number] = records.encode_ranges(positions)
        self._left_positions = {}
        # A queue's entries leave one after the other mostly: such a run is one range.
        number = 0
        first = 0
        following = -1
        for index, entry in enumerate(self._left):
            position = entry.position
            if position == following and self._left_numbers[index] == number:
                following += 1
                continue
            if number:
                ranges = by_queue.setdefault(number, [])
                ranges.append(records.encode_range(first, following - first))
            number = self._left_numbers[index]
            first = position
            following = position + 1
        if number:
            by_queue.setdefault(number, []).append(records.encode_range(first, following - first))
        for number, first, count in self._left_ranges:
            by_queue.setdefault(number, []).append(records.encode_range(first, count))
        self._left_ranges = []
        for number, ranges in by_queue.items():
            records.append_dequeued(pieces, number, ranges)

    def _count_left(self) -> None:
        # Mostly all of them lie in one segment, or in two.
        segment = 0
        count = 0
        body_bytes = 0
        for entry in self._left:
            message = entry.message
            if segment_of(message.location) != segment:
                self.lives.left(segment, count, body_bytes)
                segment = segment_of(message.location)
                count = 0
                body_bytes = 0
            count += 1
            body_bytes += len(message.body)
        self.lives.left(segment, count, body_bytes)
        self._left = []
        self._left_numbers = []

    # Sizes are carried from one encoding step to the next.
    _size: int = 0
    _body_bytes: int = 0


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
        # Messages in memory, and paged lists with positions, that must know the new place.
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
        self._number: int = number

    def prepare(self) -> PreparedRecords:
        return self._store.prepare(self._number)

    def enqueued(self, entry: QueueEntry) -> None:
        self._store.arrived(self._number, entry)

    def dequeued(self, entry: QueueEntry) -> None:
        self._store.left(self._number, entry)

    def dequeued_many(self, entries: list[QueueEntry]) -> None:
        self._store.left_many(self._number, entries)

    def dequeued_tail(self, positions: "array[int]", locations: "array[int]") -> None:
        store = self._store
        if not may_be_spooled(locations):
            for segment, count in counts_by_segment(locations).items():
                store.lives.left_unread(segment, count)
            store.left_tail(self._number, positions)
            return
        gone: list[int] = []
        for index in range(len(positions)):
            location: int = locations[index]
            if not location & SPOOLED:
                gone.append(positions[index])
                store.lives.left_unread(segment_of(location))
        if gone:
            store.left_by_position(self._number, gone)


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
