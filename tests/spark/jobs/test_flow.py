"""Flow: rates, lag and topics out of ledgers, on real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark.jobs import ledger_form as form
from penstock.spark.jobs.flow import flow, topic_prefixes
from penstock.spark.jobs.ledger_reading import open_ledgers
from penstock.spark.jobs.synthetic import Fault, Traffic, write_server
from tests.spark.jobs.written import Book

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    assert [queue.entered for queue in found.queues] == [7]


def test_routes_are_counted_by_exchange_and_topic_prefix(
    spark: SparkSession, tmp_path: Path
) -> None:
    book = Book(tmp_path, form.BROKER_MAGIC)
    for key, count in (("eu.paris.a", 5), ("eu.paris.b", 6), ("us.nyc.a", 20)):
        book.add(form.ROUTED, book.route("topics", key), 0, count)
    found = flow(open_ledgers(spark, [book.write()]), 1000)
    assert found.queues == []
    assert topic_prefixes(found.routes, 2) == {"topics us.nyc": 20, "topics eu.paris": 11}
    assert list(topic_prefixes(found.routes, 1)) == ["topics us", "topics eu"]
