"""Index and log as the broker writes them, made by its own code, for tests of the decoder."""

from __future__ import annotations

from typing import NamedTuple

from penstock.formats.stream_index import FIXED, encode_entry, entry_crc
from penstock.formats.stream_payload import encode_payload
from penstock.spark.segments import SPARE_BYTES


class Row(NamedTuple):
    exchange: bytes
    key: bytes
    head: bytes
    body: bytes
    timestamp: int = 1_700_000_000_000
    flags: int = 0


def written(rows: list[Row], position: int = 32) -> tuple[bytes, bytearray, int]:
    """Index, log with spare octets, size of the log without them."""
    index: list[bytes] = []
    log: list[bytes] = []
    at = position
    for row in rows:
        address = bytes([len(row.exchange)]) + row.exchange + bytes([len(row.key)]) + row.key
        payload = encode_payload(address, row.head, row.body)
        fixed = FIXED.pack(
            row.timestamp,
            len(row.head),
            len(row.body),
            len(row.exchange),
            len(row.key),
            row.flags,
        )
        index.append(encode_entry(fixed, at, entry_crc(fixed, payload), 0))
        log.append(payload)
        at += len(payload)
    return b"".join(index), bytearray(b"".join(log) + bytes(SPARE_BYTES)), at - position
