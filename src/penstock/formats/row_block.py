"""A row block: messages carried in bulk over HTTP, leased ones going out, staged ones coming in.

     0       4          8
    +-------+----------+------------------------------+--------------------------+
    | count | log size | index: `count` entries of 32 | log: payloads, log size  |
    | u32   | u32      |                              | octets of them           |
    +-------+----------+------------------------------+--------------------------+

Little-endian. Entries and payloads are those of a stream's segment (`stream_index`,
`stream_payload`), so that a decoder of segments can decode these too. Positions in the index are
from the log's start; the CRC of an entry covers what it covers in a segment, or is 0 where the
request's own checksum covers the block.

The broker writes blocks of leases and reads those of sinks; Spark does the opposite, with numpy.
"""

from struct import Struct
from typing import Final

from penstock.formats.stream_index import FIXED, encode_entry, entry_crc
from penstock.formats.stream_payload import encode_payload

BLOCK_HEAD: Final = Struct("<II")
BLOCK_HEAD_SIZE: Final = 8
# A block without any rows.
NO_ROWS: Final = bytes(BLOCK_HEAD_SIZE)


class RowBlockWriter:
    """Composes rows to a block. Held by the code that writes it."""

    def __init__(self) -> None:
        self.count: int = 0
        self._position: int = 0
        self._index: list[bytes] = []
        self._log: list[bytes] = []

    def add(self, timestamp: int, flags: int, address: bytes, header: bytes, body: bytes) -> None:
        exchange_size = address[0]
        key_size = len(address) - 2 - exchange_size
        fixed = FIXED.pack(timestamp, len(header), len(body), exchange_size, key_size, flags)
        payload = encode_payload(address, header, body)
        self._index.append(encode_entry(fixed, self._position, entry_crc(fixed, payload), 0))
        self._log.append(payload)
        self._position += len(payload)
        self.count += 1

    def octets(self) -> bytes:
        head = BLOCK_HEAD.pack(self.count, self._position)
        return b"".join([head, *self._index, *self._log])
