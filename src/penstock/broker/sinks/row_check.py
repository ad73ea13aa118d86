"""Rows from a client, checked entirely before any of them is staged.

A judge decides whether a publisher may publish them, and is asked once for each different exchange,
key and header. A row that repeats the one before it is not checked again.
"""

import zlib
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.errors import PreconditionFailed
from penstock.formats.octets import read_u32_le
from penstock.formats.row_block import BLOCK_HEAD, BLOCK_HEAD_SIZE
from penstock.formats.stage_block import BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, StagedRows
from penstock.formats.stream_index import (
    BODY_SIZE_AT,
    CRC_AT,
    ENTRY_SIZE,
    EXCHANGE_SIZE_AT,
    FIXED_SIZE,
    FLAGS_AT,
    HEADER_SIZE_AT,
    KEY_SIZE_AT,
    POSITION_AT,
    SIZES_AT,
)
from penstock.formats.stream_payload import FRAMING_SIZE

# The header does not give the size of its body.
NOT_SAID: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class RowJudge:
    """Decides what a publisher may do. The methods that see something raise a `Refusal`."""

    def see_address(self, exchange: str, routing_key: str) -> None:
        raise NotImplementedError

    def see_header(self, header: bytes) -> int:
        """The size of the body that the header gives; NOT_SAID when it gives none."""
        raise NotImplementedError

    def has_copies(self, header: bytes) -> bool:
        """Whether a header that was seen has routing keys of its own (CC, BCC)."""
        return False

    def see_copies(self, exchange: str, header: bytes) -> None:
        """These keys, for a row that goes to this exchange."""


class RowCheck:
    """One block of rows from a client. Held by the request that brought it."""

    def __init__(self, rows: bytes, judge: RowJudge, has_checksums: bool = True) -> None:
        """Raises a `Refusal`, as `step` does."""
        self.count: int = _count_rows(rows)
        self._rows: bytes = rows
        self._view: memoryview = memoryview(rows)
        self._judge: RowJudge = judge
        # False when a checksum of the whole was looked at instead.
        self._has_checksums: bool = has_checksums
        self._log: int = BLOCK_HEAD_SIZE + self.count * ENTRY_SIZE
        self._log_size: int = len(rows) - self._log
        self._next: int = 0
        self._position: int = 0
        self._addresses: set[bytes] = set()
        self._sizes: dict[bytes, int] = {}
        # Headers with routing keys of their own.
        self._copying: set[bytes] = set()
        # The last row that was checked in full, once there is one: its sizes according to the
        # index, everything before its body, the size of its payload.
        self._entry_sizes: bytes = b""
        self._opening: bytes = b""
        self._size: int = 0
        self._found: StagedRows = StagedRows()

    def step(self) -> bool:
        """Look at some rows, as many as make a block; False when all were seen."""
        end = min(self._next + BLOCK_ROWS_MAX, self.count)
        start = self._position
        count = 0
        number = self._next
        while number < end and self._position - start < BLOCK_BYTES_MAX:
            self._position += self._look_at(number, self._position)
            number += 1
            count += 1
        self._next = number
        if count:
            self._found.add(count, self._view[self._log + start : self._log + self._position])
        return number < self.count

    def found(self) -> StagedRows:
        """All rows, once all were seen."""
        assert self._next == self.count, "looked at entirely"
        if self._position != self._log_size:
            raise _malformed("the log has bytes after the last row")
        return self._found

    def _look_at(self, number: int, expected: int) -> int:
        """Returns the size of the row's payload."""
        rows = self._rows
        entry = BLOCK_HEAD_SIZE + number * ENTRY_SIZE
        if read_u32_le(rows, entry + POSITION_AT) != expected:
            raise _malformed(f"row {number} does not directly follow the previous row in the log")
        start = self._log + expected
        opening = self._opening
        if (
            opening
            and rows[entry + SIZES_AT : entry + FLAGS_AT] == self._entry_sizes
            and rows[start : start + len(opening)] == opening
        ):
            # It repeats the row before.
            size = self._size
            self._check_whole(number, expected, size)
            return size
        return self._look_into(number, expected)

    def _look_into(self, number: int, expected: int) -> int:
        rows = self._rows
        entry = BLOCK_HEAD_SIZE + number * ENTRY_SIZE
        header_size = read_u32_le(rows, entry + HEADER_SIZE_AT)
        body_size = read_u32_le(rows, entry + BODY_SIZE_AT)
        exchange_size = rows[entry + EXCHANGE_SIZE_AT]
        key_size = rows[entry + KEY_SIZE_AT]
        size = FRAMING_SIZE + exchange_size + key_size + header_size + body_size
        self._check_whole(number, expected, size)
        start = self._log + expected
        key = start + 1 + exchange_size
        header = key + 5 + key_size
        body = header + 4 + header_size
        if (
            rows[start] != exchange_size
            or rows[key] != key_size
            or read_u32_le(rows, header - 4) != header_size
            or read_u32_le(rows, body - 4) != body_size
        ):
            raise _malformed(f"the sizes of row {number} differ between index and log")
        self._ask(rows[start : header - 4], rows[header : body - 4], body_size)
        self._entry_sizes = rows[entry + SIZES_AT : entry + FLAGS_AT]
        self._opening = rows[start:body]
        self._size = size
        return size

    def _check_whole(self, number: int, expected: int, size: int) -> None:
        """Whether all of the row is there, as it was sent."""
        if expected + size > self._log_size:
            raise _malformed(f"row {number} extends beyond the end of the log")
        if self._has_checksums:
            rows = self._rows
            entry = BLOCK_HEAD_SIZE + number * ENTRY_SIZE
            start = self._log + expected
            fixed = zlib.crc32(rows[entry : entry + FIXED_SIZE])
            if zlib.crc32(rows[start : start + size], fixed) != read_u32_le(rows, entry + CRC_AT):
                raise _malformed(f"the checksum of row {number} does not match")

    def _ask(self, address: bytes, header: bytes, body_size: int) -> None:
        if address not in self._addresses:
            end = 1 + address[0]
            try:
                exchange = address[1:end].decode()
                routing_key = address[end + 1 :].decode()
            except UnicodeDecodeError:
                raise PreconditionFailed(
                    "the exchange or the routing key of a row is not UTF-8"
                ) from None
            self._judge.see_address(exchange, routing_key)
            self._addresses.add(address)
        said = self._said_by(header)
        if self._copying and header in self._copying:
            self._judge.see_copies(address[1 : 1 + address[0]].decode(), header)
        if said not in (NOT_SAID, body_size):
            raise PreconditionFailed(
                f"the header of a row announces a body of {said} bytes, but it has {body_size}"
            )

    def _said_by(self, header: bytes) -> int:
        said = self._sizes.get(header)
        if said is None:
            said = self._judge.see_header(header)
            self._sizes[header] = said
            if self._judge.has_copies(header):
                self._copying.add(header)
        return said


def _count_rows(rows: bytes) -> int:
    """Raises `PreconditionFailed` when the block does not have the size that its head gives."""
    if len(rows) < BLOCK_HEAD_SIZE:
        raise _malformed("it ends within its head")
    count, log_size = BLOCK_HEAD.unpack_from(rows, 0)
    if len(rows) != BLOCK_HEAD_SIZE + count * ENTRY_SIZE + log_size:
        raise _malformed(f"{count} rows and {log_size} log bytes do not make {len(rows)} bytes")
    return int(count)


def _malformed(what: str) -> PreconditionFailed:
    return PreconditionFailed(f"malformed row block: {what}")
