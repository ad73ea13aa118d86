"""The index of a stream segment: one entry of fixed width per message.

     0            8             12          16         17    18      20        24    28
    +------------+-------------+-----------+----------+-----+-------+---------+-----+----------+
    | timestamp  | header size | body size | exchange | key | flags | position| crc | unsynced |
    | u64        | u32         | u32       | size u8  | u8  | u16   | u32     | u32 | u32      |
    +------------+-------------+-----------+----------+-----+-------+---------+-----+----------+
    |<------------------------- FIXED: covered by the CRC -------->|<------- VARIED ---------->|

Little-endian and naturally aligned, so that numpy and Arrow can read a file as it is. The timestamp
is in milliseconds since 1970 and never decreases. Position is that of the payload
(`stream_payload`) in the log. The CRC covers octets 0 to 19 and then the payload. `unsynced` says
how many messages before this one were not known to be durable when it was written; it distinguishes
damage from a torn tail.

Both files of a segment, log and index, begin with a preamble as wide as an entry. The entry of the
message with offset n is thus at 32 * (1 + n - first offset).

     0       8         10  12         16             24          28
    +-------+---------+---+----------+--------------+-----------+-------+
    | magic | version | 0 | 0        | first offset | 0         | crc   |
    | 8     | u16     |   |          | u64          |           | u32   |
    +-------+---------+---+----------+--------------+-----------+-------+
"""

import zlib
from struct import Struct
from typing import Final

from penstock.formats.octets import read_u32_le, write_u32_le
from penstock.formats.stream_payload import FRAMING_SIZE

# The fields of an entry in their order, with their types as numpy names them.
ENTRY_FIELDS: Final = (
    ("timestamp", "<u8"),
    ("header_size", "<u4"),
    ("body_size", "<u4"),
    ("exchange_size", "u1"),
    ("key_size", "u1"),
    ("flags", "<u2"),
    ("position", "<u4"),
    ("crc", "<u4"),
    ("unsynced", "<u4"),
)
ENTRY_SIZE: Final = 32
# What the CRC of an entry covers of the entry itself; messages that repeat one another in one tick
# have the same. The position follows it, and then the CRC.
FIXED_SIZE: Final = 20
POSITION_AT: Final = FIXED_SIZE
CRC_AT: Final = 24
# Where the sizes of header, body, exchange and key begin and end.
SIZES_AT: Final = 8
HEADER_SIZE_AT: Final = SIZES_AT
BODY_SIZE_AT: Final = 12
EXCHANGE_SIZE_AT: Final = 16
KEY_SIZE_AT: Final = 17
# The position of the lower octet of the flags in an entry.
FLAGS_AT: Final = 18
UNSYNCED_AT: Final = 28

# Flags.
STARTS_BATCH: Final = 1  # the first message of one append
HAS_PUBLISHER: Final = 2  # its headers name a publisher and a sequence number
WAS_DELIVERED: Final = 4  # in row blocks only: a client may have seen the message before
NOTED: Final = 8  # one of a sink's rows, and whole only with the note that covers them

FORMAT_VERSION: Final = 1
LOG_MAGIC: Final = b"PENSTLOG"
INDEX_MAGIC: Final = b"PENSTIDX"

FIXED: Final = Struct("<QIIBBH")
VARIED: Final = Struct("<III")
_ENTRY: Final = Struct("<QIIBBHIII")
_PREAMBLE: Final = Struct("<8sHHIQ4x")
PREAMBLE_SIZE: Final = 32
UNSYNCED_MAX: Final = 2**32 - 1


def entry_crc(fixed: bytes, payload: bytes) -> int:
    """The CRC of an entry that begins with `fixed`, for its payload."""
    return zlib.crc32(payload, zlib.crc32(fixed))


def encode_entry(fixed: bytes, position: int, crc: int, unsynced: int) -> bytes:
    return fixed + VARIED.pack(position, crc, unsynced)


def encode_preamble(magic: bytes, first_offset: int) -> bytes:
    head = _PREAMBLE.pack(magic, FORMAT_VERSION, 0, 0, first_offset)
    return head + write_u32_le(zlib.crc32(head))


class Preamble:
    """The beginning of a segment's file, decoded."""

    def __init__(self, magic: bytes, version: int, first_offset: int) -> None:
        self.magic: bytes = magic
        self.version: int = version
        self.first_offset: int = first_offset


def decode_preamble(octets: bytes) -> Preamble | None:
    """None for one that is torn: too short, or with a wrong checksum."""
    if len(octets) < PREAMBLE_SIZE:
        return None
    covered = octets[: PREAMBLE_SIZE - 4]
    if zlib.crc32(covered) != read_u32_le(octets, PREAMBLE_SIZE - 4):
        return None
    magic, version, _, _, first_offset = _PREAMBLE.unpack(covered)
    return Preamble(magic, version, first_offset)


class IndexEntry:
    """One entry, decoded."""

    def __init__(self, octets: bytes, at: int) -> None:
        (
            timestamp,
            header_size,
            body_size,
            exchange_size,
            key_size,
            flags,
            position,
            crc,
            unsynced,
        ) = _ENTRY.unpack_from(octets, at)
        self.timestamp: int = timestamp
        self.header_size: int = header_size
        self.body_size: int = body_size
        self.exchange_size: int = exchange_size
        self.key_size: int = key_size
        self.flags: int = flags
        self.position: int = position
        self.crc: int = crc
        self.unsynced: int = unsynced

    def size(self) -> int:
        """Octets of the payload."""
        return FRAMING_SIZE + self.exchange_size + self.key_size + self.header_size + self.body_size

    def end(self) -> int:
        return self.position + self.size()
