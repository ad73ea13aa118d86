"""What a stream has on disk: its log, its cursors, and what it knows of publishers.

The files of a server on its own are `LocalFiles`, those of a cluster's member `ReplicatedFiles`.

Invariant: readers see a message only when it is durable, because an offset that was seen must never
refer to another message; in a cluster, when it is committed.
"""

from abc import abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.queues.message_queue import NO_AGE
from penstock.broker.queues.queue_journal import QueueJournal
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.journalled_appends import AppendListener
from penstock.broker.streams.publishers import Publishers
from penstock.broker.streams.rows import StreamRows
from penstock.broker.timers import NEVER, Timer, Timers, WallClock
from penstock.storage.flush_waiter import FlushWaiter
from penstock.storage.number_table import NamedNumbers
from penstock.storage.stream_log import StreamLog
from penstock.storage.stream_segment import StoredEntry

NO_LIMIT: Final = -1
# In place of an offset.
DUPLICATE: Final = -1
# Among the cursors of a server on its own: the first offset that retention left; no cursor has this
# name.
FIRST_OFFSET: Final = ""
# The amount that a reader which lags behind reads at once.
READ_COUNT_MAX: Final = 256
READ_BYTES_MAX: Final = 256 * 1024
# Age is checked this often; a segment is removed at most this much too late.
RETENTION_MS: Final = 10_000


@mypyc_attr(allow_interpreted_subclasses=True)
class SafeListener(AppendListener):
    """Who is told that readers may see more: the stream."""

    def became_readable(self) -> None:
        raise NotImplementedError


class StreamFiles(FlushWaiter):
    """Held by one stream, and by the store while it waits for a flush."""

    def __init__(
        self, store: StreamStore, log: StreamLog, cursors: NamedNumbers, publishers: Publishers
    ) -> None:
        self._store: StreamStore = store
        self.log: StreamLog = log
        # By name the last offset that is done.
        self.cursors: NamedNumbers = cursors
        self.publishers: Publishers = publishers
        self.listener: SafeListener | None = None
        # Retention; NO_LIMIT for none.
        self.bytes_max: int = NO_LIMIT
        self.age_ms_max: int = NO_LIMIT
        # The last message that was read from the log; its address and properties serve its repeats.
        self._repeated_entry: StoredEntry | None = None
        self._repeated_message: Message | None = None

    @abstractmethod
    def begin(self, listener: SafeListener, journal: QueueJournal | None) -> None:
        """The stream is open."""

    # Writing.

    @abstractmethod
    def end_offset(self) -> int:
        """The offset of the next message."""

    @abstractmethod
    def add(self, message: Message, wall: int) -> int:
        """Append a message; returns its offset, or DUPLICATE for one that is here already: it is
        confirmed once more, when that is durable, and not stored.
        """

    @abstractmethod
    def add_rows(self, rows: StreamRows, wall: int) -> int:
        """Append the rows of a sink's block, all of them or, after a crash, none; returns the
        offset of the first.
        """

    @abstractmethod
    def end_of_tick(self, wall: int) -> None:
        """Append what came in it. If the disk fails, the broker stops at the end of
        the tick, and nothing that was to be written is confirmed.
        """

    @abstractmethod
    def write_cursors(self) -> None:
        """They have moved."""

    @abstractmethod
    def keep_stages(self, stages: set[str]) -> None:
        """After a start: keep only these; the other stages are published and gone."""

    @abstractmethod
    def forget_stage(self, stage: str) -> None:
        """It is published entirely."""

    @abstractmethod
    def retain(self, wall: int) -> None:
        """Give up segments that are too many or too old at this wall-clock time."""

    @abstractmethod
    def delete(self) -> None:
        """Everything is removed with the next flush; until then a flush may still use the files."""

    @abstractmethod
    def waiting(self) -> list[QueueEntry]:
        """What is not in the log yet, with its offsets; for whoever looks into a stream."""

    def readable_offset(self) -> int:
        """Readers may see the messages before it."""
        return self.log.readable_offset()

    # Reading.

    def read(self, offset: int) -> list[Message]:
        """Messages from an offset on; at least one. Raises `Damaged`."""
        return self._decoded(self.log.read(offset, READ_COUNT_MAX, READ_BYTES_MAX))

    def _decoded(self, read: list[StoredEntry]) -> list[Message]:
        found: list[Message] = []
        for stored in read:
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

    # Retention.

    def limit(self, bytes_max: int, age_ms_max: int, segment_bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.age_ms_max = age_ms_max
        self.log.segment_bytes_max = max(segment_bytes_max, 1)

    def has_retention(self) -> bool:
        return self.bytes_max != NO_LIMIT or self.age_ms_max != NO_LIMIT

    def age_ms_of(self, offset: int, wall: int) -> int:
        """Of the message of an offset, when the wall clock shows this; NO_AGE when there is none."""
        for segment in self.log.segments:
            place = offset - segment.first_offset
            if 0 <= place < segment.count:
                return max(wall - segment.entry(place).timestamp, 0)
        return NO_AGE


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
