"""The clients' side of an audit: what was published, confirmed, refused and received, on disk.

Its form is that of the broker's ledger (`penstock.formats.ledger_records`), with sequence numbers
of publishers in place of positions. Each process writes a file of its own. It is not flushed: it is
complete when the process ends, and may lack its tail after a power loss.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.cli.loading.arrivals import Arrivals
from penstock.formats import ledger_records as form

# One write for two thousand runs.
BUFFER_BYTES_MAX: Final = 65_536


class ClientLedger:
    """One file, held by one faucet or sink."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb", buffering=0)
        self._pieces: list[bytes] = [form.head(form.CLIENT_MAGIC)]
        self._size: int = form.RECORD_SIZE
        self._names: dict[tuple[str, str, str], int] = {}

    def name(self, vhost: str, queue: str, publisher: str) -> int:
        """The number that stands for them in this file."""
        key = (vhost, queue, publisher)
        number = self._names.get(key)
        if number is None:
            number = self._names[key] = len(self._names)
            text = form.client_name(vhost, queue, publisher)
            self._append(form.name_record(wall_ms(), number, text))
        return number

    def reaches(self, name: int) -> None:
        """Record that the messages of the name's publisher are routed to the name's queue."""
        self._append(form.record(wall_ms(), form.REACHES, 0, name, 0, 0))

    def session(self, vhost: str, connection: str, channel: int, publisher: str) -> int:
        """The number of a channel in this file. No other connection may have the same name."""
        key = (vhost, form.session_name(connection, channel), publisher)
        number = self._names[key] = len(self._names)
        text = form.client_name(*key)
        self._append(form.name_record(wall_ms(), number, text, form.IS_SESSION))
        return number

    def tagged(self, session: int, tag: int, sequence: int) -> None:
        """The message confirmed as `tag` has this sequence, and later ones follow."""
        self._append(form.tagged_record(wall_ms(), session, tag, sequence))

    def add(self, event: int, name: int, first: int, count: int, detail: int = 0) -> None:
        self._append(form.record(wall_ms(), event, detail, name, first, count))

    def add_all(self, event: int, name: int, numbers: Sequence[int]) -> None:
        """Numbers in order, written as runs."""
        if not numbers:
            return
        first = numbers[0]
        if numbers[-1] - first == len(numbers) - 1:
            self.add(event, name, first, len(numbers))
            return
        end = first
        for number in numbers:
            if number != end:
                self.add(event, name, first, end - first)
                first = end = number
            end += 1
        self.add(event, name, first, end - first)

    def flush(self) -> None:
        if self._pieces:
            self._file.write(b"".join(self._pieces))
            self._pieces.clear()
            self._size = 0

    def close(self) -> None:
        self.flush()
        self._file.close()

    def _append(self, octets: bytes) -> None:
        self._pieces.append(octets)
        self._size += len(octets)
        if self._size >= BUFFER_BYTES_MAX:
            self.flush()


class WrittenArrivals(Arrivals):
    """A sink's record of one publisher and one queue that is also written to the ledger."""

    def __init__(self, book: ClientLedger, name: int) -> None:
        super().__init__()
        self._book: ClientLedger = book
        self._name: int = name
        self._first: int = 0
        # Where the run would continue.
        self._next: int = 0
        self._flag: bool = False

    def enter(self, sequence: int, redelivered: bool) -> bool:
        if sequence == self._next and redelivered == self._flag:
            self._next = sequence + 1
        else:
            self.end_run()
            self._first = sequence
            self._next = sequence + 1
            self._flag = redelivered
        return super().enter(sequence, redelivered)

    def end_run(self) -> None:
        """Also at the end of every batch, so that its time is right."""
        if self._next > self._first:
            detail = 1 if self._flag else 0
            count = self._next - self._first
            self._book.add(form.RECEIVED, self._name, self._first, count, detail)
            self._first = self._next


def wall_ms() -> int:
    return time.time_ns() // 1_000_000
