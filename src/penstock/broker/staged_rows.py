"""Rows as they lie in a stage: blocks, each of which is one message of the stage's queue.

    number of the first row u32 | rows u32 | payloads of rows, one behind the other

Little-endian; payloads are those of a stream's log (`storage.stream_index`), whose own sizes lead
from one to the next. A block is what one step publishes. So what is staged costs the journal a
record per block, and a row is made into a message once, when it is published.

Invariants: a block was checked before it was made; blocks of a stage follow one another without
gaps in the numbers of their rows.
"""

from struct import Struct
from typing import Final

from penstock.broker.message import Message
from penstock.storage.stream_index import FRAMING_SIZE, SIZE

BLOCK_HEAD: Final = Struct("<II")
BLOCK_HEAD_SIZE: Final = 8
# Of one block, and so of what is published in one step, during which nobody else is served: a few
# milliseconds. A single row may be larger.
BLOCK_ROWS_MAX: Final = 4096
BLOCK_BYTES_MAX: Final = 512 * 1024


class StagedRows:
    """Rows on their way into a stage. Held by who stages them."""

    def __init__(self) -> None:
        self.count: int = 0
        # How many rows, and their payloads: what one block takes.
        self.parts: list[tuple[int, bytes]] = []

    def add(self, count: int, payloads: bytes) -> None:
        self.parts.append((count, payloads))
        self.count += count


class BlockRows:
    """Goes over the rows of a block. Held by who reads it."""

    def __init__(self, block: bytes) -> None:
        self._data: bytes = block
        self._next: int = BLOCK_HEAD_SIZE
        self.first: int = read_size(block, 0)
        self.count: int = read_size(block, 4)
        # Of the row that `next` came to: exchange and key as short strings, header, body. Address and
        # header stay the same objects for as long as rows have the same.
        self.address: bytes = b""
        self.header: bytes = b""
        self.body_size: int = 0
        self._body: int = 0

    def next(self) -> None:
        data = self._data
        start = self._next
        key = start + 1 + data[start]
        header = key + 5 + data[key]
        body = header + 4 + read_size(data, header - 4)
        if data[start : header - 4] != self.address:
            self.address = data[start : header - 4]
        if data[header : body - 4] != self.header:
            self.header = data[header : body - 4]
        self.body_size = read_size(data, body - 4)
        self._body = body
        self._next = body + self.body_size

    def skip(self, count: int) -> None:
        for _ in range(count):
            self.next()

    def body(self) -> bytes:
        return self._data[self._body : self._next]

    def exchange(self) -> str:
        return self.address[1 : 1 + self.address[0]].decode(errors="surrogateescape")

    def routing_key(self) -> str:
        return self.address[2 + self.address[0] :].decode(errors="surrogateescape")


def read_size(data: bytes, at: int) -> int:
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24


def rows_of(messages: list[Message]) -> StagedRows:
    """For whoever has messages and no rows."""
    rows = StagedRows()
    pieces: list[bytes] = []
    size = 0
    count = 0
    for message in messages:
        header = message.properties.encoded()
        address = message.address.octets()
        pieces += [address, SIZE.pack(len(header)), header, SIZE.pack(len(message.body))]
        pieces.append(message.body)
        size += FRAMING_SIZE + len(address) + len(header) + len(message.body)
        count += 1
        if count == BLOCK_ROWS_MAX or size >= BLOCK_BYTES_MAX:
            rows.add(count, b"".join(pieces))
            pieces = []
            size = 0
            count = 0
    if count:
        rows.add(count, b"".join(pieces))
    return rows
