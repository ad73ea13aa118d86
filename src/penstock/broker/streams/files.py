"""What a stream has on disk: its log, its cursors, and what it knows of publishers.

Invariant: readers see a message only when it is durable, because an offset that was seen must never
refer to another message.
"""

from collections import deque
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.message import Message, Properties
from penstock.broker.queues.message_queue import NO_AGE
from penstock.broker.queues.queue_journal import QueueJournal
from penstock.broker.sent import ID_OCTETS, Sent, sent_of
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.folders import names_in
from penstock.broker.streams.journalled_appends import AppendListener, JournalledAppends
from penstock.broker.streams.notes import StreamNotes
from penstock.broker.streams.publishers import Publishers
from penstock.broker.streams.rows import StreamRows
from penstock.broker.timers import NEVER, Timer, Timers, WallClock
from penstock.formats.stream_index import HAS_PUBLISHER, NOTED
from penstock.storage.flush_waiter import FlushWaiter
from penstock.storage.number_table import NumberTable
from penstock.storage.stream_log import StreamLog
from penstock.storage.stream_segment import StoredEntry, StreamSegment, segment_number
from penstock.world.disk import AppendFile, DiskError, DiskFull

NO_LIMIT: Final = -1
# In place of an offset.
DUPLICATE: Final = -1
# Stored among the cursors: the first offset that retention left; no cursor has this name.
FIRST_OFFSET: Final = ""
# The amount that a reader which lags behind reads at once.
READ_COUNT_MAX: Final = 256
READ_BYTES_MAX: Final = 256 * 1024
# Retention writes before it removes, so it waits while less is free: a block of a file system,
# which the smallest file takes. What it would remove stays a while longer.
RETENTION_ROOM_BYTES: Final = 4096
# Age is checked this often; a segment is removed at most this much too late.
RETENTION_MS: Final = 10_000


@mypyc_attr(allow_interpreted_subclasses=True)
class SafeListener(AppendListener):
    """Who is told that readers may see more: the stream."""

    def became_readable(self) -> None:
        raise NotImplementedError


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


class StreamFiles(FlushWaiter):
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
        self._store: StreamStore = store
        self.journalled: JournalledAppends = journalled
        self._folder: str = folder
        own = names_in(folder, names)
        self.cursors: NumberTable = NumberTable(store.disk, f"{folder}/cursors", own)
        first_offset = self.cursors.numbers.get(FIRST_OFFSET, 0)
        # Segments that retention had given up and that are still there, or that a power loss
        # restored.
        self._leftovers: list[str] = [
            name for name in own if 0 <= segment_number(folder, name) < first_offset
        ]
        kept = [name for name in own if name not in self._leftovers]
        self.log: StreamLog = StreamLog(
            store.disk,
            folder,
            kept,
            segment_bytes_max,
            wall,
            first_offset,
            store.durable_ends.get(folder, 0),
        )
        if self.log.first_offset > first_offset and self.log.end_offset == self.log.first_offset:
            # The log begins anew after the lost messages.
            self.cursors.put(FIRST_OFFSET, self.log.first_offset)
            self.cursors.write()
        self.notes: StreamNotes = StreamNotes(store, folder, own, self.log)
        self.publishers: Publishers = self.notes.publishers
        # The last properties without a publisher, so that messages that share them are not
        # searched.
        self._unnamed: Properties | None = None
        self.listener: SafeListener | None = None
        # Retention; NO_LIMIT for none.
        self.bytes_max: int = NO_LIMIT
        self.age_ms_max: int = NO_LIMIT
        # Segments that retention gave up, until their flush is asked for; and what each flush that
        # is on its way will allow to be removed, in order.
        self._doomed: list[StreamSegment] = []
        self._requests: deque[FlushRequest] = deque()
        self._is_deleted: bool = False
        # The last message that was read from the log; its address and properties serve its repeats.
        self._repeated_entry: StoredEntry | None = None
        self._repeated_message: Message | None = None
        # After a crash the page cache may hold more than the disk.
        store.wrote(self, self.log.dirty_files() + self.cursors.file() + self.notes.files())

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
        """The offset of the next message."""
        return self.log.end_offset + self.log.composed_count + self.journalled.count

    def add(self, message: Message, wall: int) -> int:
        """Append a message; returns its offset, or DUPLICATE for one that is here already: it is
        confirmed once more, when that is durable, and not stored.
        """
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
        """Append the rows of a sink's block, all of them or, after a crash, none; returns the
        offset of the first.
        """
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

    def mark(self) -> int:
        leftovers = self._leftovers
        if self.notes.is_owed and not self._is_deleted:
            # Only the notes record publishers.
            leftovers = []
        else:
            self._leftovers = []
        self._requests.append(
            FlushRequest(
                self.cursors.generation,
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
            self.cursors.delete()
        if self._is_deleted:
            return
        self.log.became_durable(mark)
        self.journalled.appended(self.log.durable_offset)
        self.cursors.became_durable(request.table_generation)
        if self.listener is not None:
            self.listener.became_readable()

    def _remove(self, segment: StreamSegment) -> None:
        segment.remove()
        self.notes.remove(segment.first_offset)

    def readable_offset(self) -> int:
        """Readers may see the messages before it."""
        return self.log.durable_offset

    # Reading.

    def read(self, offset: int) -> list[Message]:
        """Messages from an offset on; at least one. Raises `Damaged`."""
        found: list[Message] = []
        for stored in self.log.read(offset, READ_COUNT_MAX, READ_BYTES_MAX):
            entry = self._repeated_entry
            repeated = self._repeated_message
            if (
                repeated is not None
                and entry is not None
                and stored.header == entry.header
                and stored.address == entry.address
            ):
                message = Message(
                    repeated.address, repeated.properties, stored.body, repeated.origin
                )
            else:
                message = self._store.decoder.decode(
                    stored.exchange, stored.routing_key, stored.header, stored.body
                )
                self._repeated_entry = stored
                self._repeated_message = message
            found.append(message)
        return found

    # Cursors.

    def write_cursors(self) -> None:
        if self._store.failure:
            return
        try:
            if self.cursors.write():
                self._store.wrote(self, self.cursors.file())
        except DiskError as error:
            self._store.failure = str(error)

    # Retention.

    def limit(self, bytes_max: int, age_ms_max: int, segment_bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.age_ms_max = age_ms_max
        self.log.segment_bytes_max = max(segment_bytes_max, 1)

    def has_retention(self) -> bool:
        return self.bytes_max != NO_LIMIT or self.age_ms_max != NO_LIMIT

    def retain(self, wall: int) -> None:
        """Give up segments that are too many or too old at this wall-clock time."""
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

    def age_ms_of(self, offset: int, wall: int) -> int:
        """Of the message of an offset, when the wall clock shows this; NO_AGE when there is none."""
        for segment in self.log.segments:
            place = offset - segment.first_offset
            if 0 <= place < segment.count:
                return max(wall - segment.entry(place).timestamp, 0)
        return NO_AGE

    def delete(self) -> None:
        """Everything is removed with the next flush; until then a flush may still use the files."""
        self.listener = None
        self.journalled.delete()
        self._is_deleted = True
        self._store.wrote(self, [])


class RetentionTimer(Timer):
    """Held by a stream with a limit of age or size."""

    def __init__(self, files: StreamFiles, timers: Timers, wall: WallClock) -> None:
        super().__init__()
        self._files: StreamFiles = files
        self._timers: Timers = timers
        self._wall: WallClock = wall

    def start(self, now: int) -> None:
        if self.due == NEVER and self._files.has_retention():
            self._timers.schedule(self, now + RETENTION_MS)

    def fire(self, now: int) -> None:
        self._files.retain(self._wall.at(now))
        self.start(now)
