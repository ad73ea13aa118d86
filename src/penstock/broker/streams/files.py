"""What a stream has on disk: its log, its cursors, and what it knows of publishers.

Invariant: readers see a message only when it is safe, because an offset that was seen must never
come to mean another message.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.message import Message
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.folders import names_in
from penstock.broker.streams.publishers import ID_OCTETS, Publishers, sent_of
from penstock.storage.flush_waiter import FlushWaiter
from penstock.storage.number_table import NumberTable, ReadNumbers, encode_numbers
from penstock.storage.stream_index import HAS_PUBLISHER
from penstock.storage.stream_log import StreamLog
from penstock.storage.stream_segment import StoredEntry, publishers_name
from penstock.world.disk import AppendFile, DiskError

NO_LIMIT: Final = -1
# What a reader that is behind reads at once.
READ_COUNT_MAX: Final = 256
READ_BYTES_MAX: Final = 256 * 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class SafeListener:
    """Who is told that readers may see more: the stream."""

    def became_readable(self) -> None:
        raise NotImplementedError


class StreamFiles(FlushWaiter):
    """Held by one stream, and by the store while it waits for a flush."""

    def __init__(
        self,
        store: StreamStore,
        folder: str,
        names: list[str],
        segment_bytes_max: int,
        wall: int,
    ) -> None:
        """Opens what is there, or begins anew. Raises a `StorageError` for damage."""
        self._store: StreamStore = store
        self._folder: str = folder
        own = names_in(folder, names)
        self.log: StreamLog = StreamLog(store.disk, folder, own, segment_bytes_max, wall)
        self.cursors: NumberTable = NumberTable(store.disk, f"{folder}/cursors", own)
        self.publishers: Publishers = Publishers()
        self._recall_publishers(own)
        self.listener: SafeListener | None = None
        # Retention; NO_LIMIT for none.
        self.bytes_max: int = NO_LIMIT
        self.age_ms_max: int = NO_LIMIT
        # The last message that was read from the log, whose address and properties serve the next.
        self._last_stored: StoredEntry | None = None
        self._last_message: Message | None = None
        # After a crash the page cache may hold more than the disk.
        store.wrote(self, self.log.dirty_files())

    # Writing.

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
        name = publishers_name(self._folder, self.log.end_offset)
        file = self._store.disk.open(name)
        file.append(encode_numbers(self.publishers.sequences))
        self._store.wrote(self, [file])

    def write(self) -> None:
        """Append what was composed since the last time. A disk that fails stops the broker at the
        end of the tick, and nobody hears of what was to be written.
        """
        if self.log.composed_count and not self._store.failure:
            try:
                self.log.write()
            except DiskError as error:
                self._store.failure = str(error)
                return
            self._store.wrote(self, self.log.dirty_files())

    def mark(self) -> int:
        return self.log.end_offset

    def became_durable(self, mark: int, now: int) -> None:
        self.log.became_durable(mark)
        self.cursors.became_durable()
        if self.listener is not None:
            self.listener.became_readable()

    def readable_offset(self) -> int:
        """Readers may see what lies before it."""
        return self.log.durable_offset

    # Reading.

    def read(self, offset: int) -> list[Message]:
        """Messages from an offset on; at least one. Raises `Damaged`."""
        found: list[Message] = []
        for stored in self.log.read(offset, READ_COUNT_MAX, READ_BYTES_MAX):
            last = self._last_stored
            like = self._last_message
            if (
                like is not None
                and last is not None
                and stored.header == last.header
                and stored.address == last.address
            ):
                message = Message(like.address, like.properties, stored.body, like.origin)
            else:
                message = self._store.decoder.decode(
                    stored.exchange, stored.routing_key, stored.header, stored.body
                )
                self._last_stored = stored
                self._last_message = message
            found.append(message)
        return found

    # Cursors.

    def write_cursors(self) -> None:
        file = self.cursors.write()
        if file is not None:
            self._store.wrote(self, [file])

    # Retention.

    def limit(self, bytes_max: int, age_ms_max: int, segment_bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.age_ms_max = age_ms_max
        self.log.segment_bytes_max = max(segment_bytes_max, 1)

    def has_retention(self) -> bool:
        return self.bytes_max != NO_LIMIT or self.age_ms_max != NO_LIMIT

    def retain(self, wall: int) -> None:
        """Remove what is too much or too old when the wall clock shows this."""
        oldest = NO_LIMIT if self.age_ms_max == NO_LIMIT else wall - self.age_ms_max
        names: list[str] = []
        for first_offset in self.log.retain(self.bytes_max, oldest):
            names.append(publishers_name(self._folder, first_offset))
        if names:
            there = self._store.disk.names()
            for name in names:
                if name in there:
                    self._store.disk.remove(name)

    def delete(self) -> None:
        self.listener = None
        self.log.remove()
        self.cursors.delete()
        for name in names_in(self._folder, self._store.disk.names()):
            self._store.disk.remove(name)

    # Publishers.

    def _recall_publishers(self, names: list[str]) -> None:
        """From what was noted when the last segment began, and from what it holds since."""
        offset = self.log.first_offset
        for segment in reversed(self.log.segments):
            name = publishers_name(self._folder, segment.first_offset)
            if name in names:
                file: AppendFile = self._store.disk.open(name)
                found = ReadNumbers(file.read(0, file.size()))
                file.close()
                if found.is_begun:
                    self.publishers.sequences = found.numbers
                    offset = segment.first_offset
                    break
        if self.log.end_offset == offset:
            return
        for flagged in self.log.flagged(HAS_PUBLISHER, offset):
            stored = self.log.read(flagged, 1, 0)[0]
            message = self._store.decoder.decode(
                stored.exchange, stored.routing_key, stored.header, b""
            )
            sent = sent_of(message.properties) if ID_OCTETS in stored.header else None
            if sent is not None:
                self.publishers.is_repeated(sent)
