"""The capacity model: the seed's own figures come out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.spark.jobs.capacity import (
    GIGABIT,
    Grid,
    Shape,
    Site,
    best_shape,
    capacity_grid,
    evaluate,
    streams_max,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_PER_WORKING_DAY = 8 * 3600
# The seed counts no time for receiving and sending.
SEED = Site(receive_us=0.0, send_us=0.0)


def seed_isr(site: Site, brokers: int, queues: int) -> float:
    """The seed's tentative internal switching rate: B.Q times what a broker takes."""
    return brokers * queues * site.offered


def test_one_broker_with_sixteen_queues_switches_160_thousand() -> None:
    isr = seed_isr(SEED, 1, 16)
    assert isr == 160_000
    assert round(isr * SECONDS_PER_WORKING_DAY / 1e9, 2) == 4.61
    assert evaluate(SEED, Shape(1, 16, 0)).isr == isr


def test_six_brokers_switch_960_thousand() -> None:
    isr = seed_isr(SEED, 6, 16)
    assert isr == 960_000
    assert round(isr * SECONDS_PER_WORKING_DAY / 1e9, 2) == 27.65


def test_a_gigabit_carries_twelve_streams_and_thirteen_nodes_reach_the_maximum() -> None:
    assert streams_max(SEED, GIGABIT) == 12
    found = evaluate(SEED, Shape(12, 12))
    assert (found.xsr, found.nodes, found.binding) == (1_440_000, 13, "offered rate")
    more = evaluate(SEED, Shape(12, 13))
    assert more.binding == "network to clients"
    assert more.xsr == pytest.approx(12 * GIGABIT / 8000)


def test_a_network_at_thirty_percent_carries_four() -> None:
    assert streams_max(SEED, 0.3 * GIGABIT) == 4
    assert seed_isr(SEED, 12, 4) == 480_000
    site = replace(SEED, external_bits=0.3 * GIGABIT)
    found = evaluate(site, Shape(12, 4))
    # The seed rounds 3.75 up: its fourth queue is more than the network carries.
    assert found.binding == "network to clients"
    assert found.xsr == pytest.approx(450_000)


def test_smaller_messages_at_a_higher_rate_reach_ten_million() -> None:
    site = replace(SEED, message_bytes=250, offered=25_000)
    assert streams_max(site, GIGABIT) == 20
    assert evaluate(site, Shape(20, 20)).xsr == 10_000_000


def test_the_limit_that_binds_is_named() -> None:
    small = Site(message_bytes=10, offered=1e9, external_bits=100 * GIGABIT)
    assert evaluate(small, Shape(1, 256, 0)).binding == "CPU of edge brokers"
    assert evaluate(small, Shape(1, 256, 0)).publishes == pytest.approx(1e6 / (0.25 + 256 * 0.2))
    wide = replace(small, internal_bits=100 * GIGABIT)
    assert evaluate(wide, Shape(256, 1)).binding == "CPU of relays"
    assert evaluate(SEED, Shape(13, 1)).binding == "network between brokers"
    large = replace(SEED, message_bytes=1_000_000, offered=1e6)
    assert evaluate(large, Shape(1, 1, 0)).binding == "network in"


def test_everybody_on_earth_is_reached_by_levels_of_relays() -> None:
    shape, capacity = best_shape(Site(message_bytes=250, offered=100), 5_000_000_000)
    assert shape.receivers >= 5_000_000_000
    assert shape.levels >= 2
    assert capacity.publishes == 100
    assert capacity.nodes < 10_000_000


@pytest.mark.slow
def test_the_grid_is_computed_by_tasks_as_by_hand(spark: SparkSession) -> None:
    grid = Grid(brokers=(1, 12), queues=(12, 13), levels=(0, 1), message_bytes=(1000,))
    rows = {
        (row.brokers, row.queues, row.levels): row
        for row in capacity_grid(spark, SEED, grid).collect()
    }
    assert set(rows) == {(1, 12, 0), (1, 13, 0), (1, 12, 1), (1, 13, 1), (12, 12, 1), (12, 13, 1)}
    assert (rows[12, 12, 1].xsr, rows[12, 12, 1].nodes) == (1_440_000, 13)
    assert rows[12, 13, 1].binding == "network to clients"
