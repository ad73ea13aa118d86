"""Streams of members: appends travel in operations, files get what is committed, on all servers alike."""

from random import Random

import pytest

from penstock.broker.message import Message
from penstock.broker.sent import ID_HEADER, SEQUENCE_HEADER
from penstock.broker.store import records
from penstock.broker.streams.opening import find_stream
from penstock.broker.streams.stream import Stream
from penstock.broker.topology import DeclareQueue, DeleteQueue
from penstock.formats.replication_id import epoch_of, offset_of_id
from penstock.formats.stream_append import APPEND_HEAD_SIZE
from penstock.ha.replica_operation import BadOperation
from tests.broker.store.doubles import message
from tests.ha.replica_doubles import Member, audit, joined, sync
from tests.ha.replica_doubles import finish as finished


def numbered(publisher: str, sequence: int) -> Message:
    headers: dict[str, object] = {ID_HEADER: publisher, SEQUENCE_HEADER: sequence}
    return message(b"of %s" % publisher.encode(), headers=headers)


def stream_of(member: Member, name: str = "log") -> Stream:
    stream = find_stream(member.vhost.queues, name)
    assert stream is not None
    return stream


def declare(root: Member, **limits: int) -> None:
    """With a segment's octets and the octets of all of them."""
    arguments: dict[str, object] = {"x-queue-type": "stream"}
    for name, octets in limits.items():
        arguments[
            {"segment": "x-stream-max-segment-size-bytes"}.get(name, "x-max-length-bytes")
        ] = octets
    root.apply(DeclareQueue("log", durable=True, arguments=arguments))


def pair(**limits: int) -> tuple[Member, Member]:
    """A root with a stream, and a backup that follows it."""
    root = Member()
    root.promote(1)
    declare(root, **limits)
    root.tick()
    backup = Member()
    joined(backup, root)
    return root, backup


def bodies(member: Member, name: str = "log") -> list[bytes]:
    """What readers may see."""
    files = stream_of(member, name).files
    found: list[bytes] = []
    offset = files.log.first_offset
    while offset < files.readable_offset():
        read = files.read(offset)
        found.extend([message.body for message in read])
        offset += len(read)
    return found


def logs(member: Member) -> dict[str, bytes]:
    return {
        name: bytes(file.content)
        for name, file in member.disk.files.items()
        if name.startswith("streams/") and name.endswith(".log")
    }


def settle(root: Member, *backups: Member) -> None:
    """Everything is durable and committed everywhere."""
    root.tick()
    root.flushed()
    for backup in backups:
        backup.follow(root)
        backup.flushed()
    for server in (root, *backups):
        server.commit_streams()
        server.flush_streams()
        # What a flush may have used is removed now.
        server.commit_streams()


def check_equal(root: Member, *backups: Member) -> None:
    assert root.streams.busy.memory.octets == 0
    for backup in backups:
        assert backup.streams.busy.memory.octets == 0
        assert backup.digest() == root.digest()
        assert logs(backup) == logs(root)
        audit(backup)
    audit(root)


def test_an_append_reaches_the_files_of_all_when_it_is_committed() -> None:
    root, backup = pair()
    root.put("log", b"a", b"b")
    root.tick()
    backup.follow(root)
    assert bodies(root) == bodies(backup) == []
    assert stream_of(backup).end_offset == 2
    root.flushed()
    backup.flushed()
    backup.commit_streams(k=1)
    assert bodies(backup) == [], "the append is operation 2"
    settle(root, backup)
    assert bodies(root) == bodies(backup) == [b"a", b"b"]
    check_equal(root, backup)


def test_files_get_nothing_that_is_not_durable_in_the_own_journal() -> None:
    root, backup = pair()
    root.put("log", b"a")
    root.tick()
    backup.follow(root)
    backup.commit_streams()
    assert bodies(backup) == []


def test_segments_begin_where_the_root_began_them() -> None:
    root, backup = pair(segment=400)
    for number in range(40):
        root.put("log", b"%d" % number * 20)
        if number % 3 == 0:
            settle(root, backup)
        else:
            root.tick()
    settle(root, backup)
    assert len(logs(root)) > 5
    check_equal(root, backup)


def test_what_is_in_the_journal_alone_is_there_after_a_crash() -> None:
    root, backup = pair(segment=400)
    for number in range(20):
        root.put("log", b"%d" % number * 20)
        root.tick()
    backup.follow(root)
    backup.flushed()
    again = backup.restarted()
    assert again.digest() == backup.digest()
    assert bodies(again) == []
    again.commit_streams()
    assert len(bodies(again)) == 20
    settle(root, again)
    check_equal(root, again)


def test_what_the_files_have_lost_is_taken_from_the_journal() -> None:
    root, backup = pair()
    root.put("log", b"a", b"b", b"c")
    settle(root, backup)
    root.put("log", b"d", b"e", b"f")
    root.tick()
    root.flushed()
    root.commit_streams()
    for octets in (1, 40, 70, 200):
        torn = root.restarted()
        for name in [name for name in torn.disk.files if name.endswith((".log", ".idx"))]:
            if name.startswith("streams/"):
                content = torn.disk.files[name].content
                del content[max(len(content) - octets, 32) :]
        again = torn.restarted()
        assert again.digest() == root.digest()
        again.commit_streams()
        assert bodies(again) == [b"a", b"b", b"c", b"d", b"e", b"f"]
        again.flush_streams()
        audit(again)


def test_an_uncommitted_tail_of_a_former_root_is_replaced() -> None:
    root, backup = pair()
    root.put("log", b"a")
    settle(root, backup)
    root.put("log", b"lost", b"lost too")
    root.tick()
    root.flushed()
    assert bodies(root) == [b"a"]
    backup.promote(2)
    backup.put("log", b"b")
    settle(backup)
    again = root.restarted()
    root.demote()
    for former in (root, again):
        joined(former, backup)
        settle(backup, former)
        assert bodies(former) == [b"a", b"b"]
        check_equal(backup, former)
        twice = former.restarted()
        assert twice.digest() == backup.digest()
        audit(twice)


def test_a_tail_that_the_new_root_has_too_is_kept_and_not_sent_again() -> None:
    root, backup = pair()
    root.put("log", b"a", b"b")
    root.tick()
    backup.follow(root)
    backup.promote(2)
    backup.flushed()
    root.demote()
    missing = spread(backup) - spread(root)
    assert not missing
    finished(root, backup)
    settle(backup, root)
    assert bodies(root) == [b"a", b"b"]
    check_equal(backup, root)


def spread(member: Member) -> set[tuple[int, int]]:
    return {
        (epoch_of(first), offset_of_id(first) + place)
        for ranges in member.streams.ids().values()
        for first, count in ranges
        for place in range(count)
    }


def test_a_new_server_copies_all_segments_and_goes_on_after_an_interruption() -> None:
    root, _ = pair(segment=400)
    for number in range(30):
        root.put("log", b"%d" % number * 20)
        settle(root)
    root.put("log", b"not in files yet")
    root.tick()
    new = Member()
    assert not sync(new, root, records_max=10)
    new.flushed()
    again = new.restarted()
    assert sum(count for ranges in again.replica.staged_ids().values() for _, count in ranges) == 10
    joined(again, root)
    root.flushed()
    root.commit_streams()
    again.flushed()
    assert bodies(again) == []
    again.commit_streams()
    settle(root, again)
    check_equal(root, again)
    once_more = again.restarted()
    assert once_more.digest() == root.digest()
    audit(once_more)


def test_live_operations_are_part_of_a_sync() -> None:
    root, _ = pair(segment=400)
    for number in range(10):
        root.put("log", b"%d" % number * 20)
        settle(root)
    new = Member()
    k = root.replica.syn()[1]
    values = root.replica.values()
    sync(new, root)
    root.put("log", b"live", b"live too")
    root.tick()
    operation = root.stream.operations[-1]
    new.replica.staging.stage_operation(operation)
    assert root.replica.syn()[1] == k + 1
    target = sorted(root.replica.ids().items())
    new.replica.finish(1, k + 1, target, values, new.replica.parts(operation).texts, new.now)
    new.flushed()
    settle(root, new)
    check_equal(root, new)


def test_retention_is_an_operation_and_files_go_when_it_is_committed() -> None:
    root, backup = pair(segment=400, length=1500)
    for number in range(40):
        root.put("log", b"%d" % number * 20)
        settle(root, backup)
    assert stream_of(root).first_offset > 0
    assert stream_of(backup).first_offset == stream_of(root).first_offset
    check_equal(root, backup)
    again = backup.restarted()
    assert stream_of(again).first_offset == stream_of(root).first_offset
    assert again.digest() == root.digest()


def test_retention_that_was_not_committed_is_undone() -> None:
    root, backup = pair(segment=400)
    for number in range(20):
        root.put("log", b"%d" % number * 20)
        settle(root, backup)
    stream = stream_of(root)
    stream.files.limit(900, -1, 400)
    stream.files.retain(0)
    root.tick()
    root.flushed()
    assert stream.first_offset > 0
    again = root.restarted()
    assert stream_of(again).first_offset > 0
    backup.promote(2)
    backup.put("log", b"next")
    settle(backup)
    root.demote()
    for former in (root, again):
        joined(former, backup)
        settle(backup, former)
        assert stream_of(former).first_offset == 0
        check_equal(backup, former)


def test_a_backup_that_has_only_what_retention_removed_begins_anew() -> None:
    root, backup = pair(segment=400, length=1500)
    root.put("log", b"first")
    settle(root, backup)
    for number in range(60):
        root.put("log", b"%d" % number * 20)
        settle(root)
    joined(backup, root)
    backup.flushed()
    settle(root, backup)
    check_equal(root, backup)
    again = backup.restarted()
    assert again.digest() == root.digest()


def test_sequences_are_part_of_the_operation() -> None:
    root, backup = pair()
    stream = stream_of(root)
    stream.enqueue(numbered("p", 1), root.now)
    stream.enqueue(numbered("p", 2), root.now)
    root.tick()
    backup.follow(root)
    backup.flushed()
    for server in (backup, backup.restarted()):
        server.promote(2)
        stream = stream_of(server)
        stream.enqueue(numbered("p", 2), server.now)
        stream.enqueue(numbered("p", 3), server.now)
        assert stream.end_offset == 3


def test_sequences_of_a_tail_that_is_void_do_not_count() -> None:
    root, backup = pair()
    stream_of(root).enqueue(numbered("p", 1), root.now)
    settle(root, backup)
    stream_of(root).enqueue(numbered("p", 2), root.now)
    root.tick()
    root.demote()
    backup.promote(2)
    settle(backup)
    joined(root, backup)
    root.flushed()
    again = root.restarted()
    for server in (root, again):
        server.promote(3)
        stream_of(server).enqueue(numbered("p", 2), server.now)
        assert stream_of(server).end_offset == 2


def test_cursors_are_operations() -> None:
    root, backup = pair()
    root.put("log", b"a", b"b")
    settle(root, backup)
    stream_of(root).set_cursor("c", 1, root.now)
    stream_of(root).set_cursor("d", 2, root.now)
    root.tick()
    stream_of(root).delete_cursor("d")
    settle(root, backup)
    assert stream_of(backup).cursors() == [("c", 1, 1)]
    assert stream_of(backup.restarted()).cursors() == [("c", 1, 1)]
    check_equal(root, backup)


def test_a_deleted_stream_leaves_no_files() -> None:
    root, backup = pair()
    root.put("log", b"a")
    settle(root, backup)
    root.put("log", b"b")
    root.apply(DeleteQueue("log"))
    settle(root, backup)
    assert logs(root) == logs(backup) == {}
    audit(backup)
    declare(root)
    settle(root, backup)
    check_equal(root, backup)


def test_a_stream_that_the_root_has_deleted_is_gone_after_a_sync() -> None:
    root, backup = pair()
    root.put("log", b"a")
    settle(root, backup)
    root.apply(DeleteQueue("log"))
    settle(root)
    joined(backup, root)
    backup.flushed()
    backup.flush_streams()
    check_equal(root, backup)
    assert not logs(backup)


def test_the_journal_keeps_an_append_until_the_files_are_durable() -> None:
    root, backup = pair()
    for number in range(300):
        root.put("log", b"%d" % number * 30)
        root.tick()
        root.flushed()
        backup.follow(root)
        backup.flushed()
    first = backup.journal.segments()[0]
    backup.rest()
    assert backup.journal.segments()[0] == first
    root.commit_streams()
    backup.commit_streams()
    backup.rest()
    assert backup.journal.segments()[0] == first
    backup.flush_streams()
    backup.rest()
    assert backup.journal.segments()[0] > first
    again = backup.restarted()
    settle(root, again)
    check_equal(root, again)


def test_an_append_that_does_not_follow_is_refused() -> None:
    root, backup = pair()
    root.put("log", b"a")
    root.tick()
    root.put("log", b"b")
    root.tick()
    second = bytearray(root.stream.operations[-1])
    backup.follow(root, len(root.stream.operations) - 1)
    digest = backup.digest()
    # Its first id, the count of its messages, and the size of a header in its index.
    record = records.OPERATION_SIZE + records.HEAD_SIZE
    for place in (record + 15, record + 27, record + APPEND_HEAD_SIZE + 8):
        wrong = second[:]
        wrong[place] ^= 5
        with pytest.raises(BadOperation):
            backup.replica.apply(bytes(wrong), backup.now)
    assert backup.digest() == digest


@pytest.mark.parametrize("seed", range(12))
def test_any_history_leaves_equal_files(seed: int) -> None:
    """Roots change, servers crash and return; at the end all logs are the same octets."""
    dice = Random(seed)
    root, other = pair(segment=500)
    third = Member()
    joined(third, root)
    servers = [root, other, third]
    following = {1, 2}
    count = 0
    for epoch in range(2, 9):
        for _ in range(dice.randrange(2, 9)):
            for _ in range(dice.randrange(4)):
                count += 1
                sent = numbered("p", count) if dice.random() < 0.5 else message(b"%d" % count * 9)
                stream_of(root).enqueue(sent, root.now)
            if dice.random() < 0.2:
                stream_of(root).set_cursor("c", stream_of(root).files.readable_offset(), root.now)
            if dice.random() < 0.2:
                stream_of(root).files.limit(dice.choice([-1, 2000]), -1, 500)
                stream_of(root).files.retain(0)
            root.tick()
            for place in following:
                servers[place].follow(root)
            if dice.random() < 0.6:
                for server in servers:
                    server.flushed()
                known = min(servers[place].replica.syn()[1] for place in following)
                if root.replica.syn()[1] == known:
                    root.commit_streams()
                    for place in following:
                        servers[place].commit_streams(k=known)
                if dice.random() < 0.4:
                    dice.choice(servers).flush_streams()
            root.rest() if dice.random() < 0.1 else None
        # A server that has everything is elected; the former root returns with what it has.
        former = servers.index(root)
        root.demote()
        for place in range(3):
            servers[place].flushed()
            if dice.random() < 0.4:
                servers[place] = servers[place].restarted()
        elected = dice.choice(sorted(following))
        if dice.random() < 0.5:
            servers[elected].flushed()
        root = servers[elected]
        root.promote(epoch)
        root.tick()
        following = {0, 1, 2} - {elected}
        for place in sorted(following):
            if place == former and dice.random() < 0.3:
                servers[place] = Member()
            joined(servers[place], root)
            servers[place].flushed()
            audit(servers[place])
    backups = [servers[place] for place in sorted(following)]
    settle(root, *backups)
    check_equal(root, *backups)
