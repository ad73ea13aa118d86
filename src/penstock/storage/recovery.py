"""Reading a journal back: valid batches are replayed, a torn tail is cut off, damage is refused.

Pages that were not flushed may be lost in any order, so an invalid batch may well be followed by
valid ones. The later batches distinguish a torn tail from damage:

- the first invalid batch is at journal position P;
- a later valid batch, in the same segment or another one, that records a durable position above P
  proves that P was durable: the store is damaged;
- otherwise nothing from P on was ever confirmed: it is cut off, later segments included.

A segment whose header is invalid, or that does not begin where the one before it ends, counts as
an invalid batch at its beginning. A journal that ends before the store's safe point is damaged too,
whatever its batches say. Nothing is changed before it is clear that a cut is allowed.
"""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr

from penstock.storage.batch import BATCH_HEADER_BYTES, BatchReader, find_batch
from penstock.storage.checked_reading import SegmentBlocks
from penstock.storage.errors import Damaged, NotAStore, WrongVersion
from penstock.storage.safe_point import SafePoint
from penstock.storage.segment import (
    FOLDER,
    FORMAT_VERSION,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    batch_seed,
    decode_segment_header,
    location_of,
    may_be_torn_header,
    segment_name,
    segment_number,
)
from penstock.world.disk import AppendFile, Disk


@mypyc_attr(allow_interpreted_subclasses=True)
class BatchListener(ABC):
    """The receiver of a replayed journal."""

    @abstractmethod
    def batch(self, location: int, payload: bytes) -> None:
        """One batch, in the order they were appended; the payload is never empty."""


class TornTail:
    """What was cut off, for the log. Held by the recovered journal."""

    def __init__(self, file: str, offset: int, octets: int) -> None:
        self.file: str = file
        self.offset: int = offset
        self.octets: int = octets


class RecoveredJournal:
    """The state from which a journal continues. Made by `recover`, taken over by `Journal`.

    Flush it before any client sees what was recovered: until then a power loss may restore what was
    cut off, or lose what a killed process had not flushed.
    """

    def __init__(self, store_id: bytes) -> None:
        self.store_id: bytes = store_id
        self.files: dict[int, AppendFile] = {}
        self.blocks: dict[int, SegmentBlocks] = {}
        self.position: int = 0
        self.durable_position: int = 0
        # Files that are perhaps only in the page cache: written by a killed process, or just cut.
        self.unflushed: list[AppendFile] = []
        # The next segment; also counts those that were cut off, whose removal may come undone.
        self.next_number: int = 1
        self.torn_tail: TornTail | None = None
        # How far the store was durable before; None for a journal of which nothing is known.
        self.safe_point: SafePoint | None = None

    def safe_position(self) -> int:
        return 0 if self.safe_point is None else self.safe_point.position()


class OpenSegment:
    """A segment while it is recovered or checked."""

    def __init__(self, number: int, file: AppendFile) -> None:
        self.number: int = number
        self.name: str = segment_name(number)
        self.file: AppendFile = file
        self.begin: bytes = file.read(0, SEGMENT_HEADER_BYTES)
        self.header: SegmentHeader | None = decode_segment_header(self.begin)


def open_segments(disk: Disk) -> list[OpenSegment]:
    """The segments in order; refuses invalid names, and headers of another version or store."""
    segments: list[OpenSegment] = []
    store_id: bytes | None = None
    for name in disk.names():
        if not name.startswith(FOLDER) or name.startswith(FOLDER + "."):
            continue
        number = segment_number(name)
        if number == 0:
            raise NotAStore(name, "is not a journal segment")
        segment = OpenSegment(number, disk.open(name))
        segments.append(segment)
        header = segment.header
        if header is None:
            continue
        if header.version != FORMAT_VERSION:
            raise WrongVersion(name, header.version, FORMAT_VERSION)
        if store_id is not None and header.store_id != store_id:
            raise NotAStore(name, "belongs to another data directory than the segments before it")
        store_id = header.store_id
        if header.number != number:
            raise Damaged(name, 0, f"its header says that it is segment {header.number}")
    return segments


def store_id_of(segments: list[OpenSegment]) -> bytes | None:
    for segment in segments:
        if segment.header is not None:
            return segment.header.store_id
    return None


def recover(disk: Disk, store_id_if_new: bytes, listener: BatchListener) -> RecoveredJournal:
    """Replay a journal, cut its torn tail, and return where it continues."""
    segments = open_segments(disk)
    safe_point = SafePoint(disk)
    state = RecoveredJournal(store_id_of(segments) or store_id_if_new)
    state.safe_point = safe_point
    if segments:
        Recovery(disk, segments, state, listener).run()
    elif safe_point.position():
        raise Damaged(segment_name(safe_point.segment()), 0, "the segment is missing")
    return state


class Recovery:
    """One run of `recover`."""

    def __init__(
        self,
        disk: Disk,
        segments: list[OpenSegment],
        state: RecoveredJournal,
        listener: BatchListener,
    ) -> None:
        self._disk: Disk = disk
        self._segments: list[OpenSegment] = segments
        self._state: RecoveredJournal = state
        self._listener: BatchListener = listener
        self._seed: int = batch_seed(state.store_id)
        # The journal position at the end of each segment that was replayed completely.
        self._ends: list[int] = []

    def run(self) -> None:
        segments = self._segments
        state = self._state
        state.position = self._first_position()
        state.next_number = segments[-1].number + 1
        for index, segment in enumerate(segments):
            header = segment.header
            if header is None or header.position != state.position:
                self._judge(index, 0, what_is_wrong(header, state.position))
                self._cut(index, 0)
                break
            offset = self._replay(segment, header.position)
            if offset != segment.file.size():
                self._judge(index, offset, "the batch is corrupt")
                self._cut(index, offset)
                break
            state.files[segment.number] = segment.file
            self._ends.append(state.position)
        else:
            self._judge_end()
        for segment, end in zip(segments, self._ends, strict=False):
            if end > state.durable_position:
                state.unflushed.append(segment.file)

    def _first_position(self) -> int:
        """The segments before the first were removed if a batch records that all they held was
        durable; a journal ensures that before it removes any. Otherwise they were lost.
        """
        header = self._segments[0].header
        if header is None or header.position == 0:
            return 0
        is_reclaimed = self._is_claimed_safe(0, 0, header.position - 1)
        return header.position if is_reclaimed else 0

    def _replay(self, segment: OpenSegment, position: int) -> int:
        """Returns the offset after the last valid batch."""
        state = self._state
        listener = self._listener
        blocks = SegmentBlocks()
        state.blocks[segment.number] = blocks
        reader = BatchReader(segment.file, SEGMENT_HEADER_BYTES, position, self._seed)
        while reader.next():
            blocks.batch_at(reader.payload_offset - BATCH_HEADER_BYTES)
            if reader.payload:
                listener.batch(location_of(segment.number, reader.payload_offset), reader.payload)
            state.durable_position = max(state.durable_position, reader.durable)
        state.position = reader.position
        return reader.offset

    def _judge(self, index: int, offset: int, what: str) -> None:
        """Raises unless everything from here on may be cut off."""
        segment = self._segments[index]
        if self._state.position < self._state.safe_position():
            raise Damaged(segment.name, offset, f"{what}, although it was durable")
        if self._is_claimed_safe(index, offset, self._state.position):
            raise Damaged(segment.name, offset, what)
        for later in self._segments[index:]:
            if later.header is None and not may_be_torn_header(later.begin):
                raise NotAStore(later.name, "is not a journal segment")

    def _judge_end(self) -> None:
        """Raises when more was durable than the complete segments hold."""
        missing = self._state.safe_position() - self._state.position
        if missing > 0:
            last = self._segments[-1]
            raise Damaged(last.name, last.file.size(), what_is_missing(missing))

    def _is_claimed_safe(self, index: int, offset: int, position: int) -> bool:
        """Whether a valid batch from here on records a durable position above this one."""
        for segment in self._segments[index:]:
            header = segment.header
            shift = None if header is None else header.position - SEGMENT_HEADER_BYTES
            if find_batch(segment.file, offset, shift, self._seed, position) >= 0:
                return True
            offset = 0
        return False

    def _cut(self, index: int, offset: int) -> None:
        """Begin a new segment after the cut, and make the cut durable before any client is served.

        Otherwise a power loss soon after could undo it. What was cut off might then be valid again,
        and the next start would recover a different history.
        """
        state = self._state
        segment = self._segments[index]
        octets = segment.file.size() - offset
        for later in reversed(self._segments[index + 1 :]):
            octets += later.file.size()
            later.file.close()
            self._disk.remove(later.name)
        if offset > SEGMENT_HEADER_BYTES:
            segment.file.truncate(offset)
            state.files[segment.number] = segment.file
            state.unflushed.append(segment.file)
            self._disk.flush_now([segment.file])
        else:
            segment.file.close()
            self._disk.remove(segment.name)
            self._disk.flush_now([])
        state.torn_tail = TornTail(segment.name, offset, octets)


def what_is_missing(octets: int) -> str:
    return f"the journal ends there, but {octets} more bytes were durable"


def what_is_wrong(header: SegmentHeader | None, position: int) -> str:
    if header is None:
        return "its header is corrupt"
    return (
        f"it begins at journal position {header.position} instead of {position}: data before it is "
        "missing or corrupt"
    )
