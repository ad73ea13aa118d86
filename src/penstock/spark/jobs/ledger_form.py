"""The form of ledgers, the broker's and the clients': records of 32 octets, little-endian.

     0        8       9        10          12      16       24      28
    +--------+-------+--------+-----------+-------+--------+-------+----------+
    | time   | event | detail | publisher | name  | first  | count | sequence |
    | u64 ms | u8    | u8     | u16       | u32   | u64    | u32   | u32      |
    +--------+-------+--------+-----------+-------+--------+-------+----------+

A record speaks of `count` messages, those numbered from `first` on: positions in a queue in the
broker's ledger, a publisher's sequence numbers in a client's. `name` is the number of a name in
this file; a name record gives it, with `count` octets of text behind it, filled up to a multiple of
32. The broker's names are `vhost NUL queue`, and `vhost NUL exchange NUL key` of a route; a client's
are `vhost NUL queue NUL publisher`, with an empty queue where a publisher speaks for itself.

What brings the two together is the *session*: one channel of a connection whose client has given it
a name that no other has, `connection/channel`. The broker names it `vhost NUL session NUL serial`,
with a number of its own that ENQUEUED has in `publisher`; `sequence` is then what the run's first
message is confirmed as, its tag. Of sequences that do not follow one another, records of SEQUENCES
behind it give fifteen each as differences. The client names it `vhost NUL session NUL publisher`, and
TAGGED says that from the tag in `sequence` and, for its high bits, `count` on its messages are those
from `first` on.

This module needs nothing but Python, so that programs that only write ledgers need no Spark.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

BROKER_MAGIC: Final = b"PENSTLDG"
CLIENT_MAGIC: Final = b"PENSTLDC"
FORMAT_VERSION: Final = 1
RECORD: Final = Struct("<QBBHIQII")
RECORD_SIZE: Final = 32
SUFFIX: Final = ".led"
_HEAD: Final = Struct("<8sHH20x")

# Events of the broker.
NAME: Final = 1
STARTED: Final = 2
RESTORED: Final = 3
ENQUEUED: Final = 4
DELIVERED: Final = 5
REQUEUED: Final = 6
ACKNOWLEDGED: Final = 7
TAKEN: Final = 8
DROPPED: Final = 9
ROUTED: Final = 10
SEQUENCES: Final = 11
LEASED: Final = 12
REASONS: Final = ("expired", "maxlen", "rejected", "delivery_limit", "purged")

# Bits of a name record's detail. A broker that says nothing leaves them 0.
IS_STREAM: Final = 1
IS_DURABLE: Final = 2
IS_PUBLISHER: Final = 4
IS_SESSION: Final = 8

# Bits of the detail of ENQUEUED.
IS_PERSISTENT: Final = 1
HAS_SEQUENCES: Final = 2
SEQUENCES_PER_RECORD: Final = 15
# Records of sequences behind one record.
SEQUENCE_RECORDS_MAX: Final = 64

# Events of clients. REACHES says that what the name's publisher sends goes to the name's queue.
PUBLISHED: Final = 33
CONFIRMED: Final = 34
REFUSED: Final = 35
RECEIVED: Final = 36  # detail 1: flagged as redelivered
REACHES: Final = 37
TAGGED: Final = 38


def head(magic: bytes) -> bytes:
    return _HEAD.pack(magic, FORMAT_VERSION, RECORD_SIZE)


def record(
    time: int,
    event: int,
    detail: int,
    name: int,
    first: int,
    count: int,
    publisher: int = 0,
    sequence: int = 0,
) -> bytes:
    return RECORD.pack(time, event, detail, publisher, name, first, count, sequence)


def tagged_record(time: int, session: int, tag: int, first: int) -> bytes:
    return RECORD.pack(time, TAGGED, 0, 0, session, first, tag >> 32, tag & 0xFFFFFFFF)


def name_record(time: int, name: int, text: bytes, detail: int = 0, first: int = 0) -> bytes:
    filled = text + bytes(-len(text) % RECORD_SIZE)
    return RECORD.pack(time, NAME, detail, 0, name, first, len(text), 0) + filled


def broker_name(vhost: str, queue: str) -> bytes:
    return f"{vhost}\0{queue}".encode(errors="surrogateescape")


def client_name(vhost: str, queue: str, publisher: str) -> bytes:
    return f"{vhost}\0{queue}\0{publisher}".encode(errors="surrogateescape")


def session_name(connection: str, channel: int) -> str:
    return f"{connection}/{channel}"
