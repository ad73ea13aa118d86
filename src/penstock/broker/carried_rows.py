"""Messages carried in bulk, by others than AMQP: leased ones going out, staged ones coming in.

The form is that of a stream's segment (`storage.stream_index`), so that whoever decodes segments
decodes these too:

    count u32 | size of the log u32 | one index entry per message | log

Little-endian. Positions in the index are from the log's start; the CRC of an entry covers what it
covers in a segment. Going out is here; what comes in is looked at by `row_check`.
"""

import zlib
from struct import Struct
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import PreconditionFailed
from penstock.storage.stream_index import ENTRY_SIZE, FIXED, SIZE, VARIED

HEAD: Final = Struct("<II")
HEAD_SIZE: Final = 8
# A flag of an index entry that streams do not have: somebody may have seen the message before.
WAS_DELIVERED: Final = 4


def encode_rows(entries: list[QueueEntry], wall: int) -> bytes:
    """Entries as rows; all carry the same time, that of the lease."""
    index: list[bytes] = []
    log: list[bytes] = []
    position = 0
    for entry in entries:
        message = entry.message
        header = message.properties.encoded()
        address = message.address.octets()
        body = message.body
        exchange_size = address[0]
        key_size = len(address) - 2 - exchange_size
        flags = WAS_DELIVERED if entry.is_redelivered else 0
        fixed = FIXED.pack(wall, len(header), len(body), exchange_size, key_size, flags)
        payload = b"".join([address, SIZE.pack(len(header)), header, SIZE.pack(len(body)), body])
        crc = zlib.crc32(payload, zlib.crc32(fixed))
        index.append(fixed)
        index.append(VARIED.pack(position, crc, 0))
        log.append(payload)
        position += len(payload)
    return b"".join([HEAD.pack(len(entries), position), *index, *log])


def count_rows(rows: bytes) -> int:
    """Raises `PreconditionFailed` when the whole has not the size that its head says."""
    if len(rows) < HEAD_SIZE:
        raise wrong_rows("it ends within its head")
    count, log_size = HEAD.unpack_from(rows, 0)
    if len(rows) != HEAD_SIZE + count * ENTRY_SIZE + log_size:
        raise wrong_rows(f"{count} rows with a log of {log_size} octets are not {len(rows)} octets")
    return int(count)


def wrong_rows(what: str) -> PreconditionFailed:
    return PreconditionFailed(f"these are no rows: {what}")
