"""A segment: a file of the journal, and how a place in it is written as one number.

    "PENSTOCK"(8) | version(2) | store id(16) | number(8) | position(8) | checksum(4) | batches

The header looks like this in every version, so that an unknown version can be distinguished from a
damaged header. `position` is the journal position of the first batch.
"""

from struct import Struct
from typing import Final
from zlib import crc32

FORMAT_VERSION: Final = 2
SEGMENT_MAGIC: Final = b"PENSTOCK"
SEGMENT_HEADER_BYTES: Final = 46
STORE_ID_BYTES: Final = 16
FOLDER: Final = "journal/"

_SUFFIX: Final = ".log"
_DIGITS: Final = 12
_HEADER: Final = Struct(">8sH16sQQ")
# 8 GiB: above what one batch, which ends at 4 GiB, can make of a segment.
_OFFSET_BITS: Final = 33
# Locations stay below this, so that others may be marked by a bit above, and all fit a machine word
# of the compiled build. It is 2^28 segments, and more than ten thousand terabytes written.
LOCATION_END: Final = 1 << 61
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1


class SegmentHeader:
    """The decoded header of a segment. Made when it is opened."""

    def __init__(self, version: int, store_id: bytes, number: int, position: int) -> None:
        self.version: int = version
        self.store_id: bytes = store_id
        self.number: int = number
        self.position: int = position


def encode_segment_header(store_id: bytes, number: int, position: int) -> bytes:
    assert len(store_id) == STORE_ID_BYTES, "the field has a fixed width"
    covered = _HEADER.pack(SEGMENT_MAGIC, FORMAT_VERSION, store_id, number, position)
    return covered + crc32(covered).to_bytes(4, "big")


def decode_segment_header(data: bytes) -> SegmentHeader | None:
    """None when the bytes are not a complete header."""
    if len(data) < SEGMENT_HEADER_BYTES or not data.startswith(SEGMENT_MAGIC):
        return None
    covered = data[: SEGMENT_HEADER_BYTES - 4]
    if crc32(covered) != int.from_bytes(data[len(covered) : SEGMENT_HEADER_BYTES], "big"):
        return None
    _, version, store_id, number, position = _HEADER.unpack(covered)
    return SegmentHeader(version, store_id, number, position)


def may_be_torn_header(data: bytes) -> bool:
    """Whether a header that was being written during a power loss could look like this: its
    beginning is valid, then it ends or has zeros. Anything else is not a file of Penstock.
    """
    magic = data[: len(SEGMENT_MAGIC)].rstrip(b"\0")
    if not SEGMENT_MAGIC.startswith(magic):
        return False
    return magic == SEGMENT_MAGIC or not data[len(magic) :].strip(b"\0")


def batch_seed(store_id: bytes) -> int:
    """The initial value of the checksums of a store's batches."""
    return crc32(store_id)


def segment_name(number: int) -> str:
    return f"{FOLDER}{number:0{_DIGITS}d}{_SUFFIX}"


def segment_number(name: str) -> int:
    """0 when this is not the name of a segment."""
    digits = name[len(FOLDER) : -len(_SUFFIX)]
    if not (digits.isascii() and digits.isdigit()) or name != segment_name(int(digits)):
        return 0
    return int(digits)


def location_of(number: int, offset: int) -> int:
    location = number << _OFFSET_BITS | offset
    assert location < LOCATION_END, "no store has had so many segments"
    return location


def segment_of(location: int) -> int:
    return location >> _OFFSET_BITS


def offset_of(location: int) -> int:
    return location & _OFFSET_MASK
