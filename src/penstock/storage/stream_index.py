"""The index of a stream segment: one entry of fixed width per message.

     0            8             12          16         17    18      20        24    28
    +------------+-------------+-----------+----------+-----+-------+---------+-----+----------+
    | timestamp  | header size | body size | exchange | key | flags | position| crc | unsynced |
    | u64        | u32         | u32       | size u8  | u8  | u16   | u32     | u32 | u32      |
    +------------+-------------+-----------+----------+-----+-------+---------+-----+----------+

Little-endian and naturally aligned, so that numpy and Arrow take a file as it is. The timestamp is
in milliseconds since 1970 and never goes back. Position is that of the payload in the log. The CRC
covers octets 0 to 19 and then the payload. `unsynced` says how many messages before this one were
not known to be safe when it was written; it tells damage from a torn tail.

A payload in the log repeats the lengths, so that an index can be made again from a log:

    exchange size u8, exchange, key size u8, key, header size u32, header, body size u32, body

Both files begin with a preamble as wide as an entry: magic, format version, offset of the first
message, CRC. The entry of the message with offset n is thus at 32 * (1 + n - first offset).
"""

import zlib
from struct import Struct
from typing import Final

from penstock.storage.errors import NotAStore, WrongVersion

ENTRY_SIZE: Final = 32
# What the CRC of an entry covers of the entry itself. It is the same for a run of like messages.
FIXED_SIZE: Final = 20
# Where the lower octet of the flags stands in an entry.
FLAGS_AT: Final = 18
# Octets of a payload beside its four parts: two lengths of one octet and two of four.
FRAMING_SIZE: Final = 10

# Flags.
STARTS_BATCH: Final = 1  # the first message of what was appended at once
HAS_PUBLISHER: Final = 2  # its headers name a publisher and a sequence number
# 4 is another one's: `broker.carried_rows` says with it that a message was delivered before.
NOTED: Final = 8  # one of a sink's rows, and whole only with the note that counts them

FORMAT_VERSION: Final = 1
LOG_MAGIC: Final = b"PENSTLOG"
INDEX_MAGIC: Final = b"PENSTIDX"

FIXED: Final = Struct("<QIIBBH")
VARIED: Final = Struct("<III")
ENTRY: Final = Struct("<QIIBBHIII")
SIZE: Final = Struct("<I")
_PREAMBLE: Final = Struct("<8sHHIQ4x")
UNSYNCED_MAX: Final = 2**32 - 1


def encode_preamble(magic: bytes, first_offset: int) -> bytes:
    head = _PREAMBLE.pack(magic, FORMAT_VERSION, 0, 0, first_offset)
    return head + SIZE.pack(zlib.crc32(head))


def is_preamble(name: str, octets: bytes, magic: bytes, first_offset: int) -> bool:
    """False for one that is torn; raises for one that is whole and not ours to read."""
    if len(octets) < ENTRY_SIZE:
        return False
    checksum: int = SIZE.unpack_from(octets, ENTRY_SIZE - 4)[0]
    if zlib.crc32(octets[: ENTRY_SIZE - 4]) != checksum:
        return False
    found_magic, version, _, _, found_offset = _PREAMBLE.unpack_from(octets, 0)
    if found_magic != magic or found_offset != first_offset:
        raise NotAStore(name, "is not the stream segment that its name says")
    if version != FORMAT_VERSION:
        raise WrongVersion(name, version, FORMAT_VERSION)
    return True


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
        ) = ENTRY.unpack_from(octets, at)
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
