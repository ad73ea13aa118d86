"""Rows as a stage stores them: blocks, each of which is one message of the stage's queue.

     0                  4       8
    +------------------+-------+---------------------------------------+
    | number of the    | rows  | payloads of rows, one behind the other |
    | first row, u32   | u32   | (`stream_payload`)                    |
    +------------------+-------+---------------------------------------+

Little-endian; the payloads' own sizes lead from one to the next. A block is what one step
publishes. So staging costs the journal a record per block, and a row is made into a message only
once, when it is published.

Invariants: a block was checked before it was made; blocks of a stage follow one another without
gaps in the numbers of their rows.
"""

from struct import Struct
from typing import Final

from penstock.formats.octets import read_u32_le

STAGE_BLOCK_HEAD: Final = Struct("<II")
STAGE_BLOCK_HEAD_SIZE: Final = 8
# The size of one block, and so of what is published in one step, during which no other client is
# served: a few milliseconds. A single row may be larger.
BLOCK_ROWS_MAX: Final = 4096
BLOCK_BYTES_MAX: Final = 512 * 1024


class StagedRows:
    """Rows that are being staged. Held by the code that stages them."""

    def __init__(self) -> None:
        self.count: int = 0
        # How many rows, and their payloads, for each block. They are not copied.
        self.parts: list[tuple[int, memoryview]] = []

    def add(self, count: int, payloads: memoryview) -> None:
        self.parts.append((count, payloads))
        self.count += count


def block_of(first: int, count: int, payloads: memoryview) -> bytes:
    return b"".join([STAGE_BLOCK_HEAD.pack(first, count), payloads])


class RepeatedRows:
    """A row and the following ones that repeat it: they differ in the content of their bodies
    only.
    """

    def __init__(self, block: bytes, start: int, key: int, header: int, body: int) -> None:
        """The run of the row that begins at `start`; the others have the same first bytes."""
        self._block: bytes = block
        # Exchange and key as short strings.
        self.address: bytes = block[start : header - 4]
        self._key_at: int = key - start
        self.header: bytes = block[header : body - 4]
        self.body_size: int = read_u32_le(block, body - 4)
        self._body: int = body
        self._row_size: int = body + self.body_size - start
        self.count: int = 1

    def extend(self, count_max: int) -> int:
        """Take the rows that repeat it, up to a limit; returns where the next one begins."""
        block = self._block
        size = self._row_size
        body = self._body
        end = body + self.body_size
        start = end - size
        opening = block[start:body]
        rest = body - start
        while self.count < count_max and block[end : end + rest] == opening:
            self.count += 1
            end += size
        return end

    def bodies(self, skipped: int) -> list[bytes]:
        """The bodies of all rows but the first ones."""
        block = self._block
        size = self._row_size
        start = self._body + skipped * size
        body_size = self.body_size
        bodies: list[bytes] = []
        for _ in range(self.count - skipped):
            bodies.append(block[start : start + body_size])
            start += size
        return bodies

    def payloads(self, first: int, count: int) -> bytes:
        """The payloads of some of the rows, one after the other, as the block has them."""
        size = self._row_size
        start = self._body + self.body_size - size + first * size
        return self._block[start : start + count * size]

    def exchange(self) -> str:
        return self.address[1 : self._key_at].decode(errors="surrogateescape")

    def routing_key(self) -> str:
        return self.address[self._key_at + 1 :].decode(errors="surrogateescape")


class BlockRows:
    """The rows of a block. Held by the code that reads it."""

    def __init__(self, block: bytes) -> None:
        self._block: bytes = block
        self.first: int = read_u32_le(block, 0)
        self.count: int = read_u32_le(block, 4)

    def runs(self) -> list[RepeatedRows]:
        block = self._block
        found: list[RepeatedRows] = []
        start = STAGE_BLOCK_HEAD_SIZE
        left = self.count
        while left:
            key = start + 1 + block[start]
            header = key + 5 + block[key]
            body = header + 4 + read_u32_le(block, header - 4)
            run = RepeatedRows(block, start, key, header, body)
            start = run.extend(left)
            left -= run.count
            found.append(run)
        return found
