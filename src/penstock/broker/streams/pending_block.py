"""Messages of a replicated stream that are in the journal and not in the stream's files yet."""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.formats.replication_id import epoch_of, id_of_offset, offset_of_id
from penstock.formats.stream_append import APPEND_HEAD_SIZE, StreamAppend
from penstock.formats.stream_index import ENTRY_SIZE, IndexEntry
from penstock.storage.stream_segment import SegmentStretch

# Octets of operations that wait in memory for their commit. Beyond it they are read from the journal.
WAITING_BYTES_MAX: Final = 32 * 1024 * 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class BlockKeeper:
    """The journal as replicated streams see it."""

    def read(self, location: int, size: int) -> bytes:
        """Octets of a record, checked. Raises a `DiskError`."""
        raise NotImplementedError

    def released(self, location: int, size: int) -> None:
        """A record is not needed any more: the stream's files have it durably, or it is void."""
        raise NotImplementedError


class PendingBlock:
    """What one operation appended, or as much of it as counts. Held until the files have it."""

    def __init__(self, append: StreamAppend, location: int) -> None:
        # The journal's place of its number, and its size there.
        self.location: int = location
        self.size: int = append.size
        self.segment_first: int = append.segment_first
        self._epoch: int = epoch_of(append.first_id)
        self.first_offset: int = append.first_offset()
        self.end_offset: int = self.first_offset + append.count
        # How many messages the record has before the first that counts, and in all.
        self._skipped: int = 0
        self._count: int = append.count
        # The journal's position that must be committed before the files get it.
        self.position: int = 0
        # Octets in memory that have it, and where; empty when it must be read.
        self.octets: bytes = b""
        self.at: int = 0

    @property
    def first_id(self) -> int:
        return id_of_offset(self._epoch, self.first_offset)

    @property
    def count(self) -> int:
        return self.end_offset - self.first_offset

    def keep_between(self, first_id: int, end_id: int) -> bool:
        """Let only these ids count; False when it has none of them."""
        own = self.first_id
        first = max(first_id, own)
        end = min(end_id, own + self.count)
        if first >= end:
            return False
        self._skipped += first - own
        self.first_offset = offset_of_id(first)
        self.end_offset = self.first_offset + end - first
        return True

    def keep_from(self, offset: int) -> None:
        """Let only the messages from an offset on count; it has some."""
        if offset > self.first_offset:
            self._skipped += offset - self.first_offset
            self.first_offset = offset

    def stretch(self, keeper: BlockKeeper, offset: int, count_max: int) -> SegmentStretch:
        """Entries and payloads from an offset on."""
        octets, at = self.octets, self.at
        if not octets:
            octets, at = keeper.read(self.location, self.size), 0
        entries_at = at + APPEND_HEAD_SIZE
        payloads_at = entries_at + ENTRY_SIZE * self._count
        place = self._skipped + offset - self.first_offset
        count = min(count_max, self.end_offset - offset)
        begin = entries_at + ENTRY_SIZE * place
        end = begin + ENTRY_SIZE * count
        start = IndexEntry(octets, entries_at).position
        first = IndexEntry(octets, begin).position - start
        behind = IndexEntry(octets, end - ENTRY_SIZE).end() - start
        return SegmentStretch(
            self.segment_first,
            offset,
            octets[begin:end],
            octets[payloads_at + first : payloads_at + behind],
        )


class BlocksInMemory:
    """Held by the replicated streams of a member: how many octets of operations wait for their commit."""

    def __init__(self) -> None:
        self.octets: int = 0

    def keep(self, block: PendingBlock, octets: bytes, at: int) -> None:
        """These octets have the block at a place; it is in memory while there is room."""
        if self.octets + block.size <= WAITING_BYTES_MAX:
            self.octets += block.size
            block.octets = octets
            block.at = at

    def let_go(self, block: PendingBlock) -> None:
        """Its octets are not needed any more."""
        if block.octets:
            self.octets -= block.size
            block.octets = b""
