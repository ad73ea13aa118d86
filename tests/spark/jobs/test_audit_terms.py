"""The audit follows messages from one root of a cluster to the next, on real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.formats import ledger_records as form
from penstock.formats.replication_id import first_id
from penstock.spark.jobs.audit import audit
from penstock.spark.jobs.flow import flow
from penstock.spark.jobs.ledger_reading import open_ledgers
from tests.spark.jobs.ledgers_of_roots import FAR, NUMBER, Server, absent, of, two_roots
from tests.spark.jobs.written import Book

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.jobs.verdict import Audit, QueueVerdict

pytestmark = pytest.mark.slow


def audited(spark: SparkSession, *books: Book) -> Audit:
    return audit(open_ledgers(spark, [book.write() for book in books]))


def only(found: Audit) -> QueueVerdict:
    (verdict,) = found.verdicts
    return verdict


def test_what_the_next_root_inherited_is_counted_once(spark: SparkSession, tmp_path: Path) -> None:
    a, b = two_roots(tmp_path)
    found = audited(spark, a.book, b.book, absent(tmp_path))
    verdict = only(found)
    assert (verdict.enqueued, verdict.acknowledged, verdict.still_queued) == (105, 50, 55)
    assert (verdict.lost, verdict.phantom, verdict.not_judged) == (0, 0, 0)
    assert list(found.roots.values()) == [[(1, "a"), (2, "b")]]
    assert (found.doubts, found.offences) == ([], [])


def test_what_a_root_had_committed_and_the_next_has_not_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, b = two_roots(tmp_path, inherited=57)
    found = audited(spark, a.book, b.book, absent(tmp_path))
    assert (only(found).lost, only(found).still_queued) == (3, 52)
    assert found.failures(["lost"]) == {"lost": 3}
    (offence,) = found.offences
    assert (offence.server, offence.epoch, offence.count) == ("a", 1, 3)
    assert (
        "a: q: position 98..100 of epoch 1, in the ledger of epoch 1, "
        "not at the next root b (epoch 2)" in str(offence)
    )


def test_a_replicated_queue_that_the_next_root_does_not_have_is_lost_with_its_messages(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, b = Server(tmp_path, "a"), Server(tmp_path, "b", 2_000)
    a.begins(1, 0)
    # Whether a message is persistent makes no difference where queues are replicated.
    a.gets(of(1, 1), 4, detail=0)
    a.commits()
    b.begins(2, 1, number=first_id(2))
    b.commits()
    assert only(audited(spark, a.book, b.book, absent(tmp_path))).lost == 4


def test_what_was_not_committed_when_the_root_failed_is_no_loss(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, b = Server(tmp_path, "a"), Server(tmp_path, "b", 2_000)
    a.begins(1, 0)
    a.gets(of(1, 1), 10)
    a.book.committed(500, 0)
    a.gets(of(1, 11), 7)
    a.book.committed(600, 100)
    a.gets(of(1, 18), 2)
    a.book.committed(700, 200)
    b.begins(2, 1)
    # Of the others a backup had some, and that one is the root now.
    b.inherits(of(1, 1), 12)
    b.commits()
    verdict = only(audited(spark, a.book, b.book, absent(tmp_path)))
    assert (verdict.enqueued, verdict.lost, verdict.uncommitted_gone) == (19, 0, 7)
    assert (verdict.still_queued, verdict.not_judged) == (12, 0)


def test_a_message_that_came_back_because_its_settlement_was_not_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, b = two_roots(tmp_path)
    a.settles(of(1, 41), 3)
    verdict = only(audited(spark, a.book, b.book, absent(tmp_path)))
    assert (verdict.came_back, verdict.lost, verdict.still_queued) == (3, 0, 55)


def test_what_only_the_next_root_did_not_have_came_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The ledger of the second one may lack something after a power loss."""
    a, b = two_roots(tmp_path, inherited=57)
    c = Server(tmp_path, "c", 3_000)
    c.begins(3, 2)
    c.inherits(of(1, 51), 49)
    c.inherits(of(2, 1), 5)
    c.commits()
    found = audited(spark, a.book, b.book, c.book)
    verdict = only(found)
    # Position 100 is nowhere; 98 and 99 are at the third root.
    assert (verdict.lost, verdict.came_back, verdict.still_queued) == (1, 2, 54)
    assert [(o.finding, o.first, o.count) for o in found.offences] == [
        ("missing_after_restart", of(1, 100), 1)
    ]


def test_a_server_that_is_the_root_twice_in_one_file(spark: SparkSession, tmp_path: Path) -> None:
    a, b = two_roots(tmp_path)
    a.begins(3, 2)
    a.inherits(of(1, 51), 50)
    a.inherits(of(2, 1), 4)
    a.settles(of(1, 51), 50)
    a.commits()
    found = audited(spark, a.book, b.book, absent(tmp_path))
    verdict = only(found)
    assert list(found.roots.values()) == [[(1, "a"), (2, "b"), (3, "a")]]
    assert (verdict.acknowledged, verdict.still_queued, verdict.lost) == (100, 4, 1)
    assert [(o.server, o.epoch, o.first) for o in found.offences] == [("b", 2, of(2, 5))]


def test_a_root_that_was_never_active_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    """It had less than the others and was cut off; the next one inherited from the first."""
    a, b = two_roots(tmp_path)
    c = Server(tmp_path, "c", 1_500)
    c.book.root("c", 5, 1)
    queue = c.book.name("/", "q", number=NUMBER)
    c.book.add(form.RESTORED, queue, of(1, 1), 30)
    c.book.add(form.DROPPED, queue, of(1, 1), 30)
    c.book.committed(900, 100)
    b.begins(6, 2)
    b.inherits(of(1, 51), 50)
    b.inherits(of(2, 1), 5)
    b.commits()
    found = audited(spark, a.book, b.book, c.book)
    assert list(found.roots.values()) == [[(1, "a"), (2, "b"), (6, "b")]]
    verdict = only(found)
    assert (verdict.still_queued, verdict.lost, verdict.dropped) == (55, 0, {})


def test_a_root_whose_ledger_is_missing_in_between_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, _ = two_roots(tmp_path)
    c = Server(tmp_path, "c", 3_000)
    c.begins(3, 2)
    c.inherits(of(1, 95), 6)
    c.inherits(of(2, 1), 5)
    c.commits()
    found = audited(spark, a.book, c.book)
    verdict = only(found)
    assert (verdict.lost, verdict.unknown, verdict.still_queued) == (0, 54, 11)
    assert (verdict.phantom, verdict.not_judged) == (0, 5)
    missing, absentee = found.doubts
    assert "missing between a (epoch 1) and c (epoch 3). 54 messages" in missing
    assert "there is no ledger of b." in absentee


def test_a_member_whose_ledger_is_missing_may_be_the_root_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, b = two_roots(tmp_path, inherited=57)
    found = audited(spark, a.book, b.book)
    assert (only(found).lost, only(found).unknown) == (3, 0)
    (doubt,) = found.doubts
    assert "there is no ledger of c. Whether another root followed b (epoch 2)" in doubt
    assert "52 messages" in doubt


def test_ledgers_that_do_not_begin_with_the_first_root_say_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    _, b = two_roots(tmp_path)
    found = audited(spark, b.book, absent(tmp_path), absent(tmp_path, "a"))
    assert (only(found).still_queued, only(found).lost, only(found).phantom) == (55, 0, 0)
    (doubt,) = found.doubts
    assert "begin with b (epoch 2), which was not the first root" in doubt


def test_a_term_whose_beginning_is_gone_leaves_its_predecessor_in_doubt(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its oldest file was removed, and with it what it has inherited."""
    a, _ = two_roots(tmp_path)
    b = Book(tmp_path / "b", form.BROKER_MAGIC, 7, time=2_000)
    b.continues("b", 2, 1)
    queue = b.name("/", "q", number=NUMBER)
    b.add(form.DELIVERED, queue, of(1, 41), 10)
    b.add(form.ACKNOWLEDGED, queue, of(1, 41), 10)
    b.committed(FAR)
    found = audited(spark, a.book, b, absent(tmp_path))
    verdict = only(found)
    assert (verdict.lost, verdict.phantom, verdict.unknown) == (0, 0, 60)
    assert verdict.not_judged == 10
    assert len(found.doubts) == 1


def test_queues_that_are_not_replicated_end_with_their_root(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, b = Server(tmp_path, "a"), Server(tmp_path, "b", 2_000)
    a.begins(1, 0, number=0)
    a.gets(of(1, 1), 10)
    a.commits()
    b.begins(2, 1, number=0)
    b.gets(of(2, 1), 3)
    b.commits()
    verdict = only(audited(spark, a.book, b.book, absent(tmp_path)))
    assert (verdict.gone_with_process, verdict.still_queued, verdict.lost) == (10, 3, 0)


def test_two_clusters_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    a, b = two_roots(tmp_path)
    other = Book(tmp_path / "d", form.BROKER_MAGIC)
    other.add(form.STARTED)
    other.add(form.ROOT, other.member("d", "d", "decade"), 3, 0)
    other.committed(10)
    other.add(form.ENQUEUED, other.name("/", "q", number=NUMBER), of(1, 41), 60, 1)
    other.committed(FAR)
    found = audited(spark, a.book, b.book, absent(tmp_path), other)
    assert sorted((v.server, v.still_queued, v.lost) for v in found.verdicts) == [
        ("cluster c0ffee", 55, 0),
        ("cluster decade", 60, 0),
    ]


def test_the_lag_of_a_queue_is_what_its_last_root_has(spark: SparkSession, tmp_path: Path) -> None:
    a, b = two_roots(tmp_path)
    ledgers = open_ledgers(spark, [a.book.write(), b.book.write(), absent(tmp_path).write()])
    found = flow(ledgers, 1)
    assert [(queue.entered, queue.lag) for queue in found.queues] == [(105, 55)]
    assert found.lag_series()[-1] == 55
