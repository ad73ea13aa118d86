"""Rows of message records: what is copied as one, and that nothing is lost or delivered twice by it."""

import random
from array import array
from dataclasses import replace

import pytest

from penstock.broker.queues.paged_list import PagedReadyList
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.store import records
from penstock.broker.store.record_rows import count_in_row
from penstock.storage.segment import location_of
from tests.broker.store.doubles import SMALL, Broker, audit

# Whole rows in a step, and hardly anything of a queue in memory.
ROWS = replace(SMALL, segment_bytes_max=20_000, reclaim_step_bytes=4_000)


def rows_of(octets: bytes) -> list[int]:
    found: list[int] = []
    at = 0
    while at < len(octets):
        size = records.size_at(octets, at)
        found.append(count_in_row(octets, at, size))
        at += size * found[-1]
    return found


def written(broker: Broker, *names: str) -> bytes:
    """The message records of a tick that brings five messages to each of these queues, one queue after
    the other.
    """
    for name in names:
        broker.put(name, *[b"%03d" % number for number in range(5)])
    return ticked(broker)


def ticked(broker: Broker) -> bytes:
    """The batch of a tick."""
    segment = broker.journal.active_segment()
    location = location_of(segment, broker.journal.segment_size(segment))
    broker.tick()
    return broker.journal.batch_payload(location)


def roomy(*names: str) -> Broker:
    broker = Broker(limits=replace(ROWS, segment_bytes_max=1 << 20))
    for name in names:
        broker.declare(name)
    broker.tick()
    return broker


def test_messages_of_one_queue_that_follow_one_another_are_a_row() -> None:
    assert rows_of(written(roomy("q", "r"), "q", "r")) == [5, 5]


def test_a_record_of_another_size_ends_a_row() -> None:
    broker = roomy("q")
    octets = written(broker, "q")
    size = records.size_at(octets, 0)
    longer = bytearray(octets[size : 2 * size])
    longer[4] += 1
    assert rows_of(octets[:size] + bytes(longer) + b"x") == [1, 1]


def test_a_row_ends_before_an_octet_of_the_position_is_full() -> None:
    broker = roomy("q")
    first = written(broker, "q")
    following = records.MessageRecord(first, 0).position(0) + 5
    while following % 256 != 254:
        broker.put("q", b"other")
        broker.tick()
        following += 1
    octets = written(broker, "q")
    size = records.size_at(octets, 0)
    positions = [records.MessageRecord(octets, size * place).position(0) for place in range(5)]
    full = next(place for place in range(5) if positions[place] % 256 == 0)
    assert 0 < full < 5
    assert rows_of(octets) == [full, 5 - full]


def test_a_record_that_names_several_queues_is_no_part_of_a_row() -> None:
    broker = roomy("q", "r")
    for number in range(3):
        broker.put_everywhere(["q", "r"], b"%d" % number)
    assert rows_of(ticked(broker)) == [1, 1, 1]


def paged(count: int) -> tuple[ReadyList, int, list[int]]:
    """A list with its tail on disk: positions from the first one there on, and their locations."""
    broker = roomy("q")
    for _ in range(count // 5):
        broker.put("q", *[b"x" * 10 for _ in range(5)])
        broker.tick()
    ready = broker.vhost.queue("q").journal_list()
    assert isinstance(ready, PagedReadyList)
    first = next(p for p in ready.positions() if ready.location_of(p) >= 0)
    behind = [p for p in ready.positions() if p >= first]
    return ready, first, [ready.location_of(p) for p in behind]


def replica(count: int) -> tuple[ReadyList, int, list[int]]:
    ready = ReplicaList()
    ready.add_run(100, count, 5_000, 40)
    return ready, 100, [5_000 + 40 * index for index in range(count)]


@pytest.mark.parametrize("make", [paged, replica])
def test_a_list_holds_a_row_if_all_of_it_is_where_the_row_says(make: object) -> None:
    assert callable(make)
    ready, first, locations = make(40)
    count = len(locations)
    assert ready.holds_row(first, array("Q", locations))
    assert ready.holds_row(first + 3, array("Q", locations[3:9]))
    # One location is another, the row is longer than the list, or begins before it.
    assert not ready.holds_row(first, array("Q", [*locations[:5], 7]))
    assert not ready.holds_row(first, array("Q", [*locations, locations[-1] + 40]))
    assert not ready.holds_row(first + count, array("Q", [locations[0]]))
    assert not ready.holds_row(first + 1, array("Q", locations[:5]))
    ready.moved_row(first + 2, array("Q", [900, 901, 902]))
    assert [ready.location_of(first + place) for place in range(1, 6)] == [
        locations[1],
        900,
        901,
        902,
        locations[5],
    ]


def test_a_list_does_not_hold_a_row_of_which_one_is_gone() -> None:
    ready, first, locations = paged(40)
    ready.take(first + 4)
    assert ready.holds_row(first, array("Q", locations[:4]))
    assert not ready.holds_row(first, array("Q", locations[:6]))
    assert ready.holds_row(first + 5, array("Q", locations[5:9]))
    other, first, locations = replica(40)
    assert isinstance(other, ReplicaList)
    other.remove_ranges([(first + 4, 1)])
    assert other.holds_row(first, array("Q", locations[:4]))
    assert not other.holds_row(first, array("Q", locations[:6]))


def test_locations_end_where_a_message_is_gone_or_the_list_ends() -> None:
    ready, first, locations = paged(40)
    assert ready.locations_from(first, 1000) == locations
    assert ready.locations_from(first + 2, 3) == locations[2:5]
    ready.take(first + 4)
    found = ready.locations_from(first, 1000)
    assert 1 <= len(found) <= 4
    assert found == locations[: len(found)]
    assert ready.locations_from(first + 4, 10) == []
    assert ready.locations_from(first + 5, 1000) == locations[5:]
    assert ready.locations_from(ready.oldest_position(), 10) == [], "that one is in memory"
    assert ready.locations_from(first + 1000, 10) == []


def test_a_long_queue_before_what_is_dead_is_copied_and_stays_as_it_was() -> None:
    broker = Broker(limits=ROWS)
    broker.declare("q")
    broker.declare("dead")
    kept: list[bytes] = []
    for number in range(40):
        bodies = [b"%02d %02d" % (number, index) for index in range(20)]
        kept.extend(bodies)
        broker.put("q", *bodies)
        broker.tick()
    before = broker.journal.segments()
    for _ in range(60):
        broker.put("dead", *[b"x" * 100 for _ in range(20)])
        broker.tick()
        broker.take("dead", 20)
        broker.tick()
    broker.rest()
    audit(broker)
    assert broker.journal.segments()[0] > before[-1]
    assert broker.restarted().drain("q") == kept
    assert broker.drain("q") == kept


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_which_some_are_given_out_settled_and_given_back(seed: int) -> None:
    dice = random.Random(seed)
    broker = Broker(limits=replace(ROWS, reclaim_step_bytes=dice.choice([500, 4_000])))
    names = ["q", "r", "dead"]
    for name in names:
        broker.declare(name)
    kept: dict[str, list[bytes]] = {name: [] for name in names}
    for number in range(150):
        for name in dice.sample(names, dice.randrange(4)):
            bodies = [b"%04d %02d" % (number, index) for index in range(dice.randrange(25))]
            kept[name].extend(bodies)
            broker.put(name, *bodies)
        for _ in range(dice.randrange(20)):
            name = dice.choice(names)
            if broker.out and dice.random() < 0.7:
                queue, entry = dice.choice(broker.out)
                broker.settle(entry)
                if dice.random() < 0.8:
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
    assert {name: broker.restarted().drain(name) for name in names} == kept
