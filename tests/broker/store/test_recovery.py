"""From the journal back to queues: over hand-made journals, and over what a broker wrote."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.entry import QueueEntry
from penstock.broker.message import NOBODY, Address, Message
from penstock.broker.queues.position_runs import runs_of
from penstock.broker.store import records
from penstock.broker.store.definition_records import Change, encode_change, encode_snapshot
from penstock.broker.store.recovered_queue import RecoveredQueue
from penstock.broker.store.segments import SegmentLives
from penstock.broker.topology import (
    AddVhost,
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    DeleteVhost,
    UnbindQueue,
)
from penstock.dialects.amqp091.properties import read_stored_properties
from penstock.storage.journal import Journal, JournalListener
from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.recovery import BatchListener, recover
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header
from tests.broker.store.doubles import ROOMY, SMALL, Broker, audit, message


def recovered_queue(
    written: list[tuple[int, int, int]], gone: list[tuple[int, int]]
) -> RecoveredQueue:
    queue = RecoveredQueue()
    for position, location, size in written:
        queue.add(position, location, size)
    for first, end in gone:
        queue.left(first, end)
    return queue


@given(
    written=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 50)), max_size=40),
    gone=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 6)), max_size=10),
)
def test_what_lives_is_what_was_written_last_and_did_not_leave(
    written: list[tuple[int, int]], gone: list[tuple[int, int]]
) -> None:
    """In any order, with gaps, with copies, with ranges that overlap."""
    rows = [(position, index, size) for index, (position, size) in enumerate(written)]
    ranges = [(first, first + count) for first, count in gone]
    expected: dict[int, tuple[int, int]] = {}
    for position, location, size in rows:
        if not any(first <= position < end for first, end in ranges):
            expected[position] = (location, size)
    queue = recovered_queue(rows, ranges)
    queue.settle()
    assert queue.positions.tolist() == sorted(expected)
    assert queue.locations.tolist() == [expected[position][0] for position in sorted(expected)]
    assert queue.sizes.tolist() == [expected[position][1] for position in sorted(expected)]


@given(
    known=st.lists(st.integers(1, 40), max_size=30, unique=True),
    staged=st.lists(st.integers(1, 40), max_size=30, unique=True),
    wanted=st.sets(st.integers(1, 40)),
)
def test_what_a_sync_selects_comes_from_the_state_and_from_what_was_staged(
    known: list[int], staged: list[int], wanted: set[int]
) -> None:
    state = recovered_queue([(position, position, 1) for position in known], [])
    other = [position for position in staged if position not in known]
    beside = recovered_queue([(position, 100 + position, 1) for position in other], [])
    ranges = runs_of(array("Q", sorted(wanted))).ranges(0)
    made = RecoveredQueue()
    for queue in (state, beside):
        queue.settle()
        queue.keep(ranges)
        made.take(queue)
    expected = sorted(wanted & {*known, *staged})
    assert made.positions.tolist() == expected
    assert made.locations.tolist() == [p if p in known else 100 + p for p in expected]
    lives = SegmentLives()
    assert made.count_into(lives) == len(expected)
    assert lives.of(0).live_count == len(expected)


class Nothing(BatchListener):
    def batch(self, location: int, payload: bytes) -> None:
        raise AssertionError("the disk is new")


class Deaf(JournalListener):
    def durable(self, position: int, now: int) -> None: ...

    def failed(self, reason: str, now: int) -> None: ...


def journal_of(*batches: list[bytes]) -> MemoryDisk:
    """A journal with these batches of records."""
    disk = MemoryDisk()
    journal = Journal(disk, Deaf(), recover(disk, b"0123456789abcdef", Nothing()))
    for pieces in batches:
        journal.append(b"".join(pieces))
    return disk


def definition(command: AddVhost | DeclareQueue, number: int = 0) -> bytes:
    vhost = None if isinstance(command, AddVhost) else "/"
    pieces: list[bytes] = []
    records.append_text(pieces, records.DEFINITION, encode_change(Change(vhost, command, number)))
    return b"".join(pieces)


def written(body: bytes, number: int, position: int) -> bytes:
    sent = message(body)
    pieces: list[bytes] = []
    records.append_message(
        pieces,
        sent,
        sent.properties.encoded(),
        sent.address.octets(),
        [number],
        [QueueEntry(sent, position)],
        0,
    )
    return b"".join(pieces)


def dequeued(number: int, *positions: int) -> bytes:
    pieces: list[bytes] = []
    records.append_dequeued(pieces, number, 0, records.encode_ranges(list(positions)))
    return b"".join(pieces)


SLASH = definition(AddVhost("/"))
QUEUE = definition(DeclareQueue("q", durable=True), 5)


def test_messages_come_back_in_order_of_position() -> None:
    disk = journal_of(
        [SLASH, QUEUE, written(b"two", 5, 2)], [written(b"three", 5, 3), written(b"one", 5, 1)]
    )
    assert Broker(disk).drain("q") == [b"one", b"two", b"three"]


def test_what_left_stays_gone_wherever_it_is_said() -> None:
    disk = journal_of(
        [SLASH, QUEUE, dequeued(5, 2), written(b"one", 5, 1)],
        [written(b"two", 5, 2), written(b"three", 5, 3)],
        [dequeued(5, 3)],
    )
    assert Broker(disk).drain("q") == [b"one"]


def test_of_a_message_and_its_copy_the_copy_counts() -> None:
    disk = journal_of([SLASH, QUEUE, written(b"m", 5, 1)], [written(b"m", 5, 1)])
    broker = Broker(disk)
    queue = broker.vhost.queue("q")
    assert (queue.message_count, queue.ready_bytes) == (1, 1)
    audit(broker)
    assert broker.drain("q") == [b"m"]


def test_a_snapshot_replaces_what_was_defined_before() -> None:
    changes = [Change(None, AddVhost("/"), 0), Change("/", DeclareQueue("s", durable=True), 9)]
    pieces: list[bytes] = []
    records.append_text(pieces, records.SNAPSHOT, encode_snapshot(changes, 12))
    disk = journal_of([SLASH, QUEUE, written(b"m", 5, 1)], [*pieces, written(b"n", 9, 4)])
    broker = Broker(disk)
    assert set(broker.vhost.queues) == {"s"}
    assert broker.store.next_queue_number == 12
    assert broker.drain("s") == [b"n"]


def test_messages_of_a_queue_that_is_gone_are_forgotten() -> None:
    broker = Broker(journal_of([SLASH, QUEUE, written(b"m", 77, 1), written(b"n", 5, 1)]))
    audit(broker)
    assert broker.drain("q") == [b"n"]


def test_positions_go_on_behind_everything_that_was_ever_written() -> None:
    broker = Broker(journal_of([SLASH, QUEUE, written(b"m", 5, 8)], [dequeued(5, 11)]))
    broker.put("q", b"new")
    broker.tick()
    assert broker.restarted().drain("q") == [b"m", b"new"]
    assert [broker.get("q").position for _ in range(2)] == [8, 12]


def test_a_number_is_not_given_to_a_second_queue() -> None:
    broker = Broker(journal_of([SLASH, QUEUE]))
    assert broker.declare("r").number == 6


def test_everything_that_was_there_is_flagged_as_redelivered_and_nothing_new() -> None:
    broker = Broker(limits=ROOMY)
    broker.declare("q")
    broker.put("q", b"old")
    broker.tick()
    restarted = broker.restarted()
    restarted.put("q", b"new")
    old, new = restarted.get("q"), restarted.get("q")
    assert (old.is_redelivered, new.is_redelivered) == (True, False)
    assert (old.message.origin, new.message.origin) == (NOBODY, 7)


def test_what_was_out_with_consumers_is_ready_again_in_its_place() -> None:
    broker = Broker(limits=ROOMY)
    broker.declare("q")
    broker.put("q", b"1", b"2", b"3")
    broker.tick()
    broker.get("q")
    broker.take("q")
    broker.tick()
    assert broker.restarted().drain("q") == [b"1", b"3"]


def test_a_new_store_has_the_defaults_and_an_old_one_does_not_get_them_again() -> None:
    broker = Broker(limits=ROOMY)
    assert broker.state.users.find("guest") is not None
    broker.state.apply(AddVhost("v"), 0)
    broker.state.apply(DeleteVhost("/"), 0)
    broker.tick()
    restarted = broker.restarted()
    assert set(restarted.state.vhosts) == {"v"}


def dead_lettering(target: str, **more: object) -> dict[str, object]:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target, **more}


@pytest.mark.parametrize("names", [("a", "z"), ("z", "a")], ids=["before", "behind"])
def test_what_died_meanwhile_goes_to_a_queue_that_is_restored_before_or_behind(
    names: tuple[str, str],
) -> None:
    dying, dead = names
    broker = Broker(limits=ROOMY)
    for name in sorted(names):
        arguments: dict[str, object] = {}
        if name == dying:
            arguments = dead_lettering(dead, **{"x-message-ttl": 1000})
        broker.declare(name, arguments=arguments)
    broker.put(dead, b"first")
    broker.put(dying, b"dies")
    broker.tick()
    restarted = broker.restarted(milliseconds=5000)
    assert restarted.vhost.queue(dying).message_count == 0
    assert restarted.vhost.queue(dead).message_count == 2
    restarted.tick()
    audit(restarted)
    again = restarted.restarted()
    assert again.drain(dead) == [b"first", b"dies"]


def test_a_length_limit_holds_after_a_restart_and_its_excess_is_dead_lettered() -> None:
    broker = Broker(limits=ROOMY)
    broker.declare("a", arguments=dead_lettering("b", **{"x-max-length": 2}))
    broker.declare("b")
    broker.put("a", b"1", b"2")
    broker.tick()
    broker.get("a")  # out, so there is room for one more
    broker.put("a", b"3")
    broker.tick()
    restarted = broker.restarted()
    assert restarted.vhost.queue("a").message_count == 2
    assert restarted.drain("b") == [b"1"]
    assert restarted.drain("a") == [b"2", b"3"]


def test_a_durable_priority_queue_comes_back_with_its_priorities() -> None:
    broker = Broker(limits=SMALL)
    queue = broker.declare("q", arguments={"x-max-priority": 5})
    for priority in (1, 5, 3, 5):
        queue.enqueue(message(b"p%d" % priority, priority=priority), 0)
    broker.declare("plain")
    broker.put_everywhere(["q", "plain"], b"both")
    broker.tick()
    restarted = broker.restarted()
    entry = restarted.get("q")
    assert (entry.message.body, entry.is_redelivered) == (b"p5", True)
    restarted.acknowledge(entry)
    assert restarted.drain("q") == [b"p5", b"p3", b"p1", b"both"]
    assert restarted.drain("plain") == [b"both"]


def test_an_exchange_that_a_transient_queue_kept_alive_is_there_again() -> None:
    """Auto-delete counts bindings that are not written down."""
    broker = Broker(limits=ROOMY)
    broker.apply(DeclareExchange("e", "fanout", durable=True, auto_delete=True))
    for name, durable in ("one", True), ("two", True), ("t", False), ("three", True):
        broker.declare(name, durable=durable)
    for name in "one", "two", "t":
        broker.apply(BindQueue(name, "e"))
    broker.apply(UnbindQueue("one", "e"))
    broker.apply(DeleteQueue("two"))
    assert "e" in broker.vhost.exchanges
    broker.apply(BindQueue("three", "e"))
    broker.tick()
    restarted = broker.restarted()
    assert "e" in restarted.vhost.exchanges
    assert [found.destination_name for found in restarted.vhost.bindings.listed()] == ["three"]
    restarted.apply(UnbindQueue("three", "e"))
    assert "e" not in restarted.vhost.exchanges
    restarted.tick()
    assert "e" not in restarted.restarted().vhost.exchanges


def test_a_virtual_host_that_was_deleted_stays_deleted() -> None:
    broker = Broker(limits=ROOMY)
    broker.state.apply(AddVhost("v"), 0)
    broker.state.vhost("v").apply(DeclareQueue("q", durable=True), 0)
    broker.state.vhost("v").queue("q").enqueue(message(b"m"), 0)
    broker.tick()
    assert broker.restarted().state.vhost("v").queue("q").message_count == 1
    broker.state.apply(DeleteVhost("v"), 0)
    broker.tick()
    assert "v" not in broker.restarted().state.vhosts
    broker.state.apply(AddVhost("v"), 0)
    broker.tick()
    assert not broker.restarted().state.vhost("v").queues


def test_times_to_live_go_on_while_the_broker_is_down() -> None:
    broker = Broker(limits=SMALL)
    queue = broker.declare("q")
    for number in range(20):
        queue.enqueue(message(b"%d" % number, expiration=str(1000 + 100 * number)), broker.now)
    broker.tick()
    restarted = broker.restarted(milliseconds=1950)
    assert restarted.vhost.queue("q").message_count == 10
    restarted.tick()
    audit(restarted)
    assert restarted.drain("q") == [b"%d" % number for number in range(10, 20)]


def test_a_stored_property_that_is_not_utf_8_comes_back_and_is_dead_lettered() -> None:
    # Earlier versions let such messages in.
    broker = Broker()
    broker.declare("graves")
    broker.declare(
        "q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}
    )
    header = encode_header(1, BasicProperties(content_type="\udca1", delivery_mode=2))
    sent = Message(Address("", "q", b""), read_stored_properties(header), b"x", 7)
    assert broker.vhost.queue("q").enqueue(sent, broker.now)
    broker.rest()
    broker = broker.restarted()
    entry = broker.get("q")
    assert entry.message.properties.encoded() == header
    broker.settle(entry).reject(entry, broker.now)
    broker.rest()
    broker = broker.restarted()
    dead = broker.get("graves").message
    assert decode_properties(dead.properties.encoded()).content_type == "\udca1"
