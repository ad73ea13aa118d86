"""Rows that came in from outside, looked at entirely before anything is staged of them.

Whether a publisher may publish them is a judge's to say, who is asked once for each exchange, key
and header that differs: rows of a job are mostly alike.
"""

import zlib
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.carried_rows import HEAD_SIZE, count_rows, wrong_rows
from penstock.broker.errors import PreconditionFailed
from penstock.broker.staged_rows import BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, StagedRows, read_size
from penstock.storage.stream_index import ENTRY_SIZE, FIXED_SIZE, FRAMING_SIZE

# What a header may say of its body: nothing.
NOT_SAID: Final = -1
# Where an index entry has the sizes of its row: header, body, exchange, key.
SIZES_START: Final = 8
SIZES_END: Final = 18


@mypyc_attr(allow_interpreted_subclasses=True)
class RowJudge:
    """Who knows what a publisher may do. Both raise a `Refusal`."""

    def see_address(self, exchange: str, routing_key: str) -> None:
        raise NotImplementedError

    def see_header(self, header: bytes) -> int:
        """The size of the body as the header says it; NOT_SAID when it does not."""
        raise NotImplementedError


class RowCheck:
    """One block of rows from outside. Held by the request that brought it."""

    def __init__(self, rows: bytes, judge: RowJudge, has_checksums: bool = True) -> None:
        """Raises a `Refusal`, as `step` does."""
        self.count: int = count_rows(rows)
        self._rows: bytes = rows
        self._view: memoryview = memoryview(rows)
        self._judge: RowJudge = judge
        # False when a checksum of the whole was looked at instead.
        self._has_checksums: bool = has_checksums
        self._log: int = HEAD_SIZE + self.count * ENTRY_SIZE
        self._log_size: int = len(rows) - self._log
        self._next: int = 0
        self._position: int = 0
        self._addresses: set[bytes] = set()
        self._sizes: dict[bytes, int] = {}
        # Of the last row that was looked into, once there is one: its sizes as the index has them,
        # everything before its body, the size of its payload.
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
            raise wrong_rows("octets are left in the log")
        return self._found

    def _look_at(self, number: int, expected: int) -> int:
        """Returns the size of the row's payload."""
        rows = self._rows
        entry = HEAD_SIZE + number * ENTRY_SIZE
        if read_size(rows, entry + FIXED_SIZE) != expected:
            raise wrong_rows(f"row {number} does not follow the one before it in the log")
        start = self._log + expected
        opening = self._opening
        if (
            opening
            and rows[entry + SIZES_START : entry + SIZES_END] == self._entry_sizes
            and rows[start : start + len(opening)] == opening
        ):
            # But for its body it is the row before.
            size = self._size
            self._check_whole(number, expected, size)
            return size
        return self._look_into(number, expected)

    def _look_into(self, number: int, expected: int) -> int:
        rows = self._rows
        entry = HEAD_SIZE + number * ENTRY_SIZE
        header_size = read_size(rows, entry + SIZES_START)
        body_size = read_size(rows, entry + SIZES_START + 4)
        exchange_size = rows[entry + SIZES_START + 8]
        key_size = rows[entry + SIZES_START + 9]
        size = FRAMING_SIZE + exchange_size + key_size + header_size + body_size
        self._check_whole(number, expected, size)
        start = self._log + expected
        key = start + 1 + exchange_size
        header = key + 5 + key_size
        body = header + 4 + header_size
        if (
            rows[start] != exchange_size
            or rows[key] != key_size
            or read_size(rows, header - 4) != header_size
            or read_size(rows, body - 4) != body_size
        ):
            raise wrong_rows(f"sizes of row {number} differ between index and log")
        self._ask(rows[start : header - 4], rows[header : body - 4], body_size)
        self._entry_sizes = rows[entry + SIZES_START : entry + SIZES_END]
        self._opening = rows[start:body]
        self._size = size
        return size

    def _check_whole(self, number: int, expected: int, size: int) -> None:
        """Whether all of the row is there, as it was sent."""
        if expected + size > self._log_size:
            raise wrong_rows(f"row {number} reaches behind the log")
        if self._has_checksums:
            rows = self._rows
            entry = HEAD_SIZE + number * ENTRY_SIZE
            start = self._log + expected
            fixed = zlib.crc32(rows[entry : entry + FIXED_SIZE])
            if zlib.crc32(rows[start : start + size], fixed) != read_size(
                rows, entry + FIXED_SIZE + 4
            ):
                raise wrong_rows(f"the checksum of row {number} is wrong")

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
        if said not in (NOT_SAID, body_size):
            raise PreconditionFailed(
                f"the header of a row says {said} octets of body, there are {body_size}"
            )

    def _said_by(self, header: bytes) -> int:
        said = self._sizes.get(header)
        if said is None:
            said = self._judge.see_header(header)
            self._sizes[header] = said
        return said
