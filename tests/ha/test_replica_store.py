"""What a backup does, and what it leaves to its root."""

import pytest

from penstock.broker.queues.queue import Queue
from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.store import records
from penstock.broker.store.definition_records import Change, encode_change
from penstock.broker.topology import (
    AddVhost,
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    DeleteVhost,
    PurgeQueue,
    SetPolicy,
)
from penstock.ha.replica_operation import BadOperation
from penstock.ha.replica_reading import RecordReader
from penstock.ha.replica_store import UNFLUSHED_MAX
from tests.broker.store.doubles import message
from tests.ha.replica_doubles import (
    Member,
    Wanted,
    audit,
    finish,
    joined,
    pair,
    sync,
    ticked,
    wanted_of,
)


def test_a_backup_follows_its_root_and_has_no_message_in_memory() -> None:
    root, backup = pair()
    root.put("q", b"one", b"two", b"three")
    ticked(root, backup)
    root.take("q")
    root.put("q", b"four")
    ticked(root, backup)
    queue = backup.vhost.queue("q")
    assert isinstance(queue.journal_list(), ReplicaList)
    assert (queue.message_count, queue.ready_bytes) == (3, len(b"twothreefour"))
    assert queue.held_bytes(400) == 0
    assert backup.replica.syn() == root.replica.syn()


def test_a_message_of_several_queues_leaves_each_of_them() -> None:
    root, backup = pair()
    root.declare("r")
    sent = message(b"both")
    for name in ("q", "r"):
        root.vhost.queue(name).enqueue(sent, root.now)
    ticked(root, backup)
    root.take("q")
    ticked(root, backup)
    assert backup.vhost.queue("q").message_count == 0
    assert backup.vhost.queue("r").message_count == 1


def test_a_root_finds_what_is_out_with_consumers() -> None:
    root, backup = pair()
    root.put("q", b"one", b"two")
    root.tick()
    root.get("q")
    root.tick()
    late = Member()
    joined(late, root)
    assert late.digest() == root.digest()
    assert late.vhost.queue("q").message_count == 2
    assert late.vhost.queue("q").ready_bytes == len(b"onetwo")
    backup.follow(root)
    assert backup.digest() == root.digest()


def test_what_was_out_when_its_queue_was_deleted_is_gone() -> None:
    root, backup = pair()
    root.put("q", b"one", b"two")
    ticked(root, backup)
    entry = root.get("q")
    root.apply(DeleteQueue("q"))
    ticked(root, backup)
    root.acknowledge(entry)
    ticked(root, backup)
    assert not backup.vhost.queues


def test_a_deleted_virtual_host_takes_its_messages_with_it() -> None:
    root, backup = pair()
    root.state.apply(AddVhost("v"), root.now)
    host = root.state.vhost("v")
    host.apply(DeclareQueue("q", durable=True), root.now)
    host.queue("q").enqueue(message(b"x"), root.now)
    ticked(root, backup)
    assert backup.state.vhost("v").queue("q").message_count == 1
    root.state.apply(DeleteVhost("v"), root.now)
    ticked(root, backup)
    assert list(backup.state.vhosts) == ["/"]


# What a backup leaves to its root.


def test_a_backup_decides_nothing() -> None:
    root, backup = pair()
    root.declare("dying", x_message_ttl=10)
    root.declare("unused", x_expires=10)
    root.put("q", b"1", b"2", b"3")
    root.put("dying", b"4")
    root.apply(DeclareExchange("x", "fanout", durable=True, auto_delete=True))
    root.apply(BindQueue("q", "x", ""))
    ticked(root, backup)
    root.apply(SetPolicy("short", "^q$", {"max-length": 1}, "queues", 0))
    root.apply(DeleteQueue("dying"))
    operations = len(root.stream.operations)
    before = backup.digest()
    backup.tick(100_000)
    assert backup.digest() == before
    assert backup.state.timers.next_due() < 0
    # The definitions alone, without what the root did because of them.
    change = Change("/", SetPolicy("short", "^q$", {"max-length": 1}, "queues", 0), 0)
    pieces: list[bytes] = []
    records.append_text(pieces, records.DEFINITION, encode_change(change))
    head = records.operation_record(1, operations + 1, sum(map(len, pieces)))
    backup.replica.apply(b"".join([head, *pieces]), backup.now)
    assert backup.vhost.queue("q").message_count == 3


def test_times_begin_when_a_backup_becomes_the_root() -> None:
    root, backup = pair()
    root.declare("dying", x_message_ttl=10)
    root.declare("unused", x_expires=10)
    root.put("dying", b"4")
    ticked(root, backup)
    backup.promote(2)
    backup.tick()
    backup.tick(20)
    backup.tick()
    assert "unused" not in backup.vhost.queues
    assert backup.vhost.queue("dying").message_count == 0


# SYNC.


def test_what_an_unfinished_sync_has_staged_is_kept_and_not_part_of_the_state() -> None:
    root, backup = pair()
    ticked(root, backup)
    before = backup.digest()
    root.put("q", *[b"%d" % number for number in range(20)])
    root.tick()
    assert not sync(backup, root, 7)
    assert backup.digest() == before
    again = backup.restarted()
    assert again.digest() == before
    assert again.replica.staged_ids() == backup.replica.staged_ids()
    audit(again)
    for _ in range(40):
        again.tick()
        again.flushed()
    audit(again)
    assert again.replica.staged_ids() == backup.replica.staged_ids()
    joined(again, root)
    assert again.digest() == root.digest()
    assert not again.replica.staged_ids()
    audit(again)


def test_a_sync_replaces_what_only_the_backup_has() -> None:
    root, backup = pair()
    root.put("q", b"1", b"22", b"333")
    ticked(root, backup)
    backup.promote(2)
    backup.put("q", b"surplus")
    backup.take("q")
    backup.declare("surplus")
    backup.tick()
    backup.demote()
    root.demote()
    root.promote(3)
    root.tick()
    joined(backup, root)
    assert backup.digest() == root.digest()
    assert backup.vhost.queue("q").ready_bytes == len(b"122333")
    audit(backup)
    again = backup.restarted()
    assert again.digest() == root.digest(), "what it had dequeued is there again"
    audit(again)


def test_a_sync_that_lacks_messages_cannot_be_done() -> None:
    root, backup = pair()
    root.put("q", b"1", b"2")
    root.tick()
    before = backup.digest(), backup.journal.position
    with pytest.raises(BadOperation, match="2 messages of queue"):
        finish(backup, root)
    assert (backup.digest(), backup.journal.position) == before


def test_a_new_root_discards_what_was_staged() -> None:
    root, backup = pair()
    root.put("q", b"1", b"2")
    root.tick()
    sync(backup, root, 1)
    backup.promote(2)
    backup.tick()
    audit(backup)
    again = backup.restarted()
    assert not again.replica.staged_ids()
    audit(again)


def test_a_piece_that_is_not_missing_is_not_taken() -> None:
    root, backup = pair()
    root.put("q", b"1")
    root.tick()
    ((number, position),) = wanted_of(root)
    octets, _ = root.replica.read(number, [(position, 1)], 1)
    position_before = backup.journal.position
    assert backup.replica.staging.stage_records(octets, Wanted(set())) == []
    assert backup.journal.position == position_before
    wanted = Wanted({(number, position)})
    assert backup.replica.staging.stage_records(octets, wanted) == [(number, position, 1)]
    position_before = backup.journal.position
    # It came once more: it is known to be there, and not written twice.
    assert backup.replica.staging.stage_records(octets, wanted) == [(number, position, 1)]
    assert backup.journal.position == position_before


@pytest.mark.parametrize("unwanted", [(), (0,), (20,), (39,), (3, 4, 30)])
@pytest.mark.parametrize("held", [(), (0,), (20,), (7, 39)])
def test_of_a_run_of_messages_what_is_wanted_is_staged_once(
    unwanted: tuple[int, ...], held: tuple[int, ...]
) -> None:
    root, backup = pair()
    for count in range(40):
        root.put("q", b"%02d" % count)
    root.tick()
    ids = sorted(wanted_of(root))
    number, first = ids[0]
    reading = root.replica
    for place in held:
        one, _ = reading.read(number, [(first + place, 1)], 1)
        backup.replica.staging.stage_records(one, Wanted(set(ids)))
    octets, rest = reading.read(number, [(first, 40)], 1 << 20)
    assert rest == 0
    wanted = {each for place, each in enumerate(ids) if place not in unwanted}
    taken = backup.replica.staging.stage_records(octets, Wanted(wanted))
    found = {(n, position) for n, begin, count in taken for position in range(begin, begin + count)}
    assert found == wanted
    expected = sorted(wanted | {ids[place] for place in held})
    for member in (backup, backup.restarted()):
        staged = member.replica.staged_ids()
        assert expand(staged) == expected
        audit(member)


def expand(sets: dict[int, list[tuple[int, int]]]) -> list[tuple[int, int]]:
    return sorted(
        (number, position)
        for number, ranges in sets.items()
        for first, count in ranges
        for position in range(first, first + count)
    )


# Reading.


def test_a_read_is_bounded_and_says_where_to_go_on() -> None:
    root, _ = pair()
    root.put("q", *[b"%d" % number * 50 for number in range(10)])
    root.tick()
    held = root.replica.held_messages()
    ((number, ranges),) = held.ids().items()
    octets, rest = held.read(number, ranges, 1, RecordReader(root.journal))
    assert rest == ranges[0][0] + 1
    assert octets.count(b"0" * 50) == 1
    whole, rest = held.read(number, ranges, 1 << 20, RecordReader(root.journal))
    assert rest == 0
    assert whole.startswith(octets)


def test_a_read_leaves_out_what_is_gone_and_queues_that_do_not_hold_it_any_more() -> None:
    root, _ = pair()
    root.declare("r")
    sent = message(b"both")
    for name in ("q", "r"):
        root.vhost.queue(name).enqueue(sent, root.now)
    root.tick()
    ids = root.replica.ids()
    root.take("q")
    root.tick()
    held = root.replica.held_messages()
    first, second = sorted(ids)
    assert held.read(first, ids[first], 1000, RecordReader(root.journal)) == (b"", 0)
    octets, _ = held.read(second, ids[second], 1000, RecordReader(root.journal))
    record = records.MessageRecord(octets, 0)
    assert [record.queue_number(index) for index in range(record.pair_count)] == [second]


# Reclaiming, durability, bad input.


def test_a_backup_reclaims_on_its_own() -> None:
    root, backup = pair()
    root.put("q", b"stays")
    for number in range(60):
        root.put("q", b"%d" % number * 40)
        ticked(root, backup)
        entries = [root.get("q"), root.get("q")]
        root.acknowledge(entries[1])
        root.vhost.queue("q").requeue([entries[0]], root.now)
        root.out.clear()
    ticked(root, backup)
    before = backup.journal.segments()
    backup.rest()
    assert len(backup.journal.segments()) <= 3 < len(before)
    assert backup.digest() == root.digest()
    again = backup.restarted()
    assert again.digest() == root.digest()
    assert again.replica.syn() == root.replica.syn()


def test_an_operation_may_be_acknowledged_when_it_is_durable() -> None:
    root, backup = pair()
    backup.flushed()
    before = backup.replica.durable_syn()
    root.put("q", b"1")
    root.tick()
    backup.follow(root)
    assert backup.replica.durable_syn() == before
    backup.flushed()
    assert backup.replica.durable_syn() == backup.replica.syn() == (1, before[1] + 1)


def test_what_waits_for_a_flush_is_bounded() -> None:
    root, backup = pair()
    for _ in range(3):
        root.put("q", b"1")
        root.tick()
    backup.replica._unflushed = [(1 << 60, (1, 0))] * UNFLUSHED_MAX
    backup.follow(root)
    assert len(backup.replica._unflushed) == UNFLUSHED_MAX
    assert backup.replica._unflushed[-1][1] == backup.replica.syn()


def test_operations_that_are_not_valid_change_nothing() -> None:
    root, backup = pair()
    root.put("q", b"one")
    root.apply(PurgeQueue("q"))
    root.put("q", b"two")
    root.apply(DeclareExchange("x", "fanout", durable=True))
    root.tick()
    entry = root.get("q")
    root.acknowledge(entry)
    root.tick()
    first, second = root.stream.operations[-2:]
    before = backup.digest(), backup.journal.position
    body = first[records.OPERATION_SIZE :]
    definition = first.replace(b'"DeclareExchange"', b'"DeclareExchang"}')
    unknown = records.operation_record(1, 3, 5) + bytes([99, 0, 0, 0, 0])
    snapshot = records.operation_record(1, 3, 5) + bytes([records.SNAPSHOT, 0, 0, 0, 0])
    bad = [
        b"",
        body,
        second,
        first[:-1],
        first + b"\0",
        records.operation_record(2, 3, len(body)) + body,
        records.operation_record(1, 3, len(body) - 1) + body[:-1],
        definition,
        unknown,
        snapshot,
    ]
    for octets in bad:
        with pytest.raises(BadOperation):
            backup.replica.apply(octets, backup.now)
    assert (backup.digest(), backup.journal.position) == before
    with pytest.raises(BadOperation):
        backup.replica.staging.stage_operation(first[:-1])
    with pytest.raises(BadOperation):
        backup.replica.staging.stage_records(second, Wanted(set()))
    backup.follow(root)
    assert backup.digest() == root.digest()


def test_queues_of_a_backup_deliver_nothing() -> None:
    root, backup = pair()
    root.put("q", b"one")
    ticked(root, backup)
    queue = backup.vhost.queue("q")
    assert isinstance(queue, Queue)
    assert queue.browse(10) == []
    queue.dispatch(backup.now)
    assert queue.message_count == 1
