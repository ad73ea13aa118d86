"""The journal: batches one after the other in segment files, and a flush that covers many.

Invariants
- one flush is in progress at a time; requests that come meanwhile are answered by one more;
- `durable_position` only grows, and only when the disk has reported a flush;
- a segment is removed only when everything appended before is durable and a durable batch records
  that, which is how recovery distinguishes a removed segment from a lost one;
- segments are removed one at a time with a flush after each: whatever a power loss undoes, the
  remaining ones have no gap;
- after any failure of the disk nothing is appended any more: the owner stops.
"""

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.storage.batch import (
    BATCH_HEADER_BYTES,
    PAYLOAD_BYTES_MAX,
    batch_header,
    long_batch_header,
    payload_size,
    summed_batch_header,
)
from penstock.storage.checked_reading import CheckedOctets, SegmentBlocks, check_batches, damage
from penstock.storage.long_payload import LongPayload
from penstock.storage.recovery import RecoveredJournal
from penstock.storage.segment import (
    SEGMENT_HEADER_BYTES,
    batch_seed,
    encode_segment_header,
    location_of,
    offset_of,
    segment_name,
    segment_of,
)
from penstock.world.disk import AppendFile, Disk, DiskError, DiskFull, FlushListener

# Small enough that reclaiming frees space soon, large enough that files are few: a terabyte
# makes sixteen thousand.
SEGMENT_BYTES_MAX: Final = 64 << 20
# From here on a second write costs less than copying the payload behind its header.
JOINED_BYTES_MAX: Final = 16 << 10
# From here on it costs less to combine a payload's known checksum with its header's (some
# microseconds, however long it is) than to go over the payload again.
SUMMED_BYTES_MIN: Final = 32 << 10
# The caller does not know a payload's checksum.
NOT_SUMMED: Final = -1
# A segment is not begun for a note alone while less is free: a block of a file system, which the
# smallest file takes. Until there is more space, or something to append, the note is left out.
SEGMENT_ROOM_BYTES: Final = 4096


@mypyc_attr(allow_interpreted_subclasses=True)
class JournalListener(ABC):
    """The owner of a journal."""

    @abstractmethod
    def durable(self, position: int, now: int) -> None:
        """Everything appended before this journal position survives a power loss."""

    @abstractmethod
    def failed(self, reason: str, now: int) -> None:
        """The disk cannot be trusted any more: stop."""


class Removal:
    """A segment that is removed once everything before a position is durable. Held by the
    journal.
    """

    def __init__(self, number: int, file: AppendFile, position: int) -> None:
        self.number: int = number
        self.file: AppendFile = file
        self.position: int = position


class Journal(FlushListener):
    """Held by the message store, and by the disk while a flush is on its way."""

    def __init__(
        self,
        disk: Disk,
        listener: JournalListener,
        state: RecoveredJournal,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
    ) -> None:
        # The end of the last payload that was appended, and of what is durable. The second may be
        # ahead by a note (see `_note_durable`).
        self.position: int = state.position
        self.durable_position: int = state.durable_position
        self._disk: Disk = disk
        self._listener: JournalListener = listener
        self._store_id: bytes = state.store_id
        self._seed: int = batch_seed(state.store_id)
        self._segment_bytes_max: int = segment_bytes_max
        self._files: dict[int, AppendFile] = state.files
        self._blocks: dict[int, SegmentBlocks] = state.blocks
        self._next_number: int = state.next_number
        self._active: int = max(state.files, default=0)
        self._active_file: AppendFile | None = None
        self._active_size: int = 0
        if self._active and state.torn_tail is None:
            self._active_file = state.files[self._active]
            self._active_size = self._active_file.size()
        # The end of everything in the files, including notes.
        self._end: int = state.position
        # The highest `durable` that a batch carries: any batch, one that the flush in progress
        # covers, one that is durable.
        self._noted: int = state.durable_position
        self._flushing_noted: int = 0
        self._safe_noted: int = 0
        self._failure: str = ""
        # Flushing: files to flush beside the active one, and whether a flush is in progress or to
        # be requested after it. A dictionary for its order and its quick look-up.
        self._unflushed: dict[AppendFile, None] = dict.fromkeys(state.unflushed)
        self._is_flushing: bool = False
        self._is_wanted: bool = False
        # What time it is: the owner says so before it asks for anything, and the disk when it
        # answers. And since when a flush has been running, 0 while none is: a disk that hangs
        # answers nothing.
        self.now: int = 0
        self.flush_began_at: int = 0
        # Segments to remove, oldest first.
        self._removals: list[Removal] = []

    def append(self, octets: bytes, checksum: int = NOT_SUMMED, start: int = 0) -> int:
        """Write one batch to the page cache; returns the location of its payload, which are the
        octets from a place on. `checksum` is the payload's own, from a caller that has computed it.
        """
        size = len(octets) - start
        assert 0 < size <= PAYLOAD_BYTES_MAX, "an empty batch is a note of our own"
        if self._failure:
            raise DiskError(self._failure)
        file = self._active_file
        if file is None or self._is_full_for(size):
            file = self._roll()
        self._write(file, octets, checksum, start)
        self.position = self._end
        return location_of(self._active, self._active_size - size)

    def append_long(self, payload: LongPayload) -> int:
        """The same for a prepared payload: it is neither joined nor read again, and the call does
        not wait for the page cache.
        """
        assert 0 < payload.size <= PAYLOAD_BYTES_MAX, "an empty batch is a note of our own"
        if self._failure:
            raise DiskError(self._failure)
        file = self._active_file
        if file is None or self._is_full_for(payload.size):
            file = self._roll()
        header = long_batch_header(payload, self._end, self.durable_position, self._seed)
        try:
            file.append_pieces([header, *payload.pieces])
        except DiskError as error:
            self._failure = str(error)
            raise
        self._noted = self.durable_position
        self._blocks[self._active].batch_at(self._active_size)
        size = BATCH_HEADER_BYTES + payload.size
        self._end += size
        self._active_size += size
        self.position = self._end
        return location_of(self._active, self._active_size - payload.size)

    def request_flush(self) -> None:
        """Ask that everything appended so far become durable; the listener is notified later."""
        if self._failure:
            return
        if self._is_flushing:
            self._is_wanted = True
        else:
            self._flush()

    def read(self, location: int, size: int) -> bytes:
        """Octets of a payload that was appended or recovered."""
        data = self._files[segment_of(location)].read(offset_of(location), size)
        if len(data) != size:
            name = segment_name(segment_of(location))
            raise DiskError(
                f"{name}: read {len(data)} bytes at offset {offset_of(location)} instead of {size}"
            )
        return data

    def checked(self, location: int, size_min: int) -> CheckedOctets:
        """Octets around a location of its segment that are known to be what was written; at least
        `size_min` from the location on, if a batch there has as many. Raises a `DiskError`.
        """
        number = segment_of(location)
        blocks = self._blocks[number]
        return blocks.read(
            segment_name(number), self._files[number], self._seed, offset_of(location), size_min
        )

    def batch_payload(self, location: int) -> bytes:
        """The payload of the batch whose header begins at this location, checked."""
        number = segment_of(location)
        offset = offset_of(location)
        name = segment_name(number)
        file = self._files[number]
        header = file.read(offset, BATCH_HEADER_BYTES)
        if len(header) < BATCH_HEADER_BYTES:
            raise damage(name, offset)
        size = BATCH_HEADER_BYTES + payload_size(header)
        if offset + size > file.size():
            raise damage(name, offset)
        data = file.read(offset, size)
        check_batches(name, data, offset, offset + size, self._seed)
        return data[BATCH_HEADER_BYTES:]

    def flush_too(self, file: AppendFile) -> None:
        """Let the next flush cover a file that is not the journal's."""
        self._unflushed[file] = None

    def segments(self) -> list[int]:
        """Oldest first, without those that are being removed."""
        return sorted(self._files)

    def active_segment(self) -> int:
        """The segment that batches are appended to; 0 before the first."""
        return self._active

    def segment_size(self, number: int) -> int:
        return self._files[number].size()

    def remove_segment(self, number: int) -> None:
        """Remove the oldest segment once everything appended so far is durable."""
        assert number != self._active, "batches still go to it"
        assert number == min(self._files), "a gap between segments means damage at recovery"
        self._removals.append(Removal(number, self._files.pop(number), self.position))
        del self._blocks[number]
        self.request_flush()

    # Calls from the disk.

    def flushed(self, token: int, now: int) -> None:
        assert self._is_flushing, "a flush is answered once"
        assert token >= self.durable_position, "flushes come in order"
        self._is_flushing = False
        self.flush_began_at = 0
        self.now = now
        self.durable_position = token
        self._safe_noted = self._flushing_noted
        try:
            self._go_on()
            # Not the token: a disk without delay has answered the next flush already.
            self._listener.durable(self.durable_position, now)
            if not self._is_flushing and self._noted < self.durable_position:
                self._note_if_there_is_room()
        except DiskError as error:
            self._failure = str(error)
            self._listener.failed(self._failure, now)

    def flush_failed(self, reason: str, now: int) -> None:
        self._failure = reason
        self._is_flushing = False
        self.flush_began_at = 0
        self._listener.failed(reason, now)

    def _go_on(self) -> None:
        """Remove a segment that is due, and request the next flush if one is wanted."""
        if self._removals:
            # A removal is flushed before the next one is made.
            self._is_wanted = True
            position = self._removals[0].position
            if position <= self._safe_noted:
                removal = self._removals.pop(0)
                removal.file.close()
                self._disk.remove(segment_name(removal.number))
            elif self._noted < position <= self.durable_position:
                self._note_durable()
        if self._is_wanted:
            self._flush()

    def _flush(self) -> None:
        if self._active_file is not None:
            self._unflushed[self._active_file] = None
        files = list(self._unflushed)
        self._unflushed = {}
        self._is_wanted = False
        self._is_flushing = True
        # A clock may begin at 0.
        self.flush_began_at = max(self.now, 1)
        self._flushing_noted = self._noted
        self._disk.flush(files, self._end, self)

    def _note_durable(self) -> None:
        """Write a batch without payload that records how far the journal is durable. While no more
        is appended, nothing else would distinguish damage to the last batch from a torn tail.
        """
        if self._failure:
            return
        if self._active_file is None:
            self._roll()
        if self._active_file is not None:
            self._write(self._active_file, b"")

    def _note_if_there_is_room(self) -> None:
        """Nothing waits for this note. So a full disk, at a start or while publishers are blocked,
        does not stop the broker; the next flush is followed by another try.
        """
        if self._active_file is None and self._disk.free_bytes() < SEGMENT_ROOM_BYTES:
            return
        try:
            self._note_durable()
        except DiskFull:
            file = self._active_file
            if file is None:
                raise
            file.truncate(self._active_size)
            self._failure = ""

    def _is_full_for(self, size: int) -> bool:
        """A batch never spans segments; one that is larger than a segment has its own."""
        wanted = self._active_size + BATCH_HEADER_BYTES + size
        return wanted > self._segment_bytes_max and self._active_size > SEGMENT_HEADER_BYTES

    def _roll(self) -> AppendFile:
        if self._active_file is not None:
            self._unflushed[self._active_file] = None
        number = self._next_number
        header = encode_segment_header(self._store_id, number, self._end)
        try:
            file = self._disk.open(segment_name(number))
            assert file.size() == 0, "numbers are never used again"
            file.append(header)
        except DiskError as error:
            self._failure = str(error)
            raise
        self._next_number = number + 1
        self._files[number] = file
        self._blocks[number] = SegmentBlocks()
        self._active = number
        self._active_file = file
        self._active_size = SEGMENT_HEADER_BYTES
        return file

    def _write(
        self, file: AppendFile, octets: bytes, checksum: int = NOT_SUMMED, start: int = 0
    ) -> None:
        size = len(octets) - start
        if size <= JOINED_BYTES_MAX and start:
            octets = octets[start:]
            start = 0
        if checksum == NOT_SUMMED or size < SUMMED_BYTES_MIN:
            payload = octets[start:] if start else octets
            header = batch_header(payload, self._end, self.durable_position, self._seed)
        else:
            header = summed_batch_header(
                size, checksum, self._end, self.durable_position, self._seed
            )
        try:
            if size <= JOINED_BYTES_MAX:
                file.append(header + octets)
            else:
                file.append(header)
                if start:
                    file.append_from(octets, start)
                else:
                    file.append(octets)
        except DiskError as error:
            # Part of a batch may be in the file now; recovery cuts it off.
            self._failure = str(error)
            raise
        self._noted = self.durable_position
        self._blocks[self._active].batch_at(self._active_size)
        self._end += BATCH_HEADER_BYTES + size
        self._active_size += BATCH_HEADER_BYTES + size
