"""Copying a segment while its messages are given out and settled, at any moment of the copy."""

import random

import pytest

from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.publishing.publish import hold_back
from penstock.broker.store.limits import StoreLimits
from penstock.broker.store.reclaim import PATIENCE_BYTES, PATIENCE_MS
from penstock.broker.topology import AddVhost, DeclareExchange, DeleteVhost
from tests.broker.store.doubles import SMALL, Broker, audit, message
from tests.broker.store.test_reclaim import BODY, churn, segments

# A few batches per step, and everything in memory.
SLOW = StoreLimits(
    segment_bytes_max=8000, reclaim_step_bytes=500, reclaim_patience_ms=0, reclaim_busy_ms=0
)


def half_dead(broker: Broker, *names: str) -> list[bytes]:
    """Three segments of which little lives; the next ticks copy the oldest."""
    for name in [*names, "dead"]:
        broker.declare(name)
    kept: list[bytes] = []
    for number in range(40):
        kept.append(b"kept %02d" % number)
        broker.put_everywhere(names, kept[-1])
        broker.put("dead", BODY, BODY)
        broker.store.end_of_tick()
    broker.drain("dead")
    broker.store.end_of_tick()
    return kept


def bodies(broker: Broker, name: str) -> list[bytes]:
    return [entry.message.body for entry in broker.vhost.queue(name).browse(1000)]


def test_deliveries_that_are_out_are_gone_through_once_per_pass() -> None:
    broker = Broker(limits=SLOW)
    kept = half_dead(broker, "q")
    oldest = broker.journal.segments()[0]
    for _ in kept:
        broker.get("q")
    steps = 0
    while oldest in broker.journal.segments():
        broker.tick()
        steps += 1
    assert steps > 10
    assert broker.asked_count == 1
    assert broker.restarted().drain("q") == kept


def test_what_is_given_out_in_the_middle_of_a_pass_pins_nothing() -> None:
    broker = Broker(limits=SLOW)
    kept = half_dead(broker, "q")
    broker.tick()
    assert broker.stored.reclaimer.is_busy()
    oldest = broker.journal.segments()[0]
    for _ in kept:
        broker.get("q")
    for _ in range(100):
        broker.tick()
    audit(broker)
    assert oldest not in broker.journal.segments()
    assert broker.restarted().drain("q") == kept


@pytest.mark.parametrize("seed", range(20))
def test_settled_and_given_back_in_the_middle_of_a_pass(seed: int) -> None:
    """Of messages that lie in two queues: both places must be found at one moment."""
    dice = random.Random(seed)
    broker = Broker(limits=SLOW)
    half_dead(broker, "q", "r")
    kept = {name: bodies(broker, name) for name in ("q", "r")}
    for _ in range(120):
        for _ in range(dice.randrange(3)):
            name = dice.choice(["q", "r"])
            if broker.out and dice.random() < 0.5:
                queue, entry = broker.out[dice.randrange(len(broker.out))]
                broker.settle(entry)
                if dice.random() < 0.5:
                    queue.acknowledge(entry)
                    kept[queue.name].remove(entry.message.body)
                else:
                    queue.requeue([entry], broker.now)
            elif broker.vhost.queue(name).journal_list().count:
                broker.get(name)
        broker.tick()
        audit(broker)
    broker.rest()
    audit(broker)
    assert broker.vhost.queue("q").observers == []
    assert {name: broker.restarted().drain(name) for name in kept} == kept


def test_what_waited_in_a_deleted_virtual_host_pins_no_segment() -> None:
    broker = Broker(limits=SMALL)
    broker.declare("q")
    broker.state.apply(AddVhost("other"), broker.now)
    other = broker.state.vhost("other")
    arguments: dict[str, object] = {"x-delayed-type": "fanout"}
    other.apply(
        DeclareExchange("late", "x-delayed-message", durable=True, arguments=arguments), broker.now
    )
    exchange = other.exchanges["late"]
    assert isinstance(exchange, DelayedExchange)
    delayed = message(b"waits", exchange="late", headers={"x-delay": 1_000_000})
    hold_back(other.routing, exchange, delayed, broker.now)
    broker.tick()
    broker.state.apply(DeleteVhost("other"), broker.now)
    churn(broker, "q", 200)
    broker.rest()
    audit(broker)
    assert segments(broker) <= 2
    assert other.delay_line.waiting.count == 0
    # When it would have been due nothing happens.
    broker.now += 2_000_000
    broker.state.timers.fire_due(broker.now)
    broker.tick()
    assert broker.restarted().vhost.queue("q").message_count == 0


def test_a_segment_that_dies_by_itself_is_not_read() -> None:
    broker = Broker(limits=StoreLimits(segment_bytes_max=8000))
    kept = half_dead(broker, "q")
    oldest = broker.journal.segments()[0]
    for _ in kept:
        broker.tick()
        assert not broker.stored.reclaimer.is_busy()
        broker.take("q")
    broker.rest()
    assert oldest not in broker.journal.segments()
    assert broker.asked_count == 0


def test_a_pause_between_acknowledgements_neither_copies_nor_keeps_the_node_busy() -> None:
    """Those of a cluster's root pause until other servers have a message, over many ticks."""
    broker = Broker(limits=StoreLimits(segment_bytes_max=8000))
    kept = half_dead(broker, "q")
    oldest = broker.journal.segments()[0]
    for _ in kept:
        for _ in range(40):
            broker.tick()
            assert not broker.stored.reclaimer.is_busy()
        assert not broker.stored.has_work()
        broker.take("q")
    broker.rest()
    assert oldest not in broker.journal.segments()
    assert broker.asked_count == 0


def test_a_segment_from_which_nothing_is_dequeued_for_a_while_is_copied() -> None:
    broker = Broker(limits=StoreLimits(segment_bytes_max=8000))
    kept = half_dead(broker, "q")
    oldest = broker.journal.segments()[0]
    broker.tick()
    broker.tick(PATIENCE_MS)
    broker.rest()
    assert broker.asked_count == 1
    assert oldest not in broker.journal.segments()
    assert broker.restarted().drain("q") == kept


def test_a_journal_that_grows_fast_is_copied_without_waiting_for_time() -> None:
    broker = Broker(limits=StoreLimits(segment_bytes_max=8000))
    kept = half_dead(broker, "q")
    oldest = broker.journal.segments()[0]
    broker.tick()
    for _ in range(2):
        broker.put("dead", bytes(PATIENCE_BYTES))
        broker.tick(0)
        broker.take("dead")
        broker.tick(0)
    while broker.stored.has_work():
        broker.tick(0)
    assert broker.asked_count == 1
    assert oldest not in broker.journal.segments()
    assert broker.restarted().drain("q") == kept


def test_a_copy_ends_when_nothing_lives_any_more() -> None:
    broker = Broker(limits=SLOW)
    kept = half_dead(broker, "q")
    broker.tick()
    assert broker.stored.reclaimer.is_busy()
    oldest = broker.journal.segments()[0]
    for _ in kept:
        broker.take("q")
    broker.tick()
    broker.tick()
    assert not broker.stored.reclaimer.is_busy()
    broker.rest()
    assert oldest not in broker.journal.segments()
    audit(broker)
