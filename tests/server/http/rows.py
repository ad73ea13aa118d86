"""Rows as any client could make and read them, with nothing of the broker's."""

import zlib
from struct import Struct

from penstock.wire.amqp091.content import BasicProperties, encode_header

_ENTRY = Struct("<QIIBBHIII")
_FIXED = Struct("<QIIBBH")


class Row:
    """One message of a block of rows."""

    def __init__(
        self,
        key: str,
        body: bytes,
        exchange: str = "",
        properties: BasicProperties | None = None,
        flags: int = 0,
    ) -> None:
        self.key = key
        self.body = body
        self.exchange = exchange
        self.header = encode_header(len(body), properties or BasicProperties(delivery_mode=2))
        self.flags = flags

    def payload(self) -> bytes:
        exchange, key = self.exchange.encode(), self.key.encode()
        return b"".join(
            [
                bytes([len(exchange)]) + exchange,
                bytes([len(key)]) + key,
                len(self.header).to_bytes(4, "little") + self.header,
                len(self.body).to_bytes(4, "little") + self.body,
            ]
        )


def block(rows: list[Row]) -> bytes:
    index = b""
    log = b""
    for row in rows:
        fixed = _FIXED.pack(
            0, len(row.header), len(row.body), len(row.exchange), len(row.key), row.flags
        )
        payload = row.payload()
        crc = zlib.crc32(payload, zlib.crc32(fixed))
        index += fixed + Struct("<III").pack(len(log), crc, 0)
        log += payload
    return Struct("<II").pack(len(rows), len(log)) + index + log


def read_block(octets: bytes, *, has_checksums: bool = True) -> list[tuple[str, bytes, int]]:
    """Routing key, body and flags of each row; checksums are checked where there should be any."""
    count, log_size = Struct("<II").unpack_from(octets, 0)
    log = octets[8 + 32 * count :]
    assert len(log) == log_size
    found = []
    for at in range(8, 8 + 32 * count, 32):
        _, header, body, exchange, key, flags, position, crc, _ = _ENTRY.unpack_from(octets, at)
        payload = log[position : position + 10 + exchange + key + header + body]
        assert crc == (has_checksums and zlib.crc32(payload, zlib.crc32(octets[at : at + 20])))
        key_at = 2 + exchange
        found.append(
            (payload[key_at : key_at + key].decode(), payload[len(payload) - body :], flags)
        )
    return found
