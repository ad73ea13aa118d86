"""The form of ledgers, the broker's and the clients': records of 32 octets, little-endian.

     0        8       9        10     12      16       24      28
    +--------+-------+--------+------+-------+--------+-------+------+
    | time   | event | detail | zero | name  | first  | count | zero |
    | u64 ms | u8    | u8     | u16  | u32   | u64    | u32   | u32  |
    +--------+-------+--------+------+-------+--------+-------+------+

A record speaks of `count` messages, those numbered from `first` on: positions in a queue in the
broker's ledger, a publisher's sequence numbers in a client's. `name` is the number of a name in
this file; a name record gives it, with `count` octets of text behind it, filled up to a multiple of
32. The broker's names are `vhost NUL queue`; a client's are `vhost NUL queue NUL publisher`, with
an empty queue where a publisher speaks for itself.

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
REASONS: Final = ("expired", "maxlen", "rejected", "delivery_limit", "purged")

# Bits of a name record's detail. A broker that says nothing leaves them 0.
IS_STREAM: Final = 1
IS_DURABLE: Final = 2

# Events of clients. REACHES says that what the name's publisher sends goes to the name's queue.
PUBLISHED: Final = 33
CONFIRMED: Final = 34
REFUSED: Final = 35
RECEIVED: Final = 36  # detail 1: flagged as redelivered
REACHES: Final = 37


def head(magic: bytes) -> bytes:
    return _HEAD.pack(magic, FORMAT_VERSION, RECORD_SIZE)


def record(time: int, event: int, detail: int, name: int, first: int, count: int) -> bytes:
    return RECORD.pack(time, event, detail, 0, name, first, count, 0)


def name_record(time: int, name: int, text: bytes, detail: int = 0) -> bytes:
    filled = text + bytes(-len(text) % RECORD_SIZE)
    return RECORD.pack(time, NAME, detail, 0, name, 0, len(text), 0) + filled


def broker_name(vhost: str, queue: str) -> bytes:
    return f"{vhost}\0{queue}".encode(errors="surrogateescape")


def client_name(vhost: str, queue: str, publisher: str) -> bytes:
    return f"{vhost}\0{queue}\0{publisher}".encode(errors="surrogateescape")
