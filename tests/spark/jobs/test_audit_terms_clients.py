"""What clients of a cluster were promised, with the ledgers of its roots, on real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.formats import ledger_records as form
from penstock.spark.jobs.audit import audit
from penstock.spark.jobs.ledger_reading import open_ledgers
from tests.spark.jobs.ledgers_of_roots import FAR, Server, absent, of
from tests.spark.jobs.written import Book

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.jobs.verdict import Audit

pytestmark = pytest.mark.slow

MESSAGES = 10


class Client:
    """A publisher of ten confirmed messages, and a consumer; each connection is a session."""

    def __init__(self, folder: Path) -> None:
        self.book = Book(folder / "clients", form.CLIENT_MAGIC)
        self.own, self.pair = self.book.name("/", "", "p"), self.book.name("/", "q", "p")
        self.book.add(form.REACHES, self.pair)
        self.book.add(form.PUBLISHED, self.own, 0, MESSAGES)
        self.book.add(form.CONFIRMED, self.own, 0, MESSAGES)
        self.book.session("p/1", "p", (1, 0))

    def receives(self, first: int, count: int) -> None:
        self.book.add(form.RECEIVED, self.pair, first, count)


def first_root(folder: Path, count: int = MESSAGES) -> Server:
    """It got so many messages from the publisher."""
    a = Server(folder, "a")
    a.begins(1, 0)
    a.gets(of(1, 1), count, a.book.publisher("p/1"))
    return a


def next_root(folder: Path, name: str, epoch: int, before: int, *inherited: int) -> Server:
    root = Server(folder, name, 2_000)
    root.begins(epoch, before)
    for position in inherited:
        root.inherits(of(1, position), 1)
    root.commits()
    return root


def audited(spark: SparkSession, *books: Book) -> Audit:
    return audit(open_ledgers(spark, [book.write() for book in books]))


def test_a_message_is_followed_to_the_root_that_delivers_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    client = Client(tmp_path)
    a = first_root(tmp_path)
    a.settles(of(1, 1), 6)
    a.commits()
    b = next_root(tmp_path, "b", 2, 1, 7, 8, 9, 10)
    b.settles(of(1, 7), 2)
    client.receives(0, 7)
    found = audited(spark, client.book, a.book, b.book, absent(tmp_path))
    (verdict,) = found.verdicts
    # Sequence 7 is position 8, which was acknowledged; 8 and 9 are still queued at b.
    assert (verdict.lost, verdict.missing_confirmed, verdict.still_queued) == (1, 3, 2)
    assert [(o.finding, o.publisher, o.first) for o in found.offences] == [("lost", "p", 7)]


def test_a_confirm_of_what_was_not_committed_is_a_loss(spark: SparkSession, tmp_path: Path) -> None:
    client = Client(tmp_path)
    client.receives(0, MESSAGES - 1)
    a = first_root(tmp_path)
    a.settles(of(1, 1), MESSAGES - 1)
    a.commits(lag=FAR)
    b = next_root(tmp_path, "b", 2, 1)
    found = audited(spark, client.book, a.book, b.book, absent(tmp_path))
    (verdict,) = found.verdicts
    assert (verdict.uncommitted_gone, verdict.lost) == (1, 1)
    assert [(o.publisher, o.first) for o in found.offences] == [("p", MESSAGES - 1)]


def test_what_a_consumer_had_not_acknowledged_must_be_at_the_next_root(
    spark: SparkSession, tmp_path: Path
) -> None:
    client = Client(tmp_path)
    client.receives(0, MESSAGES)
    a = first_root(tmp_path)
    a.settles(of(1, 1), MESSAGES - 1)
    a.book.add(form.DELIVERED, a.queue, of(1, MESSAGES), 1)
    a.commits()
    b = next_root(tmp_path, "b", 2, 1)
    found = audited(spark, client.book, a.book, b.book, absent(tmp_path))
    assert found.total("lost") == 1
    (offence,) = found.offences
    assert (offence.finding, offence.publisher, offence.sequence) == (
        "missing_after_restart",
        "p",
        MESSAGES - 1,
    )


def test_what_may_have_ended_at_a_root_without_a_ledger_is_not_called_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    client = Client(tmp_path)
    client.receives(0, 4)
    # Of the ten, two were published at the second root.
    a = first_root(tmp_path, count=MESSAGES - 2)
    a.settles(of(1, 1), 4)
    a.commits()
    c = next_root(tmp_path, "c", 3, 2, 7)
    (verdict,) = audited(spark, client.book, a.book, c.book).verdicts
    assert (verdict.lost, verdict.unknown, verdict.still_queued) == (0, 3, 1)
    assert verdict.confirmed_not_judged == 5
    b = next_root(tmp_path, "b", 2, 1, 5, 6, 7, 8)
    b.settles(of(1, 5), 2)
    b.settles(of(1, 8), 1)
    b.commits()
    (verdict,) = audited(spark, client.book, a.book, b.book, c.book).verdicts
    assert (verdict.lost, verdict.unknown, verdict.confirmed_not_judged) == (5, 0, 0)
