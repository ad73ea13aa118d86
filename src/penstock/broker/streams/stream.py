"""A stream: a queue that only grows at its end and is read by offset, without being used up.

It is used like any queue (declared, bound, published to, consumed from), but a consumer removes
nothing: it has a position of its own, and an acknowledgement gives it credit for more and moves its
cursor. Messages are written to the log once per tick, and old ones are removed with their segment.
"""

from typing import Final

from penstock.broker.arguments import NONE, QueueArguments
from penstock.broker.consumer import Consumer
from penstock.broker.entry import BROKER_ITSELF, NO_HOLDER, QueueEntry, take_back
from penstock.broker.message import Address, Message, Properties
from penstock.broker.names import described
from penstock.broker.queues.consumers import BATCH_BYTES_MAX, BATCH_COUNT_MAX
from penstock.broker.queues.message_queue import MessageQueue, QueueOwner
from penstock.broker.queues.queue_journal import JournalledMessages
from penstock.broker.queues.reading import Reading, ReadPosition, Start, StartKind
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.walk import Walk
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.cursors import StreamCursors
from penstock.broker.streams.files import DUPLICATE, RetentionTimer, SafeListener, StreamFiles
from penstock.broker.streams.folders import folder_of
from penstock.broker.streams.journalled_appends import JournalledAppends
from penstock.broker.streams.lasting_queue import LastingQueue
from penstock.broker.streams.local_files import LocalFiles
from penstock.broker.streams.looking import first_entries, look_on
from penstock.broker.streams.read_position import StreamEntry, StreamReader
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.streams.rows import StreamRows
from penstock.broker.streams.stream_values import StreamValues
from penstock.broker.streams.tail import StreamTail
from penstock.broker.timers import WallClock
from penstock.storage.errors import Damaged
from penstock.storage.stream_facts import SegmentFacts, segment_facts
from penstock.storage.stream_log import SEGMENT_BYTES_DEFAULT

# Messages that a filter may skip in one tick for one reader, so that others do not wait long.
PASSED_OVER_MAX: Final = 4096


class _NoProperties(Properties):
    def headers(self) -> dict[str, object]:
        return {}


# Stands for a message that was delivered: until it is settled only its offset matters.
_GIVEN: Final = Message(Address("", "", b""), _NoProperties(False, 0, -1), b"", -1)


class Stream(LastingQueue):
    """One stream of one virtual host."""

    def __init__(
        self,
        vhost: QueueOwner,
        name: str,
        settings: QueueArguments,
        arguments: dict[str, object],
        store: StreamStore,
        wall: WallClock,
        replicated: ReplicatedStreams | None = None,
    ) -> None:
        super().__init__(vhost, name, True, -1, False, settings, arguments)
        # Of a member of a cluster.
        self._replicated: ReplicatedStreams | None = replicated
        self.values: StreamValues | None = None if replicated is None else StreamValues()
        self._store: StreamStore = store
        self._wall: WallClock = wall
        self._open_files: StreamFiles | None = None
        self._retention_timer: RetentionTimer | None = None
        self._open_cursors: StreamCursors | None = None
        self._readers: dict[Consumer, StreamReader] = {}
        self._tail: StreamTail = StreamTail()
        self._reader_count: int = 0
        # Readers with a cursor that have settled or skipped something in this tick.
        self._moved: dict[StreamReader, None] = {}
        # Why readers cannot go on; empty while all is well.
        self.damage: str = ""
        # Messages that come through the journal; the journal has no others for a stream.
        self.journalled: JournalledAppends = JournalledAppends(store)

    def begin(self, now: int) -> None:
        self.open([], now)

    def open(self, names: list[str], now: int) -> None:
        """Open its files, or create them; `names` are the existing files. Called when its number is
        known. Raises a `StorageError` for damage.
        """
        files = self._opened(names, self._wall.at(now))
        files.begin(StreamWakener(self), self.journal)
        self._open_files = files
        self._retention_timer = RetentionTimer(files, self.vhost.timers, self._wall)
        what = described("queue", self.name, self.vhost.name)
        self._open_cursors = StreamCursors(files, what, self.vhost.timers)
        self._limit(now)

    def _opened(self, names: list[str], wall: int) -> StreamFiles:
        folder = folder_of(self.vhost.name, self.name, self.number)
        octets = self._segment_bytes_max()
        replicated = self._replicated
        if replicated is None or self.values is None:
            return LocalFiles(self._store, folder, names, octets, wall, self.journalled)
        files = replicated.open(self.number, folder, names, octets, wall, self.values)
        files.vhost_name = self.vhost.name
        files.name = self.name
        return files

    def let_go(self) -> None:
        """It is made anew, with the same files: another server's definitions take effect."""
        self._stop()
        self._open_files = None

    @property
    def files(self) -> StreamFiles:
        assert self._open_files is not None, "a stream is open once definitions are read"
        return self._open_files

    @property
    def _cursors(self) -> StreamCursors:
        assert self._open_cursors is not None, "opened with the files"
        return self._open_cursors

    @property
    def message_count(self) -> int:
        if self._open_files is None:
            return 0
        return self._open_files.end_offset() - self._open_files.log.first_offset

    def held_bytes(self, message_bytes: int) -> int:
        return self.journalled.listed.in_memory_count() * message_bytes

    def oldest_age_ms(self, now: int) -> int:
        return self.files.age_ms_of(self.first_offset, self._wall.at(now))

    def age_ms_of(self, position: int, now: int) -> int:
        return self.files.age_ms_of(position, self._wall.at(now))

    @property
    def first_offset(self) -> int:
        return self.files.log.first_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next message."""
        return self.files.end_offset()

    def end_position(self) -> int:
        return self.files.readable_offset()

    def segments(self) -> list[SegmentFacts]:
        """What a bulk reader may read of its files: only what is durable."""
        return segment_facts(self.files.log)

    # Its life.

    def restore(self, found: JournalledMessages) -> int:
        """Restore what was pending for the stream; its messages are in files of their own."""
        self.journalled.restored(found.entries(), found.highest_position)
        return 0

    def journal_list(self) -> ReadyList:
        return self.journalled.listed

    def apply_settings(self, settings: QueueArguments, now: int) -> None:
        self.settings = settings
        self._limit(now)

    def _segment_bytes_max(self) -> int:
        given = self.settings.segment_bytes_max
        return SEGMENT_BYTES_DEFAULT if given == NONE else given

    def _limit(self, now: int) -> None:
        if self._open_files is None or self._retention_timer is None:
            return
        settings = self.settings
        files = self._open_files
        files.limit(settings.max_length_bytes, settings.max_age_ms, self._segment_bytes_max())
        if self._replicated is None or self.vhost.decides():
            files.retain(self._wall.at(now))
            self._retention_timer.start(now)

    def resume(self, now: int) -> None:
        self._limit(now)

    # Messages in.

    def enqueue(self, message: Message, now: int, seen: bool = False) -> bool:
        offset = self.files.add(message, self._wall.at(now))
        if offset == DUPLICATE:
            return True
        self.published_total += 1
        if self.consumers.count:
            self._tail.append(message, offset)
        for observer in self.observers:
            observer.enqueued(QueueEntry(message, offset))
        self.may_append()
        return True

    def append_rows(self, rows: StreamRows, now: int) -> None:
        """Take rows of a sink's block, unless a step before a restart has appended them."""
        files = self.files
        if rows.end <= files.publishers.stages.get(rows.stage, 0):
            return
        offset = files.add_rows(rows, self._wall.at(now))
        self.published_total += rows.count
        if self.consumers.count or self.observers:
            for message in rows.messages():
                if self.consumers.count:
                    self._tail.append(message, offset)
                for observer in self.observers:
                    observer.enqueued(QueueEntry(message, offset))
                offset += 1
        self.may_append()

    def may_append(self) -> None:
        """There is something to be written, or noted, at the end of this tick."""
        if not self.is_touched and not self.is_deleted:
            self.is_touched = True
            self.vhost.touched.append(self)

    # Messages out.

    def touch(self) -> None:
        if not self.is_touched and self._readers and not self.is_deleted:
            self.is_touched = True
            self.vhost.touched.append(self)

    def dispatch(self, now: int) -> None:
        """End of a tick: write what came in it, then deliver to readers what is durable."""
        self.is_touched = False
        if self.is_deleted:
            return
        files = self.files
        files.end_of_tick(self._wall.at(now))
        if self._readers:
            self._serve(files)
            self._tail.trim()
        if self._moved:
            self._cursors.follow_all(self._moved, now)
            self._moved = {}

    def _serve(self, files: StreamFiles) -> None:
        end = files.readable_offset()
        passed_over: dict[StreamReader, int] = {}
        progress = True
        while progress:
            progress = False
            for consumer, reader in list(self._readers.items()):
                if reader.position >= end or not consumer.can_take():
                    continue
                passed = passed_over.get(reader, 0)
                if passed >= PASSED_OVER_MAX:
                    self.touch()
                    continue
                try:
                    skipped = self._give(files, consumer, reader, end)
                except Damaged as damage:
                    self._stop_reading(consumer, str(damage))
                    continue
                passed_over[reader] = passed + skipped
                progress = True

    def _give(self, files: StreamFiles, consumer: Consumer, reader: StreamReader, end: int) -> int:
        """Give a batch to one consumer; returns how many messages it did not want."""
        # Retention may have removed what it was about to read.
        reader.position = max(reader.position, files.log.first_offset)
        credit = consumer.credit_count()
        count = min(BATCH_COUNT_MAX, end - reader.position)
        wanted = reader.wanted
        if wanted is None:
            count = min(count, credit)
        if count <= 0:
            return 0
        size = 0
        skipped = 0
        entries: list[QueueEntry] = []
        for message in self._messages(files, reader, count):
            if wanted is not None and not wanted.wants(message):
                skipped += 1
            else:
                entry = StreamEntry(message, reader.position, reader)
                entry.holder = consumer.holder
                entries.append(entry)
                size += len(message.body)
            reader.position += 1
            if size >= BATCH_BYTES_MAX or len(entries) >= credit:
                break
        if skipped and reader.cursor:
            self._moved[reader] = None
        if entries:
            reader.gave(entries)
            given = len(entries)
            self.delivered_total += given
            self.unacked_count += given
            consumer.take_many(entries)
            for observer in self.observers:
                for given_entry in entries:
                    observer.delivered(given_entry)
            for given_entry in entries:
                given_entry.message = _GIVEN
        return skipped

    def _messages(self, files: StreamFiles, reader: StreamReader, count: int) -> list[Message]:
        """Up to `count` messages from a reader's position on; at least one."""
        position = reader.position
        if self._tail.holds(position):
            reader.ahead = []
            return self._tail.run(position, count)
        at = position - reader.ahead_offset
        if not 0 <= at < len(reader.ahead):
            reader.ahead = files.read(position)
            reader.ahead_offset = position
            at = 0
        return reader.ahead[at : at + count]

    def _stop_reading(self, consumer: Consumer, reason: str) -> None:
        """A reader met damage: its client is told that the consumer is cancelled."""
        self.damage = reason
        self.consumers.remove(consumer)
        self._readers.pop(consumer, None)
        consumer.cancelled()

    def browse(self, limit: int) -> list[QueueEntry]:
        return first_entries(self.files, limit)

    def look_on(self, walk: Walk) -> QueueEntry | None:
        return look_on(self.files, walk)

    def entry_from(self, position: int) -> QueueEntry | None:
        offset = max(position, self.files.log.first_offset)
        message = self.message_at(offset)
        return None if message is None else QueueEntry(message, offset)

    def message_of(self, entry: QueueEntry) -> Message | None:
        """Delivered entries do not hold their message: it is read again, unless retention has
        removed it.
        """
        return self.message_at(entry.position)

    # Settlement.

    def acknowledge_many(self, entries: list[QueueEntry], holder: int = BROKER_ITSELF) -> None:
        for entry in entries:
            self.acknowledge(entry, holder)

    def acknowledge(self, entry: QueueEntry, holder: int = BROKER_ITSELF) -> None:
        if entry.holder != holder:
            return
        entry.holder = NO_HOLDER
        self.unacked_count -= 1
        self.acknowledged_total += 1
        self._settle(entry)
        for observer in self.observers:
            observer.acknowledged(entry)

    def reject(self, entry: QueueEntry, now: int, holder: int = BROKER_ITSELF) -> None:
        """Nothing is dead-lettered: the message stays where it is."""
        if entry.holder != holder:
            return
        entry.holder = NO_HOLDER
        self.unacked_count -= 1
        self._settle(entry)

    def requeue(
        self, entries: list[QueueEntry], now: int, failed: bool = True, holder: int = BROKER_ITSELF
    ) -> None:
        """Given back unsettled. It is delivered again only to a reader that starts from there, so a
        cursor does not pass it.
        """
        entries = take_back(entries, holder)
        self.unacked_count -= len(entries)
        for entry in entries:
            assert isinstance(entry, StreamEntry), "streams give out entries of their own"
            if entry.reader.cursor:
                entry.reader.given_back(entry.position)

    def _settle(self, entry: QueueEntry) -> None:
        assert isinstance(entry, StreamEntry), "streams give out entries of their own"
        if entry.reader.cursor:
            entry.reader.settled(entry.position)
            self._moved[entry.reader] = None
            # If its consumer was cancelled before this, nothing else asks for a dispatch.
            self.may_append()

    # Consumers and cursors.

    def add_consumer(self, consumer: Consumer) -> None:
        """It gets what is published from now on."""
        self.subscribe(consumer, Reading(Start(StartKind.NEXT, 0)), 0)

    def subscribe(self, consumer: Consumer, reading: Reading, now: int) -> None:
        cursor = reading.cursor
        position = self._cursors.start_of(reading, self._wall.at(now))
        if cursor:
            self._cursors.check_new(cursor)
        self.register(consumer)
        self._reader_count += 1
        reader = StreamReader(position, cursor, reading.wanted, self._reader_count)
        if cursor and (
            reading.start.kind is not StartKind.CURSOR or not self._cursors.knows(cursor)
        ):
            # So that it begins here again, should it end before it has settled anything.
            self._cursors.begin(reader)
            self._cursors.write()
        self._readers[consumer] = reader
        self.touch()

    def read_position(self, consumer: Consumer) -> ReadPosition | None:
        return self._readers.get(consumer)

    def resume_consumer(self, consumer: Consumer, position: ReadPosition) -> None:
        assert isinstance(position, StreamReader), "got from `read_position`"
        self.register(consumer)
        self._readers[consumer] = position
        self.touch()

    def message_at(self, offset: int) -> Message | None:
        """One message that was given before; None when retention has removed it."""
        if not self.files.log.first_offset <= offset < self.files.log.end_offset:
            return None
        return self.files.read(offset)[0]

    def remove_consumer(self, consumer: Consumer, now: int) -> None:
        if not self.consumers.remove(consumer):
            return
        reader = self._readers.pop(consumer, None)
        if reader is not None and reader.cursor:
            self._cursors.follow(reader)
            self._cursors.write()
        if not self._readers:
            self._tail.clear()

    def cursors(self) -> list[tuple[str, int, int]]:
        """Name, offset and lag of every cursor, see `StreamCursors.listed`."""
        return self._cursors.listed()

    def set_cursor(self, name: str, offset: int, now: int) -> None:
        """Make a cursor, or move it, so that a reader goes on with `offset`. A consumer that uses
        it and has come further moves it on with its next acknowledgement. Raises
        `PreconditionFailed`.
        """
        self._cursors.move(name, offset)

    def delete_cursor(self, name: str) -> None:
        """A consumer that uses it makes it anew with its next acknowledgement. Raises `NotFound`."""
        self._cursors.remove(name)
        self._cursors.write()

    # Ends.

    def deleted(self, now: int) -> None:
        self.is_deleted = True
        self._stop()
        if self._replicated is not None:
            if self._open_files is not None:
                self._replicated.closed(self.number)
        elif self._open_files is not None:
            self._open_files.delete()
        for consumer in self.consumers.clear():
            consumer.cancelled()

    def _stop(self) -> None:
        self._readers = {}
        self._tail.clear()
        if self._retention_timer is not None:
            self.vhost.timers.cancel(self._retention_timer)
        if self._open_cursors is not None:
            self._open_cursors.close()


class StreamWakener(SafeListener):
    """Wakes readers when more is durable, and appends."""

    def __init__(self, stream: Stream) -> None:
        self._stream: Stream = stream

    def became_readable(self) -> None:
        self._stream.touch()

    def may_append(self) -> None:
        self._stream.may_append()


def as_stream(queue: MessageQueue) -> Stream | None:
    """For callers that need more than the interface of a queue: offsets, files or cursors."""
    return queue if isinstance(queue, Stream) else None


def are_durable(appended: dict[Stream, int]) -> bool:
    """Whether each of these streams is durable up to an end that was noted."""
    for stream, end in appended.items():
        if not stream.is_deleted and stream.files.readable_offset() < end:
            return False
    return True
