"""Sinks: a batch is staged, committed, and published once, however often it is tried."""

import pytest

from penstock.broker.errors import PreconditionFailed
from penstock.broker.message import Message
from penstock.broker.sinks import StageKey, commit, forget_sink, stage, stage_from
from penstock.broker.topology import BindExchange, BindQueue, DeclareExchange, DeclareQueue
from tests.broker.store.doubles import Broker, message

SINK = "job"


def staged(count: int, key: str = "q", first: int = 0) -> list[Message]:
    return [message(b"%d" % number, key=key) for number in range(first, first + count)]


def put_stage(broker: Broker, batch: int, partition: int, attempt: int, count: int = 3) -> None:
    key = StageKey(SINK, batch, partition, attempt)
    stage(broker.vhost, key, staged(count, first=10 * partition), broker.now)
    broker.tick()


def publish_all(broker: Broker) -> None:
    """Let time pass until nothing is pending."""
    for _ in range(1000):
        broker.state.timers.fire_due(broker.now)
        broker.tick()
        if not any(sink.pending for sink in broker.vhost.sinks.values()):
            return
    raise AssertionError("it is never published")


def bodies(broker: Broker, name: str = "q") -> list[bytes]:
    return [entry.message.body for entry in broker.vhost.queue(name).browse(10_000)]


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.declare("q")
    return broker


def test_nothing_is_published_before_the_commit_and_everything_after_it(broker: Broker) -> None:
    put_stage(broker, 0, 0, 0)
    put_stage(broker, 0, 1, 0)
    publish_all(broker)
    assert bodies(broker) == []
    commit(broker.vhost, SINK, 0, [(1, 0, 3), (0, 0, 3)], broker.now)
    publish_all(broker)
    assert bodies(broker) == [b"0", b"1", b"2", b"10", b"11", b"12"]
    assert [name for name in broker.vhost.queues if name.startswith("amq.stage.")] == []


def test_a_batch_that_was_committed_is_dropped_when_it_comes_again(broker: Broker) -> None:
    for attempt in range(2):
        put_stage(broker, 0, 0, attempt)
        commit(broker.vhost, SINK, 0, [(0, attempt, 3)], broker.now)
        publish_all(broker)
    assert bodies(broker) == [b"0", b"1", b"2"]


def test_attempts_that_do_not_count_are_dropped(broker: Broker) -> None:
    put_stage(broker, 0, 0, 0, count=2)
    put_stage(broker, 0, 0, 1)
    commit(broker.vhost, SINK, 0, [(0, 1, 3)], broker.now)
    publish_all(broker)
    assert bodies(broker) == [b"0", b"1", b"2"]
    assert [name for name in broker.vhost.queues if name.startswith("amq.stage.")] == []


def test_an_attempt_that_does_not_hold_what_was_staged_refuses_the_commit(broker: Broker) -> None:
    put_stage(broker, 0, 0, 0, count=2)
    with pytest.raises(PreconditionFailed, match="has 2 messages staged, not 3"):
        commit(broker.vhost, SINK, 0, [(0, 0, 3)], broker.now)
    assert SINK not in broker.vhost.sinks


def test_a_restart_at_any_tick_publishes_each_message_once(broker: Broker) -> None:
    key = StageKey(SINK, 0, 0, 0)
    count = 5000
    for first in range(0, count, 500):
        stage(broker.vhost, key, staged(500, first=first), broker.now)
        broker.tick()
    commit(broker.vhost, SINK, 0, [(0, 0, count)], broker.now)
    broker.tick()
    expected = [b"%d" % number for number in range(count)]
    steps = 0
    while any(sink.pending for sink in broker.vhost.sinks.values()):
        again = broker.restarted()
        publish_all(again)
        assert bodies(again) == expected
        broker.state.timers.fire_due(broker.now)
        broker.tick()
        steps += 1
    assert steps > 2
    assert bodies(broker) == expected


def test_a_restart_at_any_tick_appends_each_message_to_a_stream_once(broker: Broker) -> None:
    broker.apply(DeclareQueue("s", durable=True, arguments={"x-queue-type": "stream"}))
    key = StageKey(SINK, 0, 0, 0)
    count = 5000
    for first in range(0, count, 500):
        stage(broker.vhost, key, staged(500, "s", first), broker.now)
        broker.tick()
    commit(broker.vhost, SINK, 0, [(0, 0, count)], broker.now)
    broker.tick()
    steps = 0
    while any(sink.pending for sink in broker.vhost.sinks.values()):
        again = broker.restarted()
        publish_all(again)
        assert again.vhost.queue("s").message_count == count
        broker.state.timers.fire_due(broker.now)
        broker.tick()
        steps += 1
    assert steps > 2
    assert broker.vhost.queue("s").message_count == count


def test_what_was_committed_is_remembered_over_a_restart(broker: Broker) -> None:
    put_stage(broker, 7, 0, 0)
    commit(broker.vhost, SINK, 7, [(0, 0, 3)], broker.now)
    publish_all(broker)
    again = broker.restarted()
    assert stage(again.vhost, StageKey(SINK, 7, 0, 1), staged(1), again.now) == 0
    assert commit(again.vhost, SINK, 7, [(0, 1, 1)], again.now).batch == 7
    publish_all(again)
    assert bodies(again) == [b"0", b"1", b"2"]


def test_messages_that_reach_no_queue_are_counted(broker: Broker) -> None:
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), staged(2, "nowhere"), broker.now)
    sink = commit(broker.vhost, SINK, 0, [(0, 0, 2)], broker.now)
    publish_all(broker)
    assert sink.unroutable == 2


def test_messages_of_an_earlier_batch_are_not_counted_again(broker: Broker) -> None:
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), staged(2, "nowhere"), broker.now)
    commit(broker.vhost, SINK, 0, [(0, 0, 2)], broker.now)
    publish_all(broker)
    put_stage(broker, 1, 0, 0)
    sink = commit(broker.vhost, SINK, 1, [(0, 0, 3)], broker.now)
    publish_all(broker)
    assert sink.unroutable == 0


def test_messages_that_are_sent_again_are_staged_once(broker: Broker) -> None:
    key = StageKey(SINK, 0, 0, 0)
    for _ in range(2):
        assert stage_from(broker.vhost, key, 0, staged(3), broker.now) == 3
    broker.tick()
    again = broker.restarted()
    for _ in range(2):
        assert stage_from(again.vhost, key, 3, staged(2, first=3), again.now) == 5
    with pytest.raises(PreconditionFailed, match="has 5 messages staged, not 4"):
        stage_from(again.vhost, key, 4, staged(3), again.now)
    commit(again.vhost, SINK, 0, [(0, 0, 5)], again.now)
    publish_all(again)
    assert bodies(again) == [b"0", b"1", b"2", b"3", b"4"]
    assert stage_from(again.vhost, key, 7, staged(3), again.now) == 0


def test_messages_that_a_full_queue_refuses_are_counted(broker: Broker) -> None:
    limits: dict[str, object] = {"x-max-length": 1, "x-overflow": "reject-publish"}
    broker.apply(DeclareQueue("small", durable=True, arguments=limits))
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), staged(3, "small"), broker.now)
    sink = commit(broker.vhost, SINK, 0, [(0, 0, 3)], broker.now)
    publish_all(broker)
    assert (bodies(broker, "small"), sink.unroutable) == ([b"0"], 2)


def test_a_delayed_exchange_holds_back_what_is_published_to_it(broker: Broker) -> None:
    kind: dict[str, object] = {"x-delayed-type": "direct"}
    broker.apply(DeclareExchange("later", "x-delayed-message", durable=True, arguments=kind))
    broker.apply(DeclareExchange("before", "fanout", durable=True))
    broker.apply(BindQueue("q", "later", "k"))
    broker.apply(BindExchange("later", "before", ""))
    rows = [
        message(b"%d" % number, exchange=exchange, key="k", headers={"x-delay": 60_000})
        for number, exchange in enumerate(["later", "before"])
    ]
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), rows, broker.now)
    sink = commit(broker.vhost, SINK, 0, [(0, 0, 2)], broker.now)
    publish_all(broker)
    assert (bodies(broker), sink.unroutable) == ([], 0)
    again = broker.restarted()
    again.state.timers.fire_due(again.now + 60_000)
    assert bodies(again) == [b"0", b"1"]


def test_a_sink_that_is_forgotten_begins_anew(broker: Broker) -> None:
    put_stage(broker, 5, 0, 0)
    commit(broker.vhost, SINK, 5, [(0, 0, 3)], broker.now)
    publish_all(broker)
    assert forget_sink(broker.vhost, SINK, broker.now)
    broker.tick()
    again = broker.restarted()
    assert again.vhost.sinks == {}
    assert not forget_sink(again.vhost, SINK, again.now)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (StageKey("", 0, 0, 0), "name of a sink"),
        (StageKey(SINK, -1, 0, 0), "counted from 0"),
        (StageKey(SINK, 0, 1 << 16, 0), "at most"),
        (StageKey(SINK, 1 << 23, 0, 0), "at most"),
    ],
)
def test_a_stage_that_cannot_be_is_refused(broker: Broker, key: StageKey, text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        stage(broker.vhost, key, staged(1), broker.now)
