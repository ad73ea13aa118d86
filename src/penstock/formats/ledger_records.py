"""Ledgers, the broker's and the clients': records of 32 bytes that numpy reads as they are.

     0        8       9        10          12      16       24      28
    +--------+-------+--------+-----------+-------+--------+-------+----------+
    | time   | event | detail | publisher | name  | first  | count | sequence |
    | u64 ms | u8    | u8     | u16       | u32   | u64    | u32   | u32      |
    +--------+-------+--------+-----------+-------+--------+-------+----------+

Little-endian. A file begins with its magic and version as a record:

     0       8         10            12
    +-------+---------+-------------+-----------------------------------------+
    | magic | version | record size | zeros                                   |
    | 8     | u16     | u16         |                                         |
    +-------+---------+-------------+-----------------------------------------+

A record describes `count` messages, those numbered from `first` on: positions in a queue in the
broker's ledger, a publisher's sequence numbers in a client's. One record so stands for a whole run.
`name` is the number of a name in this file. A name record gives it, before its first use: its
`count` is the length of the text that follows, filled up to a multiple of 32 octets. The broker's
names are `vhost NUL queue`, and `vhost NUL exchange NUL key` of a route; a client's are `vhost NUL
queue NUL publisher`, with an empty queue for records of the publisher itself.

The two are matched by the *session*: one channel of a connection to which its client has given a
unique name, `connection/channel`. The broker names it `vhost NUL session NUL serial`, with a number
of its own that ENQUEUED has in `publisher`; 0 means a publisher without confirms or without a name.
`sequence` has the low 32 bits of the confirm's delivery tag of the run's first message; the high
ones are in the session's name record. The run's other messages follow it one by one, or with
HAS_SEQUENCES the records after this one give their sequences, fifteen each, as differences from the
first in 16 bits. The client names the session `vhost NUL session NUL publisher`, and TAGGED says
that from the tag in `sequence` and, for its high bits, `count` on its messages are those from
`first` on.

In a cluster only the root writes about messages. A name record with IS_MEMBER says whose ledger it
is, `cluster NUL server NUL members`, the last separated by commas. ROOT begins the *term* of a root:
`first` is its epoch, `count` the epoch of the root whose state it has inherited. Its queues are
named after that, and the name of a replicated one has the queue's number in `first`, which together
with the positions identifies a message at every server. COMMITTED ends what a tick of a root writes:
the records before it are in the journal up to the position in `first`, of which as many octets as
`count` and, for the high bits, `sequence` say are not committed yet.
"""

from array import array
from struct import Struct
from sys import byteorder
from typing import Final

BROKER_MAGIC: Final = b"PENSTLDG"
CLIENT_MAGIC: Final = b"PENSTLDC"
# Of a ledger's file.
SUFFIX: Final = ".led"
FORMAT_VERSION: Final = 1
# The fields of a record in their order, with their types as numpy names them.
RECORD_FIELDS: Final = (
    ("time", "<u8"),
    ("event", "u1"),
    ("detail", "u1"),
    ("publisher", "<u2"),
    ("name", "<u4"),
    ("first", "<u8"),
    ("count", "<u4"),
    ("sequence", "<u4"),
)
RECORD: Final = Struct("<QBBHIQII")
RECORD_SIZE: Final = 32
_HEAD: Final = Struct("<8sHH20x")
# A record of sequences has its event where every record has it, and numbers of 16 bits elsewhere.
SEQUENCES_PER_RECORD: Final = 15
# Records of sequences behind one record.
SEQUENCE_RECORDS_MAX: Final = 64
_LOW: Final = 0xFFFFFFFF

# Events of the broker.
NAME: Final = 1
STARTED: Final = 2  # the broker has started; what queues held then follows as RESTORED
RESTORED: Final = 3  # also what a new root of a cluster has inherited
ENQUEUED: Final = 4  # detail: IS_PERSISTENT, HAS_SEQUENCES
DELIVERED: Final = 5
REQUEUED: Final = 6
ACKNOWLEDGED: Final = 7
TAKEN: Final = 8  # delivered to a consumer that does not acknowledge, and dequeued
DROPPED: Final = 9  # detail: why
ROUTED: Final = 10  # name is a route's; count messages since its last such record
SEQUENCES: Final = 11  # detail: how many of the fifteen are used
LEASED: Final = 12  # moved out of the queue into a lease
ROOT: Final = 13  # detail: CONTINUES
COMMITTED: Final = 14

# Events of clients.
PUBLISHED: Final = 33
CONFIRMED: Final = 34
REFUSED: Final = 35
RECEIVED: Final = 36  # detail 1: flagged as redelivered
REACHES: Final = 37  # what the name's publisher sends goes to the name's queue
TAGGED: Final = 38

# Details of NAME, added up; 0 where nothing is known.
IS_STREAM: Final = 1
IS_DURABLE: Final = 2
IS_PUBLISHER: Final = 4  # `first` are the high bits of its sequences
IS_SESSION: Final = 8  # in clients' ledgers
IS_MEMBER: Final = 16

# Details of ENQUEUED, added up.
IS_PERSISTENT: Final = 1
HAS_SEQUENCES: Final = 2

# Detail of ROOT: the term began in an earlier file.
CONTINUES: Final = 1

# Details of DROPPED.
REASONS: Final = ("expired", "maxlen", "rejected", "delivery_limit", "purged")


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
    return RECORD.pack(time, TAGGED, 0, 0, session, first, tag >> 32, tag & _LOW)


def name_record(time: int, name: int, text: bytes, detail: int = 0, first: int = 0) -> bytes:
    filled = text + bytes(-len(text) % RECORD_SIZE)
    return RECORD.pack(time, NAME, detail, 0, name, first, len(text), 0) + filled


def broker_name(vhost: str, queue: str) -> bytes:
    return f"{vhost}\0{queue}".encode(errors="surrogateescape")


def client_name(vhost: str, queue: str, publisher: str) -> bytes:
    return f"{vhost}\0{queue}\0{publisher}".encode(errors="surrogateescape")


def member_name(cluster: str, server: str, members: list[str]) -> bytes:
    return f"{cluster}\0{server}\0{','.join(members)}".encode()


def session_name(connection: str, channel: int) -> str:
    return f"{connection}/{channel}"


# A record is four words of 64 bits. Most of the broker's are collected as such and packed together, which is four
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
    """Add as many records as they need; `ahead` is padded."""
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
