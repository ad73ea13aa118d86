"""The form of a ledger's file: records of 32 octets, little-endian, that numpy takes as they are.

     0        8       9        10          12      16       24      28
    +--------+-------+--------+-----------+-------+--------+-------+----------+
    | time   | event | detail | publisher | name  | first  | count | sequence |
    | u64 ms | u8    | u8     | u16       | u32   | u64    | u32   | u32      |
    +--------+-------+--------+-----------+-------+--------+-------+----------+

A record speaks of `count` messages of one queue, those with positions from `first` on; one record
so stands for a whole run. `name` is the number of a queue or a route in this file. A name record
gives it: its `count` is the length of the text that follows, filled up to a multiple of 32 octets.
Texts are `vhost NUL queue`, `vhost NUL exchange NUL key`, and for publishers, which have numbers of
their own, `vhost NUL connection/channel NUL serial`. A file begins with its magic and version as a
record, and names stand before their use.

ENQUEUED says who published: `publisher` is 0 for nobody who waits for confirms under a name of
their own, and `sequence` are the low 32 bits of what the first message of the run was confirmed as.
The high ones are in the publisher's name record. The run's other messages follow it one by one, or
with HAS_SEQUENCES the records behind this one say their sequences, fifteen each, as differences from
the first in 16 bits.
"""

from array import array
from struct import Struct
from sys import byteorder
from typing import Final

MAGIC: Final = b"PENSTLDG"
FORMAT_VERSION: Final = 1
RECORD: Final = Struct("<QBBHIQII")
RECORD_SIZE: Final = 32
_HEAD: Final = Struct("<8sHH20x")
# A record of sequences has its event where every record has it, and numbers of 16 bits elsewhere.
SEQUENCES_PER_RECORD: Final = 15
_LOW: Final = 0xFFFFFFFF

# Events.
NAME: Final = 1
STARTED: Final = 2  # the broker has started; what queues held then follows as RESTORED
RESTORED: Final = 3
ENQUEUED: Final = 4  # detail: IS_PERSISTENT, HAS_SEQUENCES
DELIVERED: Final = 5
REQUEUED: Final = 6
ACKNOWLEDGED: Final = 7
TAKEN: Final = 8  # delivered to a consumer that does not acknowledge, and gone
DROPPED: Final = 9  # detail: why
ROUTED: Final = 10  # name is a route's; count messages since its last such record
SEQUENCES: Final = 11  # detail: how many of the fifteen are used
LEASED: Final = 12  # moved out of the queue into a lease

# Details of NAME, added up.
IS_STREAM: Final = 1
IS_DURABLE: Final = 2
IS_PUBLISHER: Final = 4  # `first` are the high bits of its sequences

# Details of ENQUEUED, added up.
IS_PERSISTENT: Final = 1
HAS_SEQUENCES: Final = 2

# Details of DROPPED.
REASONS: Final = ("expired", "maxlen", "rejected", "delivery_limit", "purged")


def head() -> bytes:
    return _HEAD.pack(MAGIC, FORMAT_VERSION, RECORD_SIZE)


def name_record(time: int, name: int, flags: int, text: bytes, first: int = 0) -> bytes:
    filled = text + bytes(-len(text) % RECORD_SIZE)
    return RECORD.pack(time, NAME, flags, 0, name, first, len(text), 0) + filled


# A record is four words of 64 bits. Most are collected as such and packed together, which is four
# times as quick as one by one.


def add_record(
    words: list[int], time: int, event: int, detail: int, name: int, first: int, count: int
) -> None:
    words.append(time)
    words.append(event | detail << 8 | name << 32)
    words.append(first)
    words.append(count)


def add_enqueued(
    words: list[int],
    time: int,
    detail: int,
    publisher: int,
    name: int,
    first: int,
    count: int,
    sequence: int,
) -> None:
    words.append(time)
    words.append(ENQUEUED | detail << 8 | publisher << 16 | name << 32)
    words.append(first)
    words.append(count | (sequence & _LOW) << 32)


def add_sequences(words: list[int], ahead: list[int]) -> None:
    """As many records as they need; `ahead` is filled up."""
    count = len(ahead)
    ahead.extend([0] * (-count % SEQUENCES_PER_RECORD))
    for at in range(0, count, SEQUENCES_PER_RECORD):
        used = min(count - at, SEQUENCES_PER_RECORD)
        words.append(_four(ahead[at], ahead[at + 1], ahead[at + 2], ahead[at + 3]))
        words.append(_four(SEQUENCES | used << 8, ahead[at + 4], ahead[at + 5], ahead[at + 6]))
        words.append(_four(ahead[at + 7], ahead[at + 8], ahead[at + 9], ahead[at + 10]))
        words.append(_four(ahead[at + 11], ahead[at + 12], ahead[at + 13], ahead[at + 14]))


def _four(first: int, second: int, third: int, fourth: int) -> int:
    return first | second << 16 | third << 32 | fourth << 48


def packed(words: list[int]) -> bytes:
    octets = array("Q", words)
    if byteorder == "big":
        octets.byteswap()
    return octets.tobytes()
