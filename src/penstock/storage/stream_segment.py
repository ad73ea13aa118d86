"""One segment of a stream: a log of payloads and the index beside it.

Invariants: entries of the index follow one another without gaps in the log; `count` and `log_size`
say what was appended, flushed or not.
"""

import zlib
from typing import Final

from penstock.formats.stream_index import (
    ENTRY_SIZE,
    FIXED_SIZE,
    FLAGS_AT,
    FORMAT_VERSION,
    INDEX_MAGIC,
    LOG_MAGIC,
    IndexEntry,
    decode_preamble,
    encode_preamble,
)
from penstock.storage.errors import Damaged, NotAStore, WrongVersion
from penstock.world.disk import AppendFile, Disk, DiskError

# Enough digits for 63 bits, so that names sort as their numbers do.
_DIGITS: Final = 20


def log_name(folder: str, first_offset: int) -> str:
    return f"{folder}/{first_offset:0{_DIGITS}d}.log"


def index_name(folder: str, first_offset: int) -> str:
    return f"{folder}/{first_offset:0{_DIGITS}d}.idx"


def publishers_name(folder: str, first_offset: int) -> str:
    return f"{folder}/{first_offset:0{_DIGITS}d}.pub"


def segment_number(folder: str, name: str) -> int:
    """The first offset of the segment that a file belongs to; -1 for any other file."""
    stem, _, kind = name.removeprefix(folder + "/").partition(".")
    return int(stem) if kind in {"log", "idx", "pub"} and stem.isdigit() else -1


def is_preamble(name: str, octets: bytes, magic: bytes, first_offset: int) -> bool:
    """False for one that is torn; raises for a complete one of another file or version."""
    found = decode_preamble(octets)
    if found is None:
        return False
    if found.magic != magic or found.first_offset != first_offset:
        raise NotAStore(name, "is not the stream segment that its name indicates")
    if found.version != FORMAT_VERSION:
        raise WrongVersion(name, found.version, FORMAT_VERSION)
    return True


class StoredEntry:
    """A message as a segment stores it. `address` is the payload's start: both names with their
    lengths.
    """

    def __init__(
        self,
        offset: int,
        timestamp: int,
        flags: int,
        exchange_size: int,
        address: bytes,
        header: bytes,
        body: bytes,
    ) -> None:
        self.offset: int = offset
        self.timestamp: int = timestamp
        self.flags: int = flags
        self.exchange_size: int = exchange_size
        self.address: bytes = address
        self.header: bytes = header
        self.body: bytes = body

    @property
    def exchange(self) -> str:
        return self.address[1 : 1 + self.exchange_size].decode(errors="surrogateescape")

    @property
    def routing_key(self) -> str:
        return self.address[2 + self.exchange_size :].decode(errors="surrogateescape")


class SegmentStretch:
    """Messages that follow one another in a segment, as its files hold them."""

    def __init__(
        self, segment_first: int, first_offset: int, entries: bytes, payloads: bytes
    ) -> None:
        self.segment_first: int = segment_first
        self.first_offset: int = first_offset
        self.entries: bytes = entries
        self.payloads: bytes = payloads

    @property
    def count(self) -> int:
        return len(self.entries) // ENTRY_SIZE

    def messages(self) -> list[StoredEntry]:
        start = IndexEntry(self.entries, 0).position
        found: list[StoredEntry] = []
        for at in range(0, len(self.entries), ENTRY_SIZE):
            entry = IndexEntry(self.entries, at)
            offset = self.first_offset + len(found)
            found.append(_stored(entry, offset, self.payloads, entry.position - start))
        return found


def _stored(entry: IndexEntry, offset: int, payloads: bytes, position: int) -> StoredEntry:
    """A message whose payload begins at a place of these."""
    header_at = position + 2 + entry.exchange_size + entry.key_size
    body_at = header_at + 4 + entry.header_size + 4
    key_at = position + 1 + entry.exchange_size
    return StoredEntry(
        offset,
        entry.timestamp,
        entry.flags,
        entry.exchange_size,
        payloads[position : key_at + 1 + entry.key_size],
        payloads[header_at + 4 : body_at - 4],
        payloads[body_at : body_at + entry.body_size],
    )


class StreamSegment:
    """Held by its stream log. Files are opened when they are first needed."""

    def __init__(self, disk: Disk, folder: str, first_offset: int) -> None:
        self._disk: Disk = disk
        self.log_name: str = log_name(folder, first_offset)
        self.index_name: str = index_name(folder, first_offset)
        self.first_offset: int = first_offset
        self.count: int = 0
        self.log_size: int = 0
        # Of the first and the last message; meaningless while there is none.
        self.first_timestamp: int = 0
        self.last_timestamp: int = 0
        self._log: AppendFile | None = None
        self._index: AppendFile | None = None

    def log(self) -> AppendFile:
        if self._log is None:
            self._log = self._disk.open(self.log_name)
        return self._log

    def index(self) -> AppendFile:
        if self._index is None:
            self._index = self._disk.open(self.index_name)
        return self._index

    def is_open(self) -> bool:
        return self._log is not None or self._index is not None

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._index is not None:
            self._index.close()
            self._index = None

    def create(self) -> None:
        """Write the preambles of a segment that was not there."""
        self.log().append(encode_preamble(LOG_MAGIC, self.first_offset))
        self.index().append(encode_preamble(INDEX_MAGIC, self.first_offset))
        self.log_size = ENTRY_SIZE

    def remove(self) -> None:
        """Both files go."""
        self.close()
        self._disk.remove(self.log_name)
        self._disk.remove(self.index_name)

    def end_offset(self) -> int:
        return self.first_offset + self.count

    def size(self) -> int:
        """Octets of both files."""
        return self.log_size + ENTRY_SIZE * (1 + self.count)

    def append(
        self, payloads: bytes, entries: bytes, first_timestamp: int, last_timestamp: int
    ) -> None:
        if self.count == 0:
            self.first_timestamp = first_timestamp
        self.last_timestamp = last_timestamp
        self.log().append(payloads)
        self.index().append(entries)
        self.log_size += len(payloads)
        self.count += len(entries) // ENTRY_SIZE

    def entry(self, place: int) -> IndexEntry:
        """The index entry of a message by its place in this segment."""
        return IndexEntry(self.index().read(ENTRY_SIZE * (1 + place), ENTRY_SIZE), 0)

    def read(self, place: int, count_max: int, bytes_max: int, found: list[StoredEntry]) -> bool:
        """Append messages from a place on: no more than `count_max`, and no more than `bytes_max`
        unless the first alone is larger. False when a checksum is wrong; the messages before it
        were appended.
        """
        count = min(count_max, self.count - place)
        octets = self.index().read(ENTRY_SIZE * (1 + place), ENTRY_SIZE * count)
        entries: list[IndexEntry] = []
        size = 0
        for at in range(0, ENTRY_SIZE * count, ENTRY_SIZE):
            entry = IndexEntry(octets, at)
            size += entry.size()
            if entries and size > bytes_max:
                size -= entry.size()
                break
            entries.append(entry)
        start = entries[0].position
        payloads = self.log().read(start, size)
        at = 0
        for entry in entries:
            position = entry.position - start
            if not is_whole(entry, octets, at, payloads, position):
                return False
            at += ENTRY_SIZE
            found.append(_stored(entry, self.first_offset + place, payloads, position))
            place += 1
        return True

    def stretch(self, place: int, count_max: int, bytes_max: int) -> SegmentStretch:
        """Messages from a place on, checked: at least one, no more than `count_max`, about
        `bytes_max` octets. Raises a `DiskError` for damage: what it would be copied to must not get it.
        """
        count = min(count_max, self.count - place, 1 + bytes_max // ENTRY_SIZE)
        octets = self.index().read(ENTRY_SIZE * (1 + place), ENTRY_SIZE * count)
        size = 0
        taken = 0
        while taken < count and (not taken or size < bytes_max):
            size += ENTRY_SIZE + IndexEntry(octets, ENTRY_SIZE * taken).size()
            taken += 1
        size -= ENTRY_SIZE * taken
        octets = octets[: ENTRY_SIZE * taken]
        start = IndexEntry(octets, 0).position
        payloads = self.log().read(start, size)
        for at in range(0, ENTRY_SIZE * taken, ENTRY_SIZE):
            entry = IndexEntry(octets, at)
            if not is_whole(entry, octets, at, payloads, entry.position - start):
                offset = self.first_offset + place + at // ENTRY_SIZE
                damage = Damaged(self.log_name, entry.position, f"message {offset} is damaged")
                raise DiskError(str(damage))
        return SegmentStretch(self.first_offset, self.first_offset + place, octets, payloads)

    def flagged(self, flag: int, place: int) -> list[int]:
        """Places from one on whose entries carry a flag of the lower octet."""
        octets = self.index().read(ENTRY_SIZE * (1 + place), ENTRY_SIZE * (self.count - place))
        # One octet of every entry, without a step per entry where none is set.
        flags = octets[FLAGS_AT::ENTRY_SIZE]
        found: list[int] = []
        if flags and max(flags) >= flag:
            for index, value in enumerate(flags):
                if value & flag:
                    found.append(place + index)
        return found

    def place_at(self, timestamp: int) -> int:
        """Place of the first message that is not older than a timestamp; `count` when all are."""
        low = 0
        high = self.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).timestamp < timestamp:
                low = middle + 1
            else:
                high = middle
        return low

    def cut(self, count: int, log_size: int) -> None:
        """Keep only the first entries, to cut off a torn tail."""
        self.index().truncate(ENTRY_SIZE * (1 + count))
        self.log().truncate(log_size)
        self.count = count
        self.log_size = log_size


def is_whole(
    entry: IndexEntry, entries: bytes, entry_at: int, payloads: bytes, payload_at: int
) -> bool:
    """Whether an entry's checksum fits the payload at a place of `payloads`."""
    size = entry.size()
    if payload_at < 0 or payload_at + size > len(payloads):
        return False
    crc = zlib.crc32(entries[entry_at : entry_at + FIXED_SIZE])
    return zlib.crc32(payloads[payload_at : payload_at + size], crc) == entry.crc
