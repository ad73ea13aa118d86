"""A long queue of a member: read for a backup, staged there, and copied by reclaiming."""

import random
from dataclasses import replace

from penstock.broker.store import records
from penstock.ha.sync_staging import STAGED_UNFLUSHED_BYTES
from tests.broker.store.doubles import SMALL, message
from tests.ha.replica_doubles import Member, Wanted, audit, joined, pair, wanted_of


def test_what_is_staged_is_flushed_only_once_it_is_much() -> None:
    root, backup = pair()
    root.put("q", b"little")
    body = b"x" * (STAGED_UNFLUSHED_BYTES // 4)
    root.tick()
    for _ in range(4):
        root.put("q", body)
        root.tick()
    journal = backup.journal
    backup.flushed()
    durable = journal.durable_position
    ids = sorted(wanted_of(root))
    for count, (number, position) in enumerate(ids):
        octets, _ = root.replica.read(number, [(position, 1)], 1)
        assert backup.replica.staging.stage_records(octets, Wanted(set(ids)))
        backup.flushed()
        is_much = count == len(ids) - 1
        assert (journal.durable_position > durable) is is_much
    assert journal.durable_position == journal.position


def test_what_is_published_and_consumed_during_a_sync_does_not_stay_staged() -> None:
    """However long the SYNC takes; in memory, in the books, and after a start in its middle."""
    root, backup = pair()
    root.put("q", b"1", b"2")
    root.tick()
    stream = root.stream.operations
    seen = len(stream)
    for number in range(50):
        root.put("q", b"passing %d" % number, b"later %d" % number)
        root.tick()
        root.take("q", 2)
        root.tick()
        for operation in stream[seen:]:
            backup.replica.staging.stage_operation(operation)
        seen = len(stream)
        assert sum(ready.count for ready in backup.store.staged.values()) <= 4
    audit(backup)
    backup.flushed()
    again = backup.restarted()
    audit(again)
    for member in (backup, again):
        joined(member, root)
        member.flushed()
        assert member.digest() == root.digest()
        audit(member)
    restarted = backup.restarted()
    assert restarted.digest() == root.digest()
    audit(restarted)


def test_what_is_dequeued_stays_staged_if_a_part_of_it_is_in_the_state() -> None:
    root, backup = pair()
    root.put("q", b"1")
    root.tick()
    backup.follow(root)
    seen = len(root.stream.operations)
    root.put("q", b"2")
    root.tick()
    root.take("q", 2)
    root.tick()
    for operation in root.stream.operations[seen:]:
        backup.replica.staging.stage_operation(operation)
    assert [ready.count for ready in backup.store.staged.values()] == [1]
    audit(backup)
    joined(backup, root)
    assert backup.digest() == root.digest()
    audit(backup)


def test_a_read_of_a_long_queue_brings_every_message_that_is_left_once_and_in_order() -> None:
    """Rows of them are read together; what was taken out, is in memory, or is for two queues is not in
    one.
    """
    dice = random.Random(5)
    root = Member()
    root.promote(1)
    root.declare("q")
    root.declare("r")
    for number in range(60):
        root.put("q", *[b"%03d %02d" % (number, index) for index in range(dice.randrange(30))])
        if number % 7 == 0:
            sent = message(b"both %d" % number)
            for name in ("q", "r"):
                root.vhost.queue(name).enqueue(sent, root.now)
        root.tick()
    for _ in range(40):
        root.take("q")
    root.tick()
    number = root.vhost.queue("q").number
    ready = root.vhost.queue("q").journal_list()
    for position in dice.sample(ready.positions(), 25):
        ready.take(position)
    expected = [(number, position) for position in ready.positions()]
    assert len(expected) > 600
    for octets_max in (1, 900, 1 << 20):
        wanted = root.replica.ids()[number]
        found: list[tuple[int, int]] = []
        following = wanted[0][0]
        while following:
            left = [
                (max(first, following), first + count - max(first, following))
                for first, count in wanted
                if first + count > following
            ]
            octets, following = root.replica.read(number, left, octets_max)
            for at in record_places(octets):
                record = records.MessageRecord(octets, at)
                assert record.pair_count in (1, 2)
                found.append((record.queue_number(0), record.position(0)))
        assert found == expected


def record_places(octets: bytes) -> list[int]:
    found: list[int] = []
    at = 0
    while at < len(octets):
        found.append(at)
        at += records.size_at(octets, at)
    return found


def test_a_message_that_waits_for_its_commit_pins_no_segment() -> None:
    """Commits may take long: until a server that does not answer has left the in-sync set."""
    root = Member(limits=replace(SMALL, segment_bytes_max=20_000))
    root.promote(1)
    root.declare("q")
    for _ in range(40):
        root.put("q", b"x" * 150)
        root.tick()
        root.take("q")
    root.tick()
    root.commits = False
    oldest = root.journal.active_segment()
    root.put("q", *[b"waits %d" % number for number in range(6)])
    root.tick()
    root.put("q", b"x" * 20_000)
    root.tick()
    assert root.journal.active_segment() > oldest
    root.rest()
    audit(root)
    assert oldest not in root.journal.segments()
    root.commits = True
    again = root.restarted()
    again.promote(2)
    assert [entry[:5] for entry in again.drain("q")] == [b"waits"] * 6 + [b"xxxxx"]
    assert [entry[:5] for entry in root.drain("q")] == [b"waits"] * 6 + [b"xxxxx"]
