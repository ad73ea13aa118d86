"""Walking over a stream segment that may be damaged: every message that can be read, and why others
cannot.

An entry of the index and a payload of the log contain the same lengths, so each helps where the
other is damaged. Between two whole messages the payloads are followed by their own lengths; when
these lead exactly from one to the other, the place of each message is known, whatever its entry
says:

- its entry's checksum matches with lengths and position taken from the log: the entry was wrong;
- lengths agree and the checksum does not match: the message is damaged, and lost;
- otherwise the entry is unusable: the message is kept, but its bytes cannot be checked.
"""

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.formats.octets import Truncated, read_u32_le
from penstock.formats.stream_index import (
    ENTRY_SIZE,
    FIXED,
    INDEX_MAGIC,
    LOG_MAGIC,
    IndexEntry,
    entry_crc,
)
from penstock.formats.stream_payload import ADDRESS_SIZE_MAX, SIZE_WIDTH, PayloadParts, address_size
from penstock.storage.stream_segment import StreamSegment, is_preamble, is_whole
from penstock.world.disk import AppendFile

# The amount that is read at once from either file, or one message when that is larger.
WINDOW_BYTES: Final = 4 * 1024 * 1024

LOST: Final = "damaged"
WRONG_ENTRY: Final = "not at the position or of the size in the index; kept"
UNVOUCHED: Final = "without a usable entry in the index; kept, unchecked"
MISSING: Final = "missing"
BAD_PREAMBLE: Final = "its header is corrupt"


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageListener(ABC):
    """The receiver of a segment's messages, in order: salvage."""

    @abstractmethod
    def message(self, offset: int, timestamp: int, flags: int, payload: bytes) -> None:
        """One that can be read."""

    @abstractmethod
    def lost(self, offset: int, timestamp: int) -> None:
        """One that cannot; the timestamp is that of the message before it."""


class Problem:
    """A run of messages with a problem; no messages for a problem of the file itself. Held by a
    walk.
    """

    def __init__(self, file: str, at: int, offset: int, count: int, what: str) -> None:
        self.file: str = file
        self.at: int = at
        self.offset: int = offset
        self.count: int = count
        self.what: str = what


class Octets:
    """A file that is read in windows. Held by a walk; a missing file is empty."""

    def __init__(self, file: AppendFile | None) -> None:
        self._file: AppendFile | None = file
        self.size: int = 0 if file is None else file.size()
        self._start: int = 0
        self._window: bytes = b""

    def read(self, at: int, size: int) -> bytes:
        """Fewer at the end of the file."""
        begin = at - self._start
        if begin < 0 or begin + size > len(self._window):
            if self._file is None or at >= self.size:
                return b""
            self._window = self._file.read(at, max(size, WINDOW_BYTES))
            self._start = at
            begin = 0
        return self._window[begin : begin + size]


class SegmentWalk:
    """One walk over one segment. Held by the survey of its stream."""

    def __init__(
        self, segment: StreamSegment, log: AppendFile | None, index: AppendFile | None, count: int
    ) -> None:
        """`count` is the number of messages, given by where the next segment begins; -1 for the
        last one, whose index gives it.
        """
        self.segment: StreamSegment = segment
        self._log: Octets = Octets(log)
        self._index: Octets = Octets(index)
        self.count: int = count if count >= 0 else max(self._index.size // ENTRY_SIZE - 1, 0)
        self.octets: int = self._log.size + self._index.size
        self.problems: list[Problem] = []
        # The highest durable offset that an entry records.
        self.durable_offset: int = 0
        self._listener: MessageListener | None = None
        self._timestamp: int = 0
        self._is_last: bool = count < 0

    def run(self, listener: MessageListener | None) -> None:
        self._listener = listener
        segment = self.segment
        self._check_preamble(segment.log_name, self._log, LOG_MAGIC)
        self._check_preamble(segment.index_name, self._index, INDEX_MAGIC)
        place = 0
        position = ENTRY_SIZE
        while place < self.count:
            entry = self._entry(place)
            if entry is not None and entry.position == position and self._is_whole(place, entry):
                self._whole(place, entry)
                position = entry.end()
                place += 1
                continue
            following = self._next_whole(place + 1, position)
            target = self._log.size if following is None else following.entry.position
            end = self.count if following is None else following.place
            self._go_through(place, end, position, target)
            place = end
            position = target
        if self._is_last and position < self._log.size:
            self._problem(
                segment.log_name, position, place, 0, "bytes without an entry in the index"
            )

    def _check_preamble(self, name: str, octets: Octets, magic: bytes) -> None:
        if octets.size == 0:
            self._problem(name, 0, 0, 0, MISSING)
        elif not is_preamble(name, octets.read(0, ENTRY_SIZE), magic, self.segment.first_offset):
            self._problem(name, 0, 0, 0, BAD_PREAMBLE)

    def _entry(self, place: int) -> IndexEntry | None:
        octets = self._index.read(ENTRY_SIZE * (1 + place), ENTRY_SIZE)
        return IndexEntry(octets, 0) if len(octets) == ENTRY_SIZE else None

    def _is_whole(self, place: int, entry: IndexEntry) -> bool:
        if entry.end() > self._log.size:
            return False
        payload = self._log.read(entry.position, entry.size())
        return is_whole(
            entry, self._index.read(ENTRY_SIZE * (1 + place), ENTRY_SIZE), 0, payload, 0
        )

    def _next_whole(self, place: int, position: int) -> "WholeEntry | None":
        """The next whole message after a position."""
        while place < self.count:
            entry = self._entry(place)
            if entry is None:
                return None
            if entry.position > position and self._is_whole(place, entry):
                return WholeEntry(place, entry)
            place += 1
        return None

    def _whole(self, place: int, entry: IndexEntry) -> None:
        offset = self.segment.first_offset + place
        self.durable_offset = max(self.durable_offset, offset - entry.unsynced)
        self._timestamp = entry.timestamp
        if self._listener is not None:
            payload = self._log.read(entry.position, entry.size())
            self._listener.message(offset, entry.timestamp, entry.flags, payload)

    def _go_through(self, place: int, end: int, position: int, target: int) -> None:
        """Handle the messages from a place on that are between two positions of the log."""
        segment = self.segment
        sizes = self._own_sizes(position, target, end - place)
        if len(sizes) != end - place:
            self._lose(place, end - place, segment.log_name, position)
            return
        for size in sizes:
            self._judge(place, position, size)
            position += size
            place += 1

    def _own_sizes(self, position: int, target: int, count: int) -> list[int]:
        """Sizes of the payloads between two positions, by their own lengths; empty when they do
        not lead from one to the other.
        """
        sizes: list[int] = []
        while position < target and len(sizes) < count:
            size = self._own_size(position)
            if size == 0:
                return []
            sizes.append(size)
            position += size
        return sizes if position == target else []

    def _own_size(self, position: int) -> int:
        """The size of the payload at a position of the log; 0 when there cannot be one."""
        # The header may be large, so it is not read; the size of the body follows it.
        names = self._log.read(position, ADDRESS_SIZE_MAX + SIZE_WIDTH)
        try:
            header_at = address_size(names) + SIZE_WIDTH
            header_size = read_u32_le(names, header_at - SIZE_WIDTH)
            body_at = header_at + header_size + SIZE_WIDTH
            body = self._log.read(position + body_at - SIZE_WIDTH, SIZE_WIDTH)
            size = body_at + read_u32_le(body, 0)
        except Truncated:
            return 0
        return size if position + size <= self._log.size else 0

    def _judge(self, place: int, position: int, size: int) -> None:
        """Judge a message whose entry does not match; its place is known."""
        segment = self.segment
        index_at = ENTRY_SIZE * (1 + place)
        payload = self._log.read(position, size)
        entry = self._entry(place)
        if entry is not None and _fits(entry, payload):
            self._problem(segment.index_name, index_at, place, 1, WRONG_ENTRY)
            self._keep(place, entry.timestamp, entry.flags, payload)
        elif entry is not None and entry.position == position and entry.size() == size:
            self._lose(place, 1, segment.log_name, position)
        else:
            self._problem(segment.index_name, index_at, place, 1, UNVOUCHED)
            self._keep(place, self._timestamp, 0, payload)

    def _keep(self, place: int, timestamp: int, flags: int, payload: bytes) -> None:
        self._timestamp = timestamp
        if self._listener is not None:
            self._listener.message(self.segment.first_offset + place, timestamp, flags, payload)

    def _lose(self, place: int, count: int, file: str, at: int) -> None:
        self._problem(file, at, place, count, LOST)
        if self._listener is not None:
            for lost in range(place, place + count):
                self._listener.lost(self.segment.first_offset + lost, self._timestamp)

    def _problem(self, file: str, at: int, place: int, count: int, what: str) -> None:
        offset = self.segment.first_offset + place
        last = self.problems[-1] if self.problems else None
        if (
            last is not None
            and count
            and last.what == what
            and last.file == file
            and last.offset + last.count == offset
        ):
            last.count += count
        else:
            self.problems.append(Problem(file, at, offset, count, what))


class WholeEntry:
    """Where a walk can continue."""

    def __init__(self, place: int, entry: IndexEntry) -> None:
        self.place: int = place
        self.entry: IndexEntry = entry


def _fits(entry: IndexEntry, payload: bytes) -> bool:
    """Whether the checksum is right with the payload's own lengths in the entry."""
    parts = PayloadParts(payload, 0)
    fixed = FIXED.pack(
        entry.timestamp,
        parts.header_size,
        parts.body_size,
        payload[0],
        payload[parts.key],
        entry.flags,
    )
    return entry_crc(fixed, payload) == entry.crc
