"""Sinks: a batch is staged, committed, and published once, however often it is tried."""

import pytest

from penstock.broker.errors import AccessRefused, PreconditionFailed
from penstock.broker.sinks.expiry import IDLE_MS_MAX
from penstock.broker.sinks.message_rows import rows_of
from penstock.broker.sinks.publish_batch import ROOM_POLL_MS
from penstock.broker.sinks.sinks import (
    check_before_commit,
    check_owner,
    commit,
    forget_sink,
    stage,
    stage_from,
)
from penstock.broker.sinks.stages import StageKey
from penstock.broker.topology import BindExchange, BindQueue, DeclareExchange, DeclareQueue
from penstock.formats.stage_block import StagedRows
from penstock.ha.id_setter import IdSetter
from tests.broker.store.doubles import Broker, message

SINK = "job"


def staged(count: int, key: str = "q", first: int = 0) -> StagedRows:
    return rows_of([message(b"%d" % number, key=key) for number in range(first, first + count)])


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
    assert broker.vhost.sinks[SINK].batch == -1


def test_a_stage_that_several_roots_of_a_cluster_have_filled_is_whole(broker: Broker) -> None:
    """Its positions have gaps where another epoch begins."""
    key = StageKey(SINK, 0, 0, 0)
    count = 0
    for epoch in range(1, 5):
        IdSetter(broker.store).begin(epoch)
        for _ in range(epoch):
            assert stage(broker.vhost, key, staged(10, first=count), broker.now) == count + 10
            count += 10
            broker.tick()
        broker = broker.restarted()
    IdSetter(broker.store).begin(5)
    commit(broker.vhost, SINK, 0, [(0, 0, count)], broker.now)
    publish_all(broker)
    assert bodies(broker) == [b"%d" % number for number in range(count)]


def test_a_restart_at_any_tick_publishes_each_message_once(broker: Broker) -> None:
    key = StageKey(SINK, 0, 0, 0)
    count = 400
    for first in range(0, count, 100):
        assert stage(broker.vhost, key, staged(100, first=first), broker.now) == first + 100
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
    count = 400
    for first in range(0, count, 100):
        stage(broker.vhost, key, staged(100, "s", first), broker.now)
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


def test_a_restart_at_any_tick_appends_each_message_to_one_partition_once(broker: Broker) -> None:
    """Whoever's turn it was before the restart."""
    arguments = {"x-partitions": 3, "x-partition-by": "round-robin"}
    broker.apply(DeclareExchange("p", "x-partitioned-stream", durable=True, arguments=arguments))
    rows = [message(b"%d" % number, exchange="p", key="k") for number in range(101)]
    for batch, part in enumerate((rows[:1], rows[1:])):
        publish_all(broker)
        stage(broker.vhost, StageKey(SINK, batch, 0, 0), rows_of(part), broker.now)
        broker.tick()
        commit(broker.vhost, SINK, batch, [(0, 0, len(part))], broker.now)
        broker.tick()
    steps = 0
    while any(sink.pending for sink in broker.vhost.sinks.values()):
        again = broker.restarted()
        publish_all(again)
        counts = [again.vhost.queue(f"p-{number}").message_count for number in range(3)]
        assert sum(counts) == len(rows)
        assert min(counts) >= 33
        broker.state.timers.fire_due(broker.now)
        broker.tick()
        steps += 1
    assert steps > 1


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


def declare_small(broker: Broker, **limits: object) -> None:
    arguments = {f"x-{name.replace('_', '-')}": limit for name, limit in limits.items()}
    arguments.setdefault("x-overflow", "reject-publish")
    broker.apply(DeclareQueue("small", durable=True, arguments=arguments))


def wait_in_vain(broker: Broker) -> None:
    for _ in range(10):
        broker.state.timers.fire_due(broker.now)
        broker.tick(ROOM_POLL_MS)


@pytest.mark.parametrize(
    ("limits", "room"),
    [
        ({"max_length": 2}, 2),
        ({"max_length_bytes": 3}, 3),
        ({"max_length": 2, "overflow": "reject-publish-dlx"}, 2),
    ],
)
def test_a_full_queue_is_waited_for_and_nothing_is_dropped(
    broker: Broker, limits: dict[str, object], room: int
) -> None:
    declare_small(broker, **limits)
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), staged(7, "small"), broker.now)
    sink = commit(broker.vhost, SINK, 0, [(0, 0, 7)], broker.now)
    found: list[bytes] = []
    while len(found) < 7:
        wait_in_vain(broker)
        assert broker.vhost.queue("small").message_count == min(room, 7 - len(found))
        assert sink.waits_for == ("small" if len(found) + room < 7 else "")
        found += broker.drain("small")
    publish_all(broker)
    assert found == [b"%d" % number for number in range(7)]
    assert (sink.unroutable, sink.waits_for) == (0, "")


def test_a_restart_while_a_full_queue_is_waited_for_repeats_nothing(broker: Broker) -> None:
    declare_small(broker, max_length=2)
    broker.apply(DeclareExchange("both", "fanout", durable=True))
    for queue in ("small", "q"):
        broker.apply(BindQueue(queue, "both", ""))
    for partition in range(2):
        rows = [message(b"%d%d" % (partition, row), exchange="both", key="") for row in range(5)]
        stage(broker.vhost, StageKey(SINK, 0, partition, 0), rows_of(rows), broker.now)
    commit(broker.vhost, SINK, 0, [(0, 0, 5), (1, 0, 5)], broker.now)
    expected = [b"%d%d" % (partition, row) for partition in range(2) for row in range(5)]
    found: list[bytes] = []
    while len(found) < len(expected):
        wait_in_vain(broker)
        assert bodies(broker) == expected[: len(found) + 2]
        found += broker.drain("small")
        broker.tick()
        broker = broker.restarted()
    assert found == expected


def test_a_dead_letter_does_not_take_the_place_of_a_row(broker: Broker) -> None:
    """The row is published to a queue that drops its head, too; the head would be dead-lettered into
    the last place of the queue that refuses publishes.
    """
    declare_small(broker, max_length=1)
    arguments = {
        "x-max-length": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "small",
    }
    broker.apply(DeclareQueue("latest", durable=True, arguments=arguments))
    broker.apply(DeclareExchange("both", "fanout", durable=True))
    for queue in ("latest", "small"):
        broker.apply(BindQueue(queue, "both", ""))
    broker.put("latest", b"head")
    rows = rows_of([message(b"row", exchange="both", key="")])
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), rows, broker.now)
    commit(broker.vhost, SINK, 0, [(0, 0, 1)], broker.now)
    publish_all(broker)
    assert (bodies(broker, "latest"), bodies(broker, "small")) == ([b"row"], [b"row"])


def test_a_batch_is_counted_before_it_is_committed(broker: Broker) -> None:
    declare_small(broker, max_length=4, max_length_bytes=100)
    broker.put("small", b"there")
    for first, key in ((0, "small"), (3, "nowhere"), (5, "q")):
        stage(broker.vhost, StageKey(SINK, 0, 0, 0), staged(2, key, first), broker.now)
    broker.tick()
    for again in (broker, broker.restarted()):
        check = check_before_commit(again.vhost, SINK, 0, [(0, 0, 6)], mandatory=False)
        assert check.is_needed()
        while check.step():
            pass
        assert (check.count, check.unroutable) == (6, 2)
        assert check.refusing(waits=False) is None
        again.put("small", b"and", b"more")
        refusing = check.refusing(waits=False)
        assert refusing is not None
        assert (refusing.queue.name, refusing.count, refusing.octets) == ("small", 2, 2)
        assert check.refusing(waits=True) is None
        assert not check.is_stale()
        again.declare("another")
        assert check.is_stale()


def test_rows_that_never_fit_are_told_from_those_that_may(broker: Broker) -> None:
    declare_small(broker, max_length_bytes=3)
    rows = rows_of([message(b"four", key="small")])
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), rows, broker.now)
    check = check_before_commit(broker.vhost, SINK, 0, [(0, 0, 1)], mandatory=False)
    while check.step():
        pass
    assert check.refusing(waits=True) is not None


def test_nothing_is_counted_where_no_queue_refuses(broker: Broker) -> None:
    put_stage(broker, 0, 0, 0)
    assert not check_before_commit(broker.vhost, SINK, 0, [(0, 0, 3)], mandatory=False).is_needed()
    assert check_before_commit(broker.vhost, SINK, 0, [(0, 0, 3)], mandatory=True).is_needed()
    commit(broker.vhost, SINK, 0, [(0, 0, 3)], broker.now)
    assert not check_before_commit(broker.vhost, SINK, 0, [(0, 0, 3)], mandatory=True).is_needed()


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
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), rows_of(rows), broker.now)
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


def test_a_sink_belongs_to_who_staged_first_over_a_restart_too(broker: Broker) -> None:
    key = StageKey(SINK, 0, 0, 0)
    check_owner(broker.vhost, SINK, "anybody")
    stage(broker.vhost, key, staged(1), broker.now, "ann")
    stage(broker.vhost, key, staged(1, first=1), broker.now, "administrator")
    broker.tick()
    for again in (broker, broker.restarted()):
        check_owner(again.vhost, SINK, "ann")
        with pytest.raises(AccessRefused, match="belongs to user 'ann'; user 'bob' is neither"):
            check_owner(again.vhost, SINK, "bob")


def idle(broker: Broker, milliseconds: int) -> None:
    broker.now += milliseconds
    broker.state.timers.fire_due(broker.now)
    broker.tick()


@pytest.mark.parametrize("temporary", [False, True])
def test_what_nobody_commits_is_dropped_when_its_sink_is_idle(
    broker: Broker, temporary: bool
) -> None:
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), staged(3), broker.now, "ann", temporary)
    idle(broker, IDLE_MS_MAX - 10)
    stage(broker.vhost, StageKey(SINK, 0, 0, 1), staged(3), broker.now)
    idle(broker, IDLE_MS_MAX - 10)
    assert len(broker.vhost.queues) == 3
    again = broker.restarted()
    # Who comes back within the time after a restart has lost nothing.
    idle(again, IDLE_MS_MAX - 10)
    assert len(again.vhost.queues) == 3
    idle(again, 20)
    for after in (again, again.restarted()):
        assert list(after.vhost.queues) == ["q"]
        assert after.vhost.sinks == {}


def test_a_sink_of_one_job_is_forgotten_and_others_remember_their_batch(broker: Broker) -> None:
    for name, temporary in (("one", True), ("all", False)):
        key = StageKey(name, 3, 0, 0)
        stage(broker.vhost, key, staged(3), broker.now, "ann", temporary)
        commit(broker.vhost, name, 3, [(0, 0, 3)], broker.now)
        publish_all(broker)
        stage(broker.vhost, StageKey(name, 4, 0, 0), staged(3), broker.now)
    idle(broker, IDLE_MS_MAX + 10_000)
    for after in (broker, broker.restarted()):
        assert list(after.vhost.queues) == ["q"]
        assert {name: sink.batch for name, sink in after.vhost.sinks.items()} == {"all": 3}


def test_a_sink_that_waits_for_a_full_queue_is_not_idle(broker: Broker) -> None:
    declare_small(broker, max_length=2)
    stage(broker.vhost, StageKey(SINK, 0, 0, 0), staged(3, "small"), broker.now)
    commit(broker.vhost, SINK, 0, [(0, 0, 3)], broker.now)
    wait_in_vain(broker)
    idle(broker, 3 * IDLE_MS_MAX)
    assert broker.vhost.sinks[SINK].waits_for == "small"
    assert broker.drain("small") == [b"0", b"1"]
    broker.tick(ROOM_POLL_MS)
    publish_all(broker)
    assert broker.drain("small") == [b"2"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (StageKey("", 0, 0, 0), "name of a sink"),
        (StageKey(SINK, -1, 0, 0), "must not be negative"),
        (StageKey(SINK, 0, 1 << 16, 0), "at most"),
        (StageKey(SINK, 1 << 23, 0, 0), "at most"),
    ],
)
def test_a_stage_that_cannot_be_is_refused(broker: Broker, key: StageKey, text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        stage(broker.vhost, key, staged(1), broker.now)
