"""Samples of what a node counts, in steps that hold up nobody."""

import time
from collections.abc import Generator
from typing import cast

from penstock.broker.topology import AddVhost, DeclareQueue, DeleteQueue
from penstock.server.http.api.sampler import CHANNEL, QUEUE, STEP_COUNT, TOTAL, VHOST, Sampler
from penstock.server.http.api.samples import FULL_SERIES_MAX, ROWS_MAX, SAMPLE_MS, Span
from penstock.server.http.line import BrokerLine
from penstock.wire.amqp091 import methods_generated as m
from tests.seeds.doubles import House

# The loop may be held up for this long; measured as the time of this thread alone, so that a loaded
# machine does not matter.
STEP_SECONDS_MAX = 0.005
MANY = 10_000


def sampler() -> Sampler:
    """One that is told when to sample."""
    return Sampler(cast("BrokerLine", None))


def run(steps: Generator[None, None, None]) -> int:
    return sum(1 for _ in steps)


def test_a_queue_has_rates_from_the_second_sample_on() -> None:
    house = House()
    peer = house.client()
    peer.call(m.QueueDeclare("q"))
    sampled = sampler()
    run(sampled.sample(house.node, 0))
    peer.publish("q", b"1", b"2", b"3", b"4", b"5")
    house.settle()
    queue = house.node.state.vhost("/").queues["q"]
    assert sampled.of_queue(queue, False).rate(QUEUE.index("publish")) == 0.0
    run(sampled.sample(house.node, SAMPLE_MS))
    assert sampled.of_queue(queue, False).rate(QUEUE.index("publish")) == 1.0
    assert sampled.of_queue(queue, False).rate(QUEUE.index("messages_ready")) == 1.0
    assert sampled.of_vhost("/", False).rate(VHOST.index("publish")) == 1.0
    assert sampled.of_everything(False).rate(TOTAL.index("publish")) == 1.0
    assert sampled.of_connection(peer.connection.number, False).rate(0) > 0


def test_a_channel_has_rates_of_its_own() -> None:
    house = House()
    peer = house.client()
    peer.call(m.QueueDeclare("q"))
    peer.call(m.ConfirmSelect(False))
    sampled = sampler()
    run(sampled.sample(house.node, 0))
    peer.publish("q", *[b"x"] * 10)
    house.settle()
    run(sampled.sample(house.node, SAMPLE_MS))
    history = sampled.of_channel(peer.connection.number, 1, False)
    assert history.rate(CHANNEL.index("confirm")) == 2.0


def test_what_is_gone_is_forgotten_with_the_next_sample() -> None:
    house = House()
    node = house.node
    node.apply(AddVhost("other"), 0)
    node.apply_to_vhost("other", DeclareQueue("q"), 0)
    queue = node.state.vhost("other").queues["q"]
    sampled = sampler()
    run(sampled.sample(node, 0))
    run(sampled.sample(node, SAMPLE_MS))
    span = Span(60_000, SAMPLE_MS)
    assert sampled.of_queue(queue, True).details(0, span)["samples"]
    node.apply_to_vhost("other", DeleteQueue("q"), 0)
    run(sampled.sample(node, 2 * SAMPLE_MS))
    assert sampled.of_queue(queue, True).details(0, span)["samples"] == []


def test_many_queues_are_sampled_in_short_steps() -> None:
    node = House().node
    for number in range(MANY):
        node.apply_to_vhost("/", DeclareQueue(f"q{number}"), 0)
    sampled = sampler()
    times: list[float] = []
    steps = sampled.sample(node, 0)
    while True:
        began = time.thread_time()
        if next(steps, 0) == 0:
            break
        times.append(time.thread_time() - began)
    assert len(times) >= MANY // STEP_COUNT
    # The one that is interrupted by a collection of garbage is not meant.
    assert sorted(times)[len(times) * 9 // 10] < STEP_SECONDS_MAX


def test_beyond_some_number_of_queues_less_is_kept_of_each() -> None:
    node = House().node
    for number in range(FULL_SERIES_MAX + 1):
        node.apply_to_vhost("/", DeclareQueue(f"q{number}"), 0)
    sampled = sampler()
    for index in range(20):
        run(sampled.sample(node, index * SAMPLE_MS))
    queues = list(node.state.vhost("/").queues.values())
    span = Span(ROWS_MAX * SAMPLE_MS, SAMPLE_MS)

    def kept(number: int) -> int:
        samples = sampled.of_queue(queues[number], True).details(0, span)["samples"]
        assert isinstance(samples, list)
        return len(samples)

    assert (kept(0), kept(FULL_SERIES_MAX)) == (20, 13)
