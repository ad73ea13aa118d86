"""Giving disk back: what goes, what is copied, and that nothing is lost by it at any moment."""

from dataclasses import replace

from penstock.broker.entry import QueueEntry
from penstock.broker.store.limits import StoreLimits
from penstock.broker.topology import BindQueue, DeclareExchange, DeleteQueue
from penstock.storage.memory_disk import MemoryDisk
from tests.broker.store.doubles import SMALL, Broker, audit, message

BODY = b"x" * 150


def segments(broker: Broker) -> int:
    return len(broker.journal.segments())


def disk_bytes(broker: Broker) -> int:
    assert isinstance(broker.disk, MemoryDisk)
    return sum(file.size() for file in broker.disk.files.values())


def churn(broker: Broker, name: str, count: int) -> None:
    """Through the queue and out again, never in one tick."""
    for _ in range(count):
        broker.put(name, BODY)
        broker.tick()
        entry = broker.vhost.queue(name).get(broker.now)
        assert entry is not None
        broker.vhost.queue(name).acknowledge(entry)
        broker.tick()


def broker_with(*names: str, limits: StoreLimits = SMALL) -> Broker:
    broker = Broker(limits=limits)
    for name in names:
        broker.declare(name)
    broker.tick()
    return broker


def test_a_queue_that_is_nearly_empty_holds_nearly_no_disk() -> None:
    broker = broker_with("q")
    churn(broker, "q", 300)
    broker.rest()
    audit(broker)
    assert segments(broker) <= 2
    assert disk_bytes(broker) <= 2 * SMALL.segment_bytes_max


def test_one_stuck_message_does_not_pin_what_came_after_it() -> None:
    broker = broker_with("q")
    broker.put("q", b"stuck")
    broker.tick()
    stuck = broker.get("q")
    churn(broker, "q", 300)
    broker.rest()
    audit(broker)
    assert segments(broker) <= 3
    assert broker.restarted().drain("q") == [b"stuck"]
    broker.acknowledge(stuck)
    broker.tick()
    audit(broker)
    assert broker.restarted().drain("q") == []


def test_a_live_segment_is_left_alone() -> None:
    broker = broker_with("q")
    for _ in range(60):
        broker.put("q", BODY)
        broker.tick()
    count = segments(broker)
    broker.rest()
    assert count > 4
    assert segments(broker) == count
    assert not broker.stored.reclaimer.is_busy()


def test_large_dead_messages_are_not_outvoted_by_small_living_ones() -> None:
    broker = broker_with("small", "large", limits=replace(SMALL, segment_bytes_max=10_000))
    for _ in range(40):
        broker.put("small", *[b""] * 5)
        broker.tick()
    for _ in range(40):
        broker.put("large", b"x" * 5000)
        broker.tick()
        broker.take("large")
        broker.tick()
    broker.rest()
    audit(broker)
    assert disk_bytes(broker) < 60_000
    assert broker.restarted().drain("small") == [b""] * 200


def test_a_step_is_bounded() -> None:
    broker = broker_with(
        "q", limits=replace(SMALL, segment_bytes_max=20_000, reclaim_step_bytes=1000)
    )
    for number in range(100):
        broker.put("q", b"%03d" % number + BODY)
        broker.tick()
    entries = [broker.get("q") for _ in range(100)]
    for index, entry in enumerate(entries):
        if index % 4:
            broker.acknowledge(entry)
    broker.tick()
    before = broker.journal.position
    broker.tick()
    steps = 0
    while broker.stored.has_work():
        assert broker.journal.position - before < 3000
        before = broker.journal.position
        broker.tick()
        steps += 1
    assert steps > 5
    audit(broker)


def test_definitions_are_repeated_before_the_segment_that_held_them_goes() -> None:
    broker = broker_with("q")
    broker.apply(DeclareExchange("e", "topic", durable=True))
    broker.apply(BindQueue("q", "e", "a.*"))
    broker.tick()
    first = broker.journal.segments()[0]
    churn(broker, "q", 100)
    broker.rest()
    assert first not in broker.journal.segments()
    restarted = broker.restarted()
    assert set(restarted.vhost.queues) == {"q"}
    assert [found.routing_key for found in restarted.vhost.bindings.listed()] == ["a.*"]
    assert restarted.declare("r").number > restarted.vhost.queue("q").number


def mixture(broker: Broker) -> dict[str, list[bytes]]:
    """Half-dead segments with messages everywhere: ready, paged, out, fanned out; returns what
    each queue must hold after a restart.
    """
    names = ["a", "b", "c"]
    for number in range(90):
        body = b"%03d" % number + BODY[: number % 50]
        if number % 3 == 0:
            broker.put_everywhere(names, body)
        else:
            broker.put(names[number % 3], body)
        broker.tick()
    expected: dict[str, list[bytes]] = {}
    for place, name in enumerate(names):
        count = broker.vhost.queue(name).message_count
        entries = [broker.get(name) for _ in range(count * 2 // 3)]
        kept = []
        for index, entry in enumerate(entries):
            if index % (5 + place):
                broker.acknowledge(entry)
            else:
                kept.append(entry.message.body)
        broker.stored.store.end_of_tick()  # written, and nothing reclaimed yet
        rest = [body_at(broker, name, index) for index in range(count - len(entries))]
        expected[name] = kept + rest
    return expected


def body_at(broker: Broker, name: str, index: int) -> bytes:
    found = broker.vhost.queue(name).browse(index + 1)
    return found[index].message.body


def test_nothing_is_lost_by_a_restart_after_any_step() -> None:
    broker = broker_with("a", "b", "c")
    expected = mixture(broker)
    audit(broker)
    broker.tick()
    steps = 0
    while broker.stored.has_work() or steps == 0:
        restarted = broker.restarted()
        audit(restarted)
        restarted.rest()
        audit(restarted)
        for name, bodies in expected.items():
            assert restarted.drain(name) == bodies, (name, steps)
        broker.tick()
        audit(broker)
        steps += 1
    assert steps > 5


def test_a_restart_in_the_middle_of_a_copy_counts_no_message_twice() -> None:
    broker = broker_with("a", "b", "c")
    expected = mixture(broker)
    restarts = 0
    for _ in range(200):
        broker.tick()
        broker.tick()
        if broker.stored.reclaimer.is_busy():
            # The next one begins this segment anew; what was copied is known by its copy.
            broker = broker.restarted()
            audit(broker)
            restarts += 1
            for name in expected:
                for _ in range(5):
                    broker.get(name)
    assert restarts > 2
    broker.rest()
    audit(broker)
    broker = broker.restarted()
    for name, bodies in expected.items():
        assert broker.drain(name) == bodies


def half_dead(broker: Broker) -> tuple[QueueEntry, QueueEntry]:
    """A fanned-out message that is out with consumers of two queues, in a segment that is mostly
    dead; the next tick begins to copy it.
    """
    broker.put_everywhere("qr", b"both")
    broker.tick()
    pair = broker.get("q"), broker.get("r")
    for _ in range(30):
        broker.put("q", BODY)
        broker.stored.store.end_of_tick()
    for _ in range(30):
        broker.take("q")
    broker.stored.store.end_of_tick()
    return pair


def test_a_message_acknowledged_in_one_queue_while_it_moves_for_another() -> None:
    for step in range(12):
        broker = broker_with("q", "r")
        one, other = half_dead(broker)
        for _ in range(step):
            broker.tick()
        broker.acknowledge(one)
        broker.tick()
        audit(broker)
        broker.rest()
        audit(broker)
        assert broker.restarted().drain("r") == [b"both"]
        broker.acknowledge(other)
        broker.rest()
        audit(broker)
        assert broker.restarted().drain("r") == []


def test_what_was_out_when_its_queue_was_deleted_pins_nothing() -> None:
    for requeued in True, False:
        broker = broker_with("q", "r")
        broker.put("r", b"out")
        broker.tick()
        out = broker.get("r")
        queue = broker.vhost.queue("r")
        broker.apply(DeleteQueue("r"))
        churn(broker, "q", 100)
        broker.rest()
        assert segments(broker) <= 3
        broker.settle(out)
        if requeued:
            queue.requeue([out], broker.now)
        else:
            queue.acknowledge(out)
        churn(broker, "q", 100)
        broker.rest()
        audit(broker)
        assert segments(broker) <= 2


def test_a_priority_queue_is_copied_like_any_other() -> None:
    broker = broker_with("q")
    queue = broker.declare("p", arguments={"x-max-priority": 5})
    for priority in (1, 5, 3):
        queue.enqueue(message(b"p%d" % priority, priority=priority), broker.now)
    broker.tick()
    churn(broker, "q", 200)
    broker.rest()
    assert segments(broker) <= 3
    assert broker.restarted().drain("p") == [b"p5", b"p3", b"p1"]


def test_copies_keep_the_time_to_live_of_each_queue() -> None:
    broker = broker_with("q", "long")
    broker.declare("short", arguments={"x-message-ttl": 60_000})
    broker.put_everywhere(["long", "short"], b"m")
    broker.tick()
    churn(broker, "q", 200)
    broker.rest()
    assert broker.restarted(milliseconds=1000).vhost.queue("short").message_count == 1
    later = broker.restarted(milliseconds=100_000)
    assert later.vhost.queue("short").message_count == 0
    assert later.drain("long") == [b"m"]
