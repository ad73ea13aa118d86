"""Ledgers of the members of a cluster, written record by record."""

from __future__ import annotations

from pathlib import Path

from penstock.formats import ledger_records as form
from penstock.formats.replication_id import first_id
from tests.spark.jobs.written import Book

NUMBER = first_id(1)
# A position of the journal behind everything that a test writes.
FAR = 1 << 20


class Server:
    """The ledger of one member, with one queue; `position` is that of the first epoch's messages."""

    def __init__(self, folder: Path, name: str, time: int = 1_000) -> None:
        self.name = name
        self.book = Book(folder / name, form.BROKER_MAGIC, time=time)
        self.book.add(form.STARTED)
        self.book.member(name)
        self.queue = -1

    def begins(self, epoch: int, before: int, number: int = NUMBER, queue: str = "q") -> None:
        self.book.root(self.name, epoch, before)
        self.book.committed(10)
        self.queue = self.book.name("/", queue, number=number)

    def inherits(self, first: int, count: int) -> None:
        self.book.add(form.RESTORED, self.queue, first, count)

    def gets(self, first: int, count: int, publisher: int = 0, detail: int = 1) -> None:
        self.book.add(form.ENQUEUED, self.queue, first, count, detail, publisher, 1)

    def settles(self, first: int, count: int) -> None:
        self.book.add(form.DELIVERED, self.queue, first, count)
        self.book.add(form.ACKNOWLEDGED, self.queue, first, count)

    def commits(self, lag: int = 0) -> None:
        self.book.committed(FAR, lag)


def of(epoch: int, count: int) -> int:
    """A position."""
    return first_id(epoch) + count - 1


def two_roots(folder: Path, inherited: int = 60) -> tuple[Server, Server]:
    """`a` got a hundred and settled forty; `b` inherited what is said, settled ten and got five."""
    a, b = Server(folder, "a"), Server(folder, "b", 2_000)
    a.begins(1, 0)
    a.gets(of(1, 1), 100)
    a.settles(of(1, 1), 40)
    a.commits()
    b.begins(2, 1)
    b.inherits(of(1, 41), inherited)
    b.settles(of(1, 41), 10)
    b.gets(of(2, 1), 5)
    b.commits()
    return a, b


def absent(folder: Path, name: str = "c") -> Book:
    """The ledger of a member that was never the root."""
    return Server(folder, name).book
