"""The note beside a segment: which publishers' messages its stream holds, and the progress of
sinks.

A note begins with everything that was known when its segment began. Groups of changes follow, each
closed by a mark: "the messages from offset A up to B are in the log, and with them these numbers
hold". So a start reads the note, and of the log only what follows the last mark.

    record: crc u32 | kind u8 | size of name u16 | number i64 | name          little-endian
    kinds: 0 a publisher's last sequence, 2 ends what the note begins with and says how many records
    that were, 3 rows of a sink's stage that the stream holds, 4 a mark: its number is B, its name
    is A u64 and the CRC32 of the index entries from A up to B u32

Invariants
- a mark counts only if the log holds the messages that it covers. A power loss may keep a note and
  lose the messages, and others may get their offsets: the checksum of the index entries
  distinguishes them;
- rows of a sink carry no number of their own, so those behind the last mark are cut off with
  whatever follows them (`stream_recovery`): nothing of them was confirmed before their mark was
  durable.
"""

import zlib
from struct import Struct
from typing import Final

from penstock.formats.stream_index import ENTRY_SIZE, FLAGS_AT, NOTED
from penstock.storage.number_table import encode_record
from penstock.storage.stream_segment import StreamSegment, publishers_name
from penstock.world.disk import AppendFile, Disk

_RECORD: Final = Struct("<IBHq")
_RECORD_SIZE: Final = 15
_RANGE: Final = Struct("<QI")
_RANGE_SIZE: Final = 12
_PUBLISHER: Final = 0
_BEGUN: Final = 2
_STAGE: Final = 3
_MARK: Final = 4
# Entries of the index that are read at once while their checksum is made: one mebibyte.
_CHECK_COUNT: Final = 32_768


def encode_table(sequences: dict[str, int], stages: dict[str, int]) -> bytes:
    """The initial table of a note."""
    records = _changes(sequences, stages)
    records.append(encode_record(_BEGUN, b"", len(records)))
    return b"".join(records)


def encode_group(
    sequences: dict[str, int], stages: dict[str, int], begin: int, end: int, crc: int
) -> bytes:
    """Changes and their mark. `crc` is that of the index entries from `begin` up to `end`."""
    records = _changes(sequences, stages)
    records.append(encode_record(_MARK, _RANGE.pack(begin, crc), end))
    return b"".join(records)


def _changes(sequences: dict[str, int], stages: dict[str, int]) -> list[bytes]:
    records: list[bytes] = []
    for name, number in sequences.items():
        records.append(encode_record(_PUBLISHER, name.encode(errors="surrogateescape"), number))
    for name, number in stages.items():
        records.append(encode_record(_STAGE, name.encode(errors="surrogateescape"), number))
    return records


def entries_crc(segment: StreamSegment, begin: int, end: int) -> int:
    """CRC32 of the index entries of these offsets."""
    crc = 0
    place = begin - segment.first_offset
    last = end - segment.first_offset
    while place < last:
        count = min(_CHECK_COUNT, last - place)
        octets = segment.index().read(ENTRY_SIZE * (1 + place), ENTRY_SIZE * count)
        crc = zlib.crc32(octets, crc)
        place += count
    return crc


class PublisherNote:
    """The valid content of the note beside a segment."""

    def __init__(
        self, segment: StreamSegment, octets: bytes, end_offset: int, durable_offset: int
    ) -> None:
        """The segment is whole up to `end_offset`. Marks up to `durable_offset` were durable and
        are not compared with the index again.
        """
        self.sequences: dict[str, int] = {}
        self.stages: dict[str, int] = {}
        # Whether the initial table of the note is complete.
        self.is_begun: bool = False
        # Numbers are valid up to this offset.
        self.offset: int = segment.first_offset
        # Octets of the note up to the last mark that counts.
        self.end: int = 0
        self._segment: StreamSegment = segment
        self._end_offset: int = end_offset
        self._durable_offset: int = durable_offset
        self._read(octets)
        if not self.is_begun:
            self.sequences = {}
            self.stages = {}

    def _read(self, octets: bytes) -> None:
        # The records of the group that no mark has closed yet.
        changes: list[tuple[int, str, int]] = []
        at = 0
        while at + _RECORD_SIZE <= len(octets):
            crc, kind, size, number = _RECORD.unpack_from(octets, at)
            end = at + _RECORD_SIZE + size
            if end > len(octets) or zlib.crc32(octets[at + 4 : end]) != crc:
                return
            name = octets[at + _RECORD_SIZE : end]
            at = end
            if kind == _BEGUN:
                if number != len(changes):
                    return
                self.is_begun = True
            elif kind == _MARK:
                if not self.is_begun or not self._counts(name, number):
                    return
                self.offset = number
            else:
                changes.append((kind, name.decode(errors="surrogateescape"), number))
                continue
            self._apply(changes)
            changes = []
            self.end = end

    def _counts(self, name: bytes, end: int) -> bool:
        """Whether the log holds the messages that a mark covers."""
        if len(name) != _RANGE_SIZE:
            return False
        begin, crc = _RANGE.unpack(name)
        if not self.offset <= begin <= end <= self._end_offset:
            return False
        if end <= self._durable_offset:
            return True
        expected: int = crc
        return entries_crc(self._segment, begin, end) == expected

    def _apply(self, changes: list[tuple[int, str, int]]) -> None:
        for kind, name, number in changes:
            if kind == _PUBLISHER:
                # Removed and added again: the order of the table is that of the last change.
                self.sequences.pop(name, None)
                self.sequences[name] = number
            elif kind == _STAGE:
                self.stages[name] = number

    def unnoted(self) -> int:
        """Offset of the first row of a sink that the note does not cover; -1 without any."""
        segment = self._segment
        place = self.offset - segment.first_offset
        last = self._end_offset - segment.first_offset
        while place < last:
            count = min(_CHECK_COUNT, last - place)
            octets = segment.index().read(ENTRY_SIZE * (1 + place), ENTRY_SIZE * count)
            flags = octets[FLAGS_AT::ENTRY_SIZE]
            if flags and max(flags) >= NOTED:
                for index, value in enumerate(flags):
                    if value & NOTED:
                        return segment.first_offset + place + index
            place += count
        return -1


def read_note(
    disk: Disk,
    folder: str,
    names: list[str],
    segment: StreamSegment,
    end_offset: int,
    durable_offset: int,
) -> PublisherNote:
    """`names` are the existing files; a missing note counts as empty."""
    name = publishers_name(folder, segment.first_offset)
    octets = b""
    if name in names:
        file: AppendFile = disk.open(name)
        octets = file.read(0, file.size())
        file.close()
    return PublisherNote(segment, octets, end_offset, durable_offset)
