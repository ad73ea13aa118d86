"""Messages carried in bulk, by others than AMQP: leased ones going out, staged ones coming in.

The form is that of a stream's segment (`storage.stream_index`), so that whoever decodes segments
decodes these too:

    count u32 | size of the log u32 | one index entry per message | log

Little-endian. Positions in the index are from the log's start; the CRC of an entry covers what it
covers in a segment. What comes in is checked entirely before anything is made of it.
"""

import zlib
from struct import Struct
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import PreconditionFailed
from penstock.broker.message import Message, MessageDecoder
from penstock.storage.stream_index import (
    ENTRY,
    ENTRY_SIZE,
    FIXED,
    FRAMING_SIZE,
    SIZE,
    VARIED,
)

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


def decode_rows(rows: bytes, decoder: MessageDecoder) -> list[Message]:
    """Raises `PreconditionFailed` for rows that are not whole."""
    return decode_some(rows, 0, count_rows(rows), decoder)


def count_rows(rows: bytes) -> int:
    if len(rows) < HEAD_SIZE:
        raise _wrong("it ends within its head")
    count, log_size = HEAD.unpack_from(rows, 0)
    if len(rows) != HEAD_SIZE + count * ENTRY_SIZE + log_size:
        raise _wrong(f"{count} rows with a log of {log_size} octets are not {len(rows)} octets")
    return int(count)


def decode_some(rows: bytes, first: int, end: int, decoder: MessageDecoder) -> list[Message]:
    """A part of rows that `count_rows` has seen, for whoever decodes them in steps."""
    count, log_size = HEAD.unpack_from(rows, 0)
    log_at = HEAD_SIZE + count * ENTRY_SIZE
    messages: list[Message] = []
    for number in range(first, end):
        messages.append(_decode_row(rows, number, log_at, log_size, decoder))
    return messages


def _decode_row(
    rows: bytes, number: int, log_at: int, log_size: int, decoder: MessageDecoder
) -> Message:
    entry_at = HEAD_SIZE + number * ENTRY_SIZE
    _, header_size, body_size, exchange_size, key_size, _, position, crc, _ = ENTRY.unpack_from(
        rows, entry_at
    )
    size = FRAMING_SIZE + exchange_size + key_size + header_size + body_size
    if position + size > log_size:
        raise _wrong(f"row {number} reaches behind the log")
    start = log_at + position
    payload = rows[start : start + size]
    if zlib.crc32(payload, zlib.crc32(rows[entry_at : entry_at + FIXED.size])) != crc:
        raise _wrong(f"the checksum of row {number} is wrong")
    key_at = 1 + exchange_size
    header_at = key_at + 1 + key_size
    body_at = header_at + 4 + header_size
    if (
        payload[0] != exchange_size
        or payload[key_at] != key_size
        or payload[header_at : header_at + 4] != SIZE.pack(header_size)
        or payload[body_at : body_at + 4] != SIZE.pack(body_size)
    ):
        raise _wrong(f"sizes of row {number} differ between index and log")
    return decoder.decode(
        payload[1:key_at].decode(errors="surrogateescape"),
        payload[key_at + 1 : header_at].decode(errors="surrogateescape"),
        payload[header_at + 4 : body_at],
        payload[body_at + 4 :],
    )


def _wrong(what: str) -> PreconditionFailed:
    return PreconditionFailed(f"these are no rows: {what}")
