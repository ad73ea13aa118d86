"""The files of a stream of a server that is not a member of a cluster: everything it knows is there."""

from collections import deque
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message, Properties
from penstock.broker.queues.queue_journal import QueueJournal
from penstock.broker.sent import ID_OCTETS, Sent, sent_of
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.files import (
    DUPLICATE,
    FIRST_OFFSET,
    NO_LIMIT,
    SafeListener,
    StreamFiles,
)
from penstock.broker.streams.folders import names_in
from penstock.broker.streams.journalled_appends import JournalledAppends
from penstock.broker.streams.notes import StreamNotes
from penstock.broker.streams.rows import StreamRows
from penstock.formats.stream_index import HAS_PUBLISHER, NOTED
from penstock.storage.number_table import NumberTable
from penstock.storage.stream_log import StreamLog
from penstock.storage.stream_segment import StreamSegment, segment_number
from penstock.world.disk import AppendFile, DiskError, DiskFull

# Retention writes before it removes, so it waits while less is free: a block of a file system,
# which the smallest file takes. What it would remove stays a while longer.
RETENTION_ROOM_BYTES: Final = 4096


class FlushRequest:
    """What may be removed once a flush is done."""

    def __init__(
        self,
        table_generation: int,
        doomed: list[StreamSegment],
        leftovers: list[str],
        notes: list[AppendFile],
        removes_all: bool,
    ) -> None:
        self.table_generation: int = table_generation
        self.doomed: list[StreamSegment] = doomed
        self.leftovers: list[str] = leftovers
        self.notes: list[AppendFile] = notes
        self.removes_all: bool = removes_all


class LocalFiles(StreamFiles):
    """Held by one stream, and by the store while it waits for a flush."""

    def __init__(
        self,
        store: StreamStore,
        folder: str,
        names: list[str],
        segment_bytes_max: int,
        wall: int,
        journalled: JournalledAppends,
    ) -> None:
        """Opens what is there, or begins anew. Raises a `StorageError` for damage."""
        self.journalled: JournalledAppends = journalled
        self._folder: str = folder
        own = names_in(folder, names)
        table = NumberTable(store.disk, f"{folder}/cursors", own)
        self._table: NumberTable = table
        first_offset = table.numbers.get(FIRST_OFFSET, 0)
        # Segments that retention had given up and that are still there, or that a power loss
        # restored.
        self._leftovers: list[str] = [
            name for name in own if 0 <= segment_number(folder, name) < first_offset
        ]
        kept = [name for name in own if name not in self._leftovers]
        log = StreamLog(
            store.disk,
            folder,
            kept,
            segment_bytes_max,
            wall,
            first_offset,
            store.durable_ends.get(folder, 0),
        )
        if log.first_offset > first_offset and log.end_offset == log.first_offset:
            # The log begins anew after the lost messages.
            table.put(FIRST_OFFSET, log.first_offset)
            table.write()
        self.notes: StreamNotes = StreamNotes(store, folder, own, log)
        super().__init__(store, log, table, self.notes.publishers)
        # The last properties without a publisher, so that messages that share them are not
        # searched.
        self._unnamed: Properties | None = None
        # Segments that retention gave up, until their flush is asked for; and what each flush that
        # is on its way will allow to be removed, in order.
        self._doomed: list[StreamSegment] = []
        self._requests: deque[FlushRequest] = deque()
        self._is_deleted: bool = False
        # After a crash the page cache may hold more than the disk.
        store.wrote(self, self.log.dirty_files() + table.file() + self.notes.files())

    def begin(self, listener: SafeListener, journal: QueueJournal | None) -> None:
        """Messages that the journal has and the files have lost are appended once more."""
        self.listener = listener
        for lost in self.journalled.begin(journal, listener, self.log.end_offset):
            sent = sent_of(lost.properties)
            if sent is not None:
                self._check_and_note(sent, True)
            self._hand(lost, sent)

    # Writing.

    def end_offset(self) -> int:
        return self.log.end_offset + self.log.composed_count + self.journalled.count

    def add(self, message: Message, wall: int) -> int:
        properties = message.properties
        header = properties.encoded()
        is_handed = self.journalled.wants(message)
        if not is_handed:
            # This comes before the sequence is noted: a new segment's note covers only earlier
            # messages.
            self.begin_if_full(wall)
        sent: Sent | None = None
        if properties is not self._unnamed:
            sent = sent_of(properties) if ID_OCTETS in header else None
            if sent is None:
                self._unnamed = properties
        offset = DUPLICATE
        if sent is not None and self._check_and_note(sent, is_handed):
            if is_handed:
                self.journalled.confirm_behind(message)
        elif is_handed:
            offset = self._hand(message, sent)
        else:
            flags = 0 if sent is None else HAS_PUBLISHER
            offset = self.log.add(message.address.octets(), header, message.body, flags, wall)
            if flags:
                self.notes.published(offset)
            if self.log.is_full_batch():
                self.write()
        if self._store.is_flushed:
            message.is_journalled = True
        return offset

    def _check_and_note(self, sent: Sent, is_handed: bool) -> bool:
        if is_handed:
            return self.journalled.check_and_note(sent, self.publishers)
        return self.publishers.check_and_note(sent)

    def _hand(self, message: Message, sent: Sent | None) -> int:
        offset = self.end_offset()
        self.journalled.add(message, sent, offset)
        return offset

    def end_of_tick(self, wall: int) -> None:
        self.append_pending(wall)
        self.write()

    def append_pending(self, wall: int) -> None:
        """Compose what came through the journal and is durable there, and what waited behind it."""
        handed = self.journalled.take()
        while handed is not None:
            self.begin_if_full(wall)
            if handed.rows is not None:
                offset = self._compose(handed.rows, wall)
                assert offset == handed.offset, "nothing overtakes what is handed over"
                handed = self.journalled.take()
                continue
            flags = 0
            if handed.sent is not None:
                self.publishers.check_and_note(handed.sent)
                flags = HAS_PUBLISHER
            message = handed.message
            header = message.properties.encoded()
            address = message.address.octets()
            offset = self.log.add(address, header, message.body, flags, wall)
            assert offset == handed.offset, "nothing overtakes what is handed over"
            if flags:
                self.notes.published(offset)
            if self.log.is_full_batch():
                self.write()
            handed = self.journalled.take()

    def add_rows(self, rows: StreamRows, wall: int) -> int:
        if self.journalled.count:
            offset = self.end_offset()
            self.journalled.add_rows(rows, offset)
            return offset
        self.begin_if_full(wall)
        return self._compose(rows, wall)

    def _compose(self, rows: StreamRows, wall: int) -> int:
        # Nothing is written before all of it is composed: its note covers it as a whole, and one
        # segment holds both.
        offset = self.log.end_offset + self.log.composed_count
        for span in rows.spans:
            payloads = span.payloads()
            self.log.add_repeats(
                span.run.address, span.run.header, payloads, span.count, NOTED, wall
            )
        self.notes.staged(rows.stage, rows.end, offset)
        if self.log.is_full_batch():
            self.write()
        return offset

    def begin_if_full(self, wall: int) -> None:
        """Begin a segment when the last one is full. Comes before each message."""
        if self.log.must_roll() and not self._store.failure:
            try:
                self._begin_segment()
                self.retain(wall)
            except DiskError as error:
                self._store.failure = str(error)

    def _begin_segment(self) -> None:
        self.log.roll()
        self._store.wrote(self, [self.notes.begin_segment()])

    def write(self) -> None:
        """Append what was composed since the last time. If the disk fails, the broker stops at the
        end of the tick, and nothing that was to be written is confirmed.
        """
        if self.log.composed_count and not self._store.failure:
            try:
                self.log.write()
                noted = self.notes.write()
            except DiskError as error:
                self._store.failure = str(error)
                return
            self._store.wrote(self, self.log.dirty_files() + noted)

    def keep_stages(self, stages: set[str]) -> None:
        self.notes.keep_stages(stages)

    def forget_stage(self, stage: str) -> None:
        self.notes.forget_stage(stage)

    def waiting(self) -> list[QueueEntry]:
        return self.journalled.waiting()

    def mark(self) -> int:
        leftovers = self._leftovers
        if self.notes.is_owed and not self._is_deleted:
            # Only the notes record publishers.
            leftovers = []
        else:
            self._leftovers = []
        self._requests.append(
            FlushRequest(
                self._table.generation,
                self._doomed,
                leftovers,
                self.notes.take_stale(),
                self._is_deleted,
            )
        )
        self._doomed = []
        self.log.flush_requested()
        return self.log.end_offset

    def became_durable(self, mark: int, now: int) -> None:
        request = self._requests.popleft()
        for note in request.notes:
            note.close()
        for segment in request.doomed:
            self._remove(segment)
        for name in request.leftovers:
            self._store.disk.remove(name)
        if request.removes_all:
            for segment in self.log.segments:
                self._remove(segment)
            self.notes.close()
            self._table.delete()
        if self._is_deleted:
            return
        self.log.became_durable(mark)
        self.journalled.appended(self.log.durable_offset)
        self._table.became_durable(request.table_generation)
        if self.listener is not None:
            self.listener.became_readable()

    def _remove(self, segment: StreamSegment) -> None:
        segment.remove()
        self.notes.remove(segment.first_offset)

    # Cursors.

    def write_cursors(self) -> None:
        if self._store.failure:
            return
        try:
            if self._table.write():
                self._store.wrote(self, self._table.file())
        except DiskError as error:
            self._store.failure = str(error)

    # Retention.

    def retain(self, wall: int) -> None:
        if not self.has_retention() or not self._has_room_to_retain():
            return
        oldest = NO_LIMIT if self.age_ms_max == NO_LIMIT else wall - self.age_ms_max
        doomed = self.log.take_doomed(self.bytes_max, oldest)
        if doomed:
            self._doomed.extend(doomed)
            self.cursors.put(FIRST_OFFSET, self.log.first_offset)
            self.write_cursors()

    def _has_room_to_retain(self) -> bool:
        """Older records of publishers may be removed only when the last segment's note has them."""
        try:
            if self._store.disk.free_bytes() < RETENTION_ROOM_BYTES:
                return False
            if self.notes.is_owed:
                self._store.wrote(self, self.notes.begin_owed())
        except DiskFull:
            return False
        except DiskError as error:
            self._store.failure = str(error)
        return not self._store.failure

    def delete(self) -> None:
        self.listener = None
        self.journalled.delete()
        self._is_deleted = True
        self._store.wrote(self, [])
