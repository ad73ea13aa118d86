"""Messages that a tick appended to a replicated stream, as the journal and other servers get them.

    stream number(8) | id of the first message(8) | first offset of the segment(8) | count(4)
    index entries, 32 octets each | payloads

The numbers before the entries are big-endian. The id contains the epoch in which the messages were
appended and the offset of the first (`replication_id`). Entries and payloads are what the files of the
segment hold (`stream_index`), but for how much of the stream was durable, which each server says itself.
"""

from struct import Struct
from typing import Final

from penstock.formats.entry_columns import payloads_end
from penstock.formats.octets import read_u32, read_u64
from penstock.formats.replication_id import offset_of_id
from penstock.formats.stream_index import ENTRY_SIZE, IndexEntry

_HEAD: Final = Struct(">QQQI")
APPEND_HEAD_SIZE: Final = 28


def encode_append_head(number: int, first_id: int, segment_first: int, count: int) -> bytes:
    return _HEAD.pack(number, first_id, segment_first, count)


class StreamAppend:
    """Where the parts are in the octets it was read from."""

    def __init__(self, data: bytes, at: int, size: int) -> None:
        """It is whole; `at` is where its number begins."""
        self.number: int = read_u64(data, at)
        self.first_id: int = read_u64(data, at + 8)
        self.segment_first: int = read_u64(data, at + 16)
        self.count: int = read_u32(data, at + 24)
        self.at: int = at
        self.size: int = size

    def first_offset(self) -> int:
        return offset_of_id(self.first_id)


def is_whole_append(data: bytes, at: int, size: int) -> bool:
    """Whether it has at least one message, and its entries describe exactly its payloads."""
    if size < APPEND_HEAD_SIZE + ENTRY_SIZE:
        return False
    count = read_u32(data, at + 24)
    entries_at = at + APPEND_HEAD_SIZE
    payloads_size = size - APPEND_HEAD_SIZE - count * ENTRY_SIZE
    if count == 0 or payloads_size < 0 or read_u64(data, at + 8) == 0:
        return False
    if read_u64(data, at + 16) > offset_of_id(read_u64(data, at + 8)):
        return False
    entries = data[entries_at : entries_at + count * ENTRY_SIZE]
    return payloads_end(entries) == IndexEntry(entries, 0).position + payloads_size
