"""The loader against a fake broker: what it counts is what the broker did."""

import os

import pytest

from bench.cases import Case
from bench.latency import measure_latency
from bench.loader import LoadFailedError, Sample, measure
from bench.plan import LoadPlan, spread
from tests.bench.fake_broker import Confirming, FakeBroker

HOST = "127.0.0.1"


def measured(plan: LoadPlan) -> Sample:
    return measure(plan, os.getpid(), seconds=0.3, warm_up=0.1, drain_seconds_max=10)


@pytest.mark.parametrize("pairs", [1, 3])
def test_a_transient_load_is_counted_and_cleared_away(pairs: int) -> None:
    with FakeBroker() as broker:
        sample = measured(Case("transient", 100, pairs).plan(HOST, broker.port, "t"))
        assert broker.queues == set()
    assert sample.delivered > 0
    assert sample.confirmed == 0
    assert sample.rate == pytest.approx(sample.delivered / sample.seconds)


@pytest.mark.parametrize("confirming", Confirming)
def test_confirms_of_every_kind_keep_the_publisher_going(confirming: Confirming) -> None:
    with FakeBroker(confirming) as broker:
        sample = measured(Case("confirm", 100, 2).plan(HOST, broker.port, "c"))
    assert sample.delivered > 0
    assert sample.confirmed > 0


def test_fanout_counts_deliveries_not_publishes() -> None:
    with FakeBroker() as broker:
        sample = measured(Case("fanout4", 100, 1).plan(HOST, broker.port, "f"))
    # A window's edges may cut between the four deliveries of what is in flight.
    assert sample.delivered > 2 * sample.published > 0


def test_many_queues_may_share_one_consuming_connection() -> None:
    with FakeBroker() as broker:
        sample = measured(spread(HOST, broker.port, "s", queues=50, size=100, burst=16))
    assert sample.delivered > 0


def test_the_cost_of_broker_and_loader_is_accounted() -> None:
    with FakeBroker() as broker:
        sample = measured(Case("transient", 100, 1).plan(HOST, broker.port, "t"))
    assert 0 < sample.broker_cpu_seconds < 2 * sample.seconds
    assert sample.loader_cpu_seconds < 2 * sample.seconds


def test_a_lost_message_refuses_the_sample() -> None:
    with FakeBroker(losing=500) as broker:
        plan = Case("transient", 100, 1).plan(HOST, broker.port, "t")
        with pytest.raises(LoadFailedError, match="delivered and confirmed"):
            measure(plan, os.getpid(), seconds=0.2, warm_up=0.1, drain_seconds_max=0.5)


def test_a_delivery_tag_that_does_not_match_the_count_refuses_the_sample() -> None:
    with FakeBroker(skipping_tag=500) as broker:
        plan = Case("transient", 100, 1).plan(HOST, broker.port, "t")
        with pytest.raises(LoadFailedError, match="the tag says"):
            measure(plan, os.getpid(), seconds=5, warm_up=0.1)


def test_a_body_that_is_not_the_one_published_refuses_the_sample() -> None:
    with FakeBroker(spoiling=500) as broker:
        plan = Case("transient", 100, 1).plan(HOST, broker.port, "t")
        with pytest.raises(LoadFailedError, match="does not have the body"):
            measure(plan, os.getpid(), seconds=5, warm_up=0.1)


def test_latency_is_measured_at_the_rate_asked_for() -> None:
    with FakeBroker() as broker:
        sample = measure_latency(HOST, broker.port, "l", size=100, rate=500, seconds=0.4)
    assert 100 <= sample.messages <= 300
    figures = list(sample.percentiles.values())
    assert figures == sorted(figures)
    assert figures[0] > 0
