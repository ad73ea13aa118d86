"""The form of a ledger's file: records of 32 octets, little-endian, that numpy takes as they are.

     0        8       9        10     12      16       24      28
    +--------+-------+--------+------+-------+--------+-------+------+
    | time   | event | detail | zero | name  | first  | count | zero |
    | u64 ms | u8    | u8     | u16  | u32   | u64    | u32   | u32  |
    +--------+-------+--------+------+-------+--------+-------+------+

A record speaks of `count` messages of one queue, those with positions from `first` on; one record
so stands for a whole run. `name` is the number of a queue in this file. A name record gives it: its
`count` is the length of the text that follows, `vhost NUL queue`, filled up to a multiple of 32
octets. A file begins with its magic and version as a record, and names stand before their use.
"""

from struct import Struct
from typing import Final

MAGIC: Final = b"PENSTLDG"
FORMAT_VERSION: Final = 1
RECORD: Final = Struct("<QBBHIQII")
RECORD_SIZE: Final = 32
_HEAD: Final = Struct("<8sHH20x")

# Events.
NAME: Final = 1
STARTED: Final = 2  # the broker has started; what queues held then follows as RESTORED
RESTORED: Final = 3
ENQUEUED: Final = 4  # detail 1: persistent
DELIVERED: Final = 5
REQUEUED: Final = 6
ACKNOWLEDGED: Final = 7
TAKEN: Final = 8  # delivered to a consumer that does not acknowledge, and gone
DROPPED: Final = 9  # detail: why
ROUTED: Final = (
    10  # name is `vhost NUL exchange NUL key`; count messages since the last such record
)

# Details of NAME, added up.
IS_STREAM: Final = 1
IS_DURABLE: Final = 2

# Details of DROPPED.
REASONS: Final = ("expired", "maxlen", "rejected", "delivery_limit", "purged")


def head() -> bytes:
    return _HEAD.pack(MAGIC, FORMAT_VERSION, RECORD_SIZE)


def record(time: int, event: int, detail: int, name: int, first: int, count: int) -> bytes:
    return RECORD.pack(time, event, detail, 0, name, first, count, 0)


def name_record(time: int, name: int, flags: int, text: bytes) -> bytes:
    filled = text + bytes(-len(text) % RECORD_SIZE)
    return RECORD.pack(time, NAME, flags, 0, name, 0, len(text), 0) + filled
