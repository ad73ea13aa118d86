"""A primary and its backups over real stores: after all that happens, they hold the same."""

from random import Random

import pytest

from penstock.broker.topology import DeclareQueue, DeleteQueue
from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha.id_ranges import count_of_ids, ranges_of
from penstock.ha.stored_replica import StoredReplica
from tests.ha.replica_doubles import Member, audit
from tests.ha.stored_members import Follower, Root

NAMES = ["a", "b", "c"]


def busy(root: Root, dice: Random) -> None:
    """Some of what clients do in a tick."""
    member = root.member
    for _ in range(dice.randint(0, 4)):
        name = dice.choice(NAMES)
        queue = member.vhost.queues.get(name)
        if queue is None:
            member.apply(DeclareQueue(name, durable=True))
        elif dice.random() < 0.02:
            member.apply(DeleteQueue(name))
        elif dice.random() < 0.6:
            member.put(name, *[b"%d" % dice.randrange(1000) for _ in range(dice.randint(1, 9))])
        else:
            # Some may wait for their commit.
            member.take(name, len(queue.browse(dice.randint(1, 8))))


def test_a_backup_syncs_follows_and_acknowledges() -> None:
    root = Root(Member(), 1, ["b"])
    dice = Random(1)
    for _ in range(30):
        busy(root, dice)
        root.tick()
    assert root.heard.k == -1, "nothing is committed without the backup"
    follower = Follower("b", Member(), root)
    follower.catch_up()
    assert follower.backup.is_synced
    assert follower.member.digest() == root.member.digest()
    assert root.heard.k == root.primary.last_k
    for _ in range(20):
        busy(root, dice)
        root.tick()
        follower.pump()
        assert follower.member.digest() == root.member.digest()
    follower.catch_up()
    assert root.heard.k == root.primary.last_k
    audit(follower.member)


@pytest.mark.parametrize("seed", range(8))
def test_a_sync_that_is_interrupted_goes_on_where_it_was(seed: int) -> None:
    """With live operations in between, links that break, and kills."""
    dice = Random(seed)
    root = Root(Member(), 1, [])
    for _ in range(30):
        busy(root, dice)
        root.tick()
    member = Member()
    follower = Follower("b", member, root)
    for _ in range(60):
        busy(root, dice)
        root.tick()
        follower.pump(dice.randint(0, 5))
        if dice.random() < 0.3:
            follower.flushed()
        if dice.random() < 0.1:
            for _ in range(20):
                member.tick()
                member.flushed()
        if dice.random() < 0.1:
            if dice.random() < 0.5:
                member = member.restarted()
            follower.backup.end()
            root.primary.line_lost("b")
            follower = Follower("b", member, root)
        audit(member)
    follower.catch_up()
    assert member.digest() == root.member.digest()
    assert member.replica.durable_syn() == root.member.replica.syn()
    audit(member)
    assert member.restarted().digest() == root.member.digest()


def test_roots_follow_one_another_and_lose_nothing_that_was_committed() -> None:
    dice = Random(7)
    members = [Member(), Member(), Member()]
    index = 0
    for epoch in range(1, 8):
        root = Root(members[index], epoch, [])
        followers = [
            Follower(str(other), members[other], root) for other in range(3) if other != index
        ]
        for _ in range(15):
            busy(root, dice)
            root.tick()
            for follower in followers:
                follower.pump(dice.randint(0, 20))
                follower.flushed()
        for follower in followers:
            follower.catch_up()
            assert follower.member.digest() == root.member.digest()
        # Some operations that nobody else gets.
        busy(root, dice)
        root.tick()
        for follower in followers:
            follower.backup.end()
        if dice.random() < 0.5:
            members[index] = members[index].restarted()
        else:
            members[index].demote()
        index = dice.randrange(3)


def test_what_an_operation_changes_is_known_before_it_is_applied() -> None:
    root = Member()
    root.promote(1)
    root.declare("q")
    root.put("q", b"1", b"2", b"3")
    root.tick()
    state = StoredReplica(root.replica, root.now)
    parts = state.parts(root.stream.operations[0])
    ((number, ids),) = state.ids().items()
    assert parts.enqueued == [(number, ids.first(), 3)]
    assert (parts.dequeued, parts.gone) == ([], [])
    assert b'"DeclareQueue"' in b"".join(parts.changes)
    root.take("q")
    root.tick()
    parts = state.parts(root.stream.operations[1])
    assert parts.dequeued == [(number, ids.first(), 1)]
    root.apply(DeleteQueue("q"))
    root.tick()
    assert state.parts(root.stream.operations[2]).gone == [number]


def test_what_a_peer_sends_and_cannot_be_read_is_refused_as_its_message() -> None:
    root = Member()
    root.promote(1)
    root.declare("q")
    root.put("q", b"1")
    root.tick()
    operation = root.stream.operations[0]
    state = StoredReplica(Member().replica, 0)
    with pytest.raises(BadPeerMessage, match="does not follow"):
        state.apply(operation)
    for change in (state.apply, state.parts, state.stage_operation):
        with pytest.raises(BadPeerMessage):
            change(operation[:-1])
    with pytest.raises(BadPeerMessage):
        state.stage_piece(operation, {})
    with pytest.raises(BadPeerMessage):
        state.finish(1, 1, {5: ranges_of([(1, 2)])}, b"{}", [])
    with pytest.raises(BadPeerMessage):
        state.finish(1, 1, {}, b'{"changes": 5}', [])
    assert state.syn() == (0, 0)
    assert count_of_ids(state.held()) == 0


def test_held_ids_are_those_of_the_state_and_those_that_are_staged() -> None:
    root = Member()
    root.promote(1)
    root.declare("q")
    root.put("q", b"1", b"2")
    root.tick()
    at_root = StoredReplica(root.replica, root.now)
    state = StoredReplica(Member().replica, 0)
    ((number, ids),) = at_root.ids().items()
    octets, _ = at_root.read(number, ids, 1)
    assert state.stage_piece(octets, at_root.ids()) == {number: ranges_of([(ids.first(), 1)])}
    assert state.held() == {number: ranges_of([(ids.first(), 1)])}
    assert state.ids() == {}
    assert state.syn() == (0, 0)
