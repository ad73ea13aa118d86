"""The audit finds exactly what was planted, on real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.synthetic_ledger import Fault, Traffic, write_server
from penstock.formats import ledger_records as form
from penstock.spark.jobs.audit import audit
from penstock.spark.jobs.ledger_reading import open_ledgers
from penstock.spark.jobs.ledger_survey import LedgerDamaged
from tests.spark.jobs.written import Book

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.jobs.verdict import Audit, QueueVerdict

pytestmark = pytest.mark.slow

MESSAGES = 30_000


def only(found: Audit) -> QueueVerdict:
    (verdict,) = found.verdicts
    return verdict


def offences(found: Audit) -> set[tuple[str, str, int, int]]:
    return {(o.finding, o.queue, o.first, o.count) for o in found.offences}


def test_every_planted_fault_is_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    faults = {
        (0, 5): Fault.NEVER_DELIVERED,
        (0, 4096): Fault.NEVER_ACKNOWLEDGED,
        (0, 4097): Fault.EXPIRED,
        (0, 9_000): Fault.GIVEN_BACK,
        (1, 12_345): Fault.DELIVERED_TWICE,
        (1, 20_000): Fault.ACKNOWLEDGED_TWICE,
        (1, 29_999): Fault.NEVER_ENQUEUED,
    }
    events = write_server(
        tmp_path / "a", Traffic(queues=3, messages=MESSAGES, run=70, faults=faults), 500
    )
    found = audit(open_ledgers(spark, [tmp_path / "a"]))
    first, second, third = found.verdicts
    assert found.events == events
    assert (first.still_queued, first.unacknowledged, first.dropped) == (1, 1, {"expired": 1})
    assert (first.requeued, first.duplicated_flagged, first.duplicated_unflagged) == (1, 1, 0)
    assert (first.phantom, first.lost, first.enqueued) == (0, 0, MESSAGES)
    assert (second.duplicated_flagged, second.duplicated_unflagged, second.phantom) == (0, 2, 2)
    assert (second.still_queued, second.unacknowledged) == (0, 0)
    assert (third.delivered, third.acknowledged, third.duplicated) == (MESSAGES, MESSAGES, 0)
    assert third.time_in_queue_ms == {"p50": 20, "p90": 20, "p99": 20, "max": 20}
    assert offences(found) == {
        ("redelivered_unflagged", "q1", 12_345, 1),
        ("settled_twice", "q1", 20_000, 1),
        ("phantom", "q1", 20_000, 1),
        ("phantom", "q1", 29_999, 1),
    }
    # Those that hold a fault: positions 4096 and 4097 share one.
    assert found.dirty_blocks == 6
    assert found.blocks == 3 * (MESSAGES // 4096 + 1)


def test_persistent_messages_that_vanish_over_a_restart_are_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    traffic = Traffic(messages=MESSAGES, left=100, lost=frozenset({29_950, 29_951, 29_990}))
    write_server(tmp_path / "a", traffic)
    found = audit(open_ledgers(spark, [tmp_path / "a"]))
    assert (only(found).lost, only(found).missing_after_restart) == (3, 3)
    assert found.restarts == {"a": 1}
    assert found.failures(["lost", "missing"]) == {"lost": 3, "missing": 3}
    assert offences(found) == {
        ("missing_after_restart", "q0", 29_950, 2),
        ("missing_after_restart", "q0", 29_990, 1),
    }


def test_transient_messages_are_gone_with_the_process_and_not_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    traffic = Traffic(messages=1000, persistent=False, left=10, lost=frozenset({995, 996}))
    write_server(tmp_path / "a", traffic)
    found = audit(open_ledgers(spark, [tmp_path / "a"]))
    assert (only(found).lost, only(found).gone_with_process) == (0, 2)
    assert found.failures(["lost"]) == {}


def test_a_queue_that_was_declared_again_begins_another_life(
    spark: SparkSession, tmp_path: Path
) -> None:
    book = Book(tmp_path / "a", form.BROKER_MAGIC)
    book.add(form.STARTED)
    for _ in range(2):
        name = book.name("/", "q")
        book.add(form.ENQUEUED, name, 1, 10, 1)
        book.add(form.DELIVERED, name, 1, 10)
        book.add(form.ACKNOWLEDGED, name, 1, 10)
    found = only(audit(open_ledgers(spark, [book.write()])))
    assert (found.enqueued, found.acknowledged, found.duplicated, found.phantom) == (20, 20, 0, 0)


def test_a_queue_that_did_not_come_back_took_its_messages_along(
    spark: SparkSession, tmp_path: Path
) -> None:
    book = Book(tmp_path / "a", form.BROKER_MAGIC)
    book.add(form.STARTED)
    book.add(form.ENQUEUED, book.name("/", "q"), 1, 10, 1)
    book.write()
    again = Book(tmp_path / "a", form.BROKER_MAGIC, 2, time=2_000)
    again.add(form.STARTED)
    again.time += 5
    again.add(form.ENQUEUED, again.name("/", "q"), 1, 3, 1)
    found = only(audit(open_ledgers(spark, [again.write()])))
    assert (found.lost, found.gone_with_process, found.still_queued) == (0, 10, 3)


def test_what_was_settled_before_a_restart_may_come_back_and_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    book = Book(tmp_path / "a", form.BROKER_MAGIC)
    book.add(form.STARTED)
    name = book.name("/", "q")
    book.add(form.ENQUEUED, name, 1, 10, 1)
    book.add(form.DELIVERED, name, 1, 6)
    book.add(form.ACKNOWLEDGED, name, 1, 4)
    book.write()
    again = Book(tmp_path / "a", form.BROKER_MAGIC, 2, time=2_000)
    again.add(form.STARTED)
    again.add(form.RESTORED, again.name("/", "q"), 3, 8)
    found = only(audit(open_ledgers(spark, [again.write()])))
    assert (found.came_back, found.redelivered_by_restart, found.still_queued) == (2, 2, 8)
    assert (found.lost, found.phantom) == (0, 0)


def test_messages_that_a_kill_left_in_the_journal_only_are_no_phantoms(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The journal is written before the ledger."""
    book = Book(tmp_path / "a", form.BROKER_MAGIC)
    book.add(form.STARTED)
    name = book.name("/", "q")
    book.add(form.ENQUEUED, name, 1, 10, 1)
    book.write()
    again = Book(tmp_path / "a", form.BROKER_MAGIC, 2, time=2_000)
    again.add(form.STARTED)
    again.add(form.RESTORED, again.name("/", "q"), 1, 15)
    found = only(audit(open_ledgers(spark, [again.write()])))
    assert (found.phantom, found.lost, found.still_queued) == (0, 0, 15)


def test_what_a_new_root_has_inherited_is_neither_lost_nor_a_phantom(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It was the root before, was restarted, and is elected again: what became of its messages in
    between is not in its ledger.
    """
    book = Book(tmp_path / "a", form.BROKER_MAGIC)
    book.add(form.STARTED)
    book.add(form.ENQUEUED, book.name("/", "q"), 1, 10, 1)
    book.write()
    again = Book(tmp_path / "a", form.BROKER_MAGIC, 2, time=2_000)
    again.add(form.STARTED)
    again.add(form.RESTORED, again.name("/", "q"), 1, 10)
    again.time += 5
    name = again.name("/", "q")
    inherited = (2 << 40) + 1
    again.add(form.RESTORED, name, inherited, 20)
    again.add(form.DELIVERED, name, inherited, 20)
    again.add(form.ACKNOWLEDGED, name, inherited, 20)
    found = only(audit(open_ledgers(spark, [again.write()])))
    assert (found.phantom, found.lost, found.acknowledged) == (0, 0, 20)


def test_messages_from_before_the_oldest_file_are_not_judged(
    spark: SparkSession, tmp_path: Path
) -> None:
    book = Book(tmp_path / "a", form.BROKER_MAGIC, 7)
    name = book.name("/", "q")
    book.add(form.DELIVERED, name, 1, 5)
    book.add(form.ACKNOWLEDGED, name, 1, 5)
    book.add(form.ENQUEUED, name, 6, 5, 1)
    found = audit(open_ledgers(spark, [book.write()]))
    assert found.truncated == ["a"]
    assert (only(found).not_judged, only(found).phantom, only(found).still_queued) == (5, 0, 5)


def test_a_stream_keeps_its_messages_and_is_read_many_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    book = Book(tmp_path / "a", form.BROKER_MAGIC)
    book.add(form.STARTED)
    name = book.name("/", "s")
    book.add(form.ENQUEUED, name, 0, 100, 1)
    for _ in range(3):
        book.add(form.DELIVERED, name, 0, 100)
        book.add(form.ACKNOWLEDGED, name, 0, 100)
    found = only(audit(open_ledgers(spark, [book.write()])))
    assert found.is_stream
    assert (found.enqueued, found.delivered) == (100, 300)
    assert (found.duplicated, found.phantom, found.lost, found.still_queued) == (0, 0, 0, 0)


def client_ledgers(folder: Path) -> Path:
    """Of 100 confirmed messages to two queues, `a` and `b`."""
    faucet = Book(folder, form.CLIENT_MAGIC, 1)
    name = faucet.name("/", "", "p")
    for queue in ("a", "b"):
        faucet.add(form.REACHES, faucet.name("/", queue, "p"))
    faucet.add(form.PUBLISHED, name, 0, 105)
    faucet.add(form.CONFIRMED, name, 0, 100)
    faucet.add(form.REFUSED, name, 100, 2)
    faucet.write()
    sink = Book(folder, form.CLIENT_MAGIC, 2)
    a, b = sink.name("/", "a", "p"), sink.name("/", "b", "p")
    sink.add(form.RECEIVED, a, 0, 40)
    sink.add(form.RECEIVED, a, 42, 58)
    sink.add(form.RECEIVED, a, 7, 1)
    sink.add(form.RECEIVED, b, 0, 100)
    sink.add(form.RECEIVED, b, 50, 3, 1)
    sink.add(form.RECEIVED, b, 101, 1)
    sink.add(form.RECEIVED, b, 500, 2)
    return sink.write()


def test_clients_say_what_was_promised_and_never_came(spark: SparkSession, tmp_path: Path) -> None:
    found = audit(open_ledgers(spark, [client_ledgers(tmp_path / "c")]))
    a, b = found.verdicts
    assert (a.published, a.confirmed, a.received, a.refused) == (105, 100, 99, 2)
    assert (a.lost, a.unconfirmed, a.duplicated_unflagged, a.phantom) == (2, 3, 1, 0)
    assert (b.lost, b.duplicated_flagged, b.duplicated_unflagged, b.phantom) == (0, 3, 0, 3)
    assert offences(found) == {
        ("lost", "a", 40, 2),
        ("duplicate_unflagged", "a", 7, 1),
        ("duplicate_flagged", "b", 50, 3),
        ("refused_yet_received", "b", 101, 1),
        ("never_published", "b", 500, 2),
    }


def test_what_the_broker_still_holds_or_dropped_is_not_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    book = Book(tmp_path / "s", form.BROKER_MAGIC)
    book.add(form.STARTED)
    name = book.name("/", "a")
    book.add(form.ENQUEUED, name, 1, 100, 1)
    book.add(form.DELIVERED, name, 1, 98)
    book.add(form.ACKNOWLEDGED, name, 1, 98)
    book.add(form.DROPPED, name, 99, 1)
    found = audit(open_ledgers(spark, [book.write(), client_ledgers(tmp_path / "c")]))
    a = found.verdicts[0]
    assert (a.queue, a.missing_confirmed, a.still_queued, a.dropped) == ("a", 2, 1, {"expired": 1})
    assert a.lost == 0


def test_messages_are_followed_one_by_one_where_both_sides_name_their_sessions(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As many are still in the queue as are lost, which counts alone would not tell apart."""
    server = Book(tmp_path / "a", form.BROKER_MAGIC)
    server.add(form.STARTED)
    q = server.name("/", "q")
    p = server.publisher("p/1")
    # Tags of p are sequences and one; 5 never enters, 10,000 was never sent.
    server.add(form.ENQUEUED, q, 1, 5, 1, p, 1)
    server.add(form.ENQUEUED, q, 6, 9_995, 1, p, 7)
    # Somebody without a session.
    server.add(form.ENQUEUED, q, 10_001, 10, 1)
    server.add(form.DELIVERED, q, 1, 9_000)
    server.add(form.DELIVERED, q, 300, 1)
    server.add(form.ACKNOWLEDGED, q, 1, 9_000)
    server.add(form.DROPPED, q, 9_001, 3)
    clients = Book(tmp_path / "c", form.CLIENT_MAGIC)
    for publisher, count in (("p", 10_000), ("n", 12)):
        name, pair = clients.name("/", "", publisher), clients.name("/", "q", publisher)
        clients.add(form.REACHES, pair)
        clients.add(form.PUBLISHED, name, 0, count)
        clients.add(form.CONFIRMED, name, 0, count)
        if publisher == "p":
            # Settled, and no consumer has seen it: 4,100.
            clients.add(form.RECEIVED, pair, 0, 5)
            clients.add(form.RECEIVED, pair, 6, 4_094)
            clients.add(form.RECEIVED, pair, 4_101, 4_900)
            clients.add(form.RECEIVED, pair, 77, 1)
    clients.session("p/1", "p", (1, 0))
    found = audit(open_ledgers(spark, [server.write(), clients.write()]))
    verdict = only(found)
    # Of n's twelve the broker has ten that are nobody else's.
    assert (verdict.lost_identified, verdict.lost_unidentified, verdict.lost) == (2, 12, 4)
    assert (verdict.still_queued, verdict.dropped) == (1_007, {"expired": 3})
    assert verdict.missing_confirmed == 2 + 12 + 999
    assert verdict.duplicated_unflagged == 1
    assert verdict.phantom == 1
    told = {(o.finding, o.publisher, o.first, o.count, o.sequence) for o in found.offences}
    assert told == {
        ("lost", "p", 5, 1, -1),
        ("lost", "p", 4_100, 1, -1),
        ("lost", "n", 0, 12, -1),
        ("duplicate_unflagged", "p", 77, 1, -1),
        ("never_published", "p", 10_000, 1, -1),
        ("redelivered_unflagged", "p", 300, 1, 300),
    }
    (again,) = [o for o in found.offences if o.finding == "redelivered_unflagged"]
    assert str(again).endswith("publisher p, sequence 300")


def test_two_servers_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    write_server(tmp_path / "a", Traffic(messages=5000))
    write_server(tmp_path / "b", Traffic(messages=5000, faults={(0, 17): Fault.NEVER_DELIVERED}))
    ledgers = open_ledgers(spark, [tmp_path / "a", tmp_path / "b"])
    found = audit(ledgers)
    assert [(v.server, v.still_queued) for v in found.verdicts] == [("a", 0), ("b", 1)]
    assert found.events == 29_998
    servers = ledgers.frame().select("server").distinct().collect()
    assert {row.server for row in servers} == {"a", "b"}


def test_a_torn_tail_is_left_out_and_a_damaged_file_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_server(tmp_path / "a", Traffic(messages=1000))
    (path,) = (tmp_path / "a" / "ledger").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    found = audit(open_ledgers(spark, [tmp_path / "a"]))
    assert found.torn_files == [str(path)]
    assert only(found).unacknowledged == 100
    path.write_bytes(whole + b"\xff" * 64)
    with pytest.raises(LedgerDamaged, match=f"{path.name}: record .* has an unknown kind"):
        open_ledgers(spark, [tmp_path / "a"])
