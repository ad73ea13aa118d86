"""Flow: rates, lag and topics out of ledgers, on real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.synthetic_ledger import Fault, Traffic, write_server
from penstock.formats import ledger_records as form
from penstock.spark.jobs.audit import audit
from penstock.spark.jobs.flow import flow
from penstock.spark.jobs.ledger_reading import open_ledgers
from tests.spark.jobs.written import Book

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.jobs.flow import RouteFlow

pytestmark = pytest.mark.slow


def test_rates_are_counted_per_bucket_and_queue(spark: SparkSession, tmp_path: Path) -> None:
    # 100 messages every 10 ms: 10,000 per second and queue, for two seconds.
    traffic = Traffic(queues=2, messages=20_000, faults={(0, 7): Fault.NEVER_DELIVERED})
    write_server(tmp_path / "a", traffic)
    found = flow(open_ledgers(spark, [tmp_path / "a"]), 1000)
    assert found.series(0)[:2] == [20_000, 20_000]
    # Deliveries come a tick later.
    assert found.series(1)[:2] == [19_799, 20_000]
    assert (found.peak_isr, found.peak_xsr) == (20_000, 20_000)
    assert {queue.name: queue.lag for queue in found.queues} == {"q0": 1, "q1": 0}
    assert found.lag_series()[-1] == 1
    assert found.isr == pytest.approx(40_000 / found.seconds)
    assert found.servers() == {"a": (found.isr, found.xsr)}


def test_only_what_is_not_too_old_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    book = Book(tmp_path, form.BROKER_MAGIC, time=10_000)
    name = book.name("/", "q")
    book.add(form.ENQUEUED, name, 1, 5)
    book.time = 20_000
    book.add(form.ENQUEUED, name, 6, 7)
    found = flow(open_ledgers(spark, [book.write()]), 1000, since_ms=15_000)
    assert [(queue.entered, queue.lag) for queue in found.queues] == [(7, 12)]
    assert found.lag_series() == [12]


def test_queues_that_the_broker_makes_for_itself_are_no_part_of_a_report(
    spark: SparkSession, tmp_path: Path
) -> None:
    book = Book(tmp_path / "a", form.BROKER_MAGIC)
    book.add(form.STARTED)
    for queue in ("amq.stage.0123.4", "q", "amq.lease.4567.1"):
        book.add(form.ENQUEUED, book.name("/", queue), 1, 5, 1)
    ledgers = open_ledgers(spark, [book.write()])
    found = flow(ledgers, 1000)
    assert [(queue.name, queue.entered) for queue in found.queues] == [("q", 5)]
    assert sum(found.lag_series()) == 5
    audited = audit(ledgers)
    assert [verdict.queue for verdict in audited.verdicts] == ["q"]
    assert (audited.events, audited.total("enqueued"), audited.blocks) == (5, 5, 1)


def test_a_queue_that_was_restored_lags_by_what_came_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = Book(tmp_path, form.BROKER_MAGIC, time=10_000)
    first.add(form.STARTED)
    first.add(form.ENQUEUED, first.name("/", "q"), 1, 50)
    first.add(form.ENQUEUED, first.name("/", "gone"), 1, 9)
    first.write()
    second = Book(tmp_path, form.BROKER_MAGIC, 2, time=12_000)
    second.add(form.STARTED)
    name = second.name("/", "q")
    second.add(form.RESTORED, name, 11, 40)
    second.add(form.DELIVERED, name, 11, 1)
    second.add(form.ACKNOWLEDGED, name, 11, 1)
    found = flow(open_ledgers(spark, [second.write()]), 1000)
    assert {queue.name: queue.lag for queue in found.queues} == {"q": 39, "gone": 0}
    # Between two starts nobody knows when the process was gone.
    assert found.lag_series() == [59, 59, 39]
    assert sum(queue.entered for queue in found.queues) == 59


def test_routes_are_counted_by_exchange_and_topic_prefix(
    spark: SparkSession, tmp_path: Path
) -> None:
    book = Book(tmp_path, form.BROKER_MAGIC)
    for key, count in (("eu.paris.a", 5), ("eu.paris.b", 6), ("us.nyc.a", 20)):
        book.add(form.ROUTED, book.route("topics", key), 0, count)
    busy = book.route("", "orders")
    for time in (5_000, 6_000, 7_000):
        book.time = time
        book.add(form.ROUTED, busy, 0, 9)
    found = flow(open_ledgers(spark, [book.write()]), 1000)
    assert found.queues == []

    def told(routes: list[RouteFlow]) -> list[tuple[str, str, int, int]]:
        return [(route.exchange, route.key, route.count, route.busiest) for route in routes]

    assert told(found.exchanges()) == [("topics", "", 31, 31), ("", "", 27, 9)]
    assert told(found.topics(2))[1:] == [
        ("topics", "us.nyc", 20, 20),
        ("topics", "eu.paris", 11, 11),
    ]
    assert [route.key for route in found.topics(1)] == ["orders", "us", "eu"]
    assert [route.key for route in found.hottest()] == [
        "us.nyc.a",
        "orders",
        "eu.paris.b",
        "eu.paris.a",
    ]
