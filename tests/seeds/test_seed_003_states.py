"""Seed 003: guard, subscription and the states of a message. Other tests name its lines where seed 001 says
the same; the lines of this seed are given as 003:28.
"""

from __future__ import annotations

from penstock.ha import messages
from penstock.ha.message_states import STATES, ReplicationEvent, ReplicationState
from penstock.ha.queue_guard import waiting_ticks
from penstock.ha.remote_backup import RemoteBackup
from tests.ha.replica_doubles import Member
from tests.ha.stored_members import Follower, Root

NEW = ReplicationState.NEW
SENT = ReplicationState.SENT
DELAYED = ReplicationState.DELAYED
DELAYED_SENT = ReplicationState.DELAYED_SENT
SAFE = ReplicationState.SAFE


def a_root(*awaited: str) -> Root:
    member = Member()
    member.commits = False
    root = Root(member, 1, list(awaited))
    member.declare("q")
    return root


def backup_of(root: Root) -> RemoteBackup:
    (found,) = root.primary.backups()
    return found


def joining(root: Root) -> Follower:
    """Its JOIN has come, and is not answered."""
    follower = Follower("b", Member(), root)
    while follower.up.sent:
        kind, octets = follower.up.sent.pop(0)
        assert kind == messages.JOIN
        root.primary.joined("b", octets, follower.down, root.member.now)
    return follower


def test_a_remote_backup_has_what_is_known_of_each_queue() -> None:
    """003:25, 003:28: a container of what is known per queue; a guard, a subscription, or both."""
    root = a_root("b")
    root.member.put("q", b"one", b"two")
    follower = joining(root)
    root.tick()
    queue = root.member.vhost.queue("q")
    backup = backup_of(root)
    # It was answered with a SYNC; what it lacks is walked by a subscription, and its line is full.
    assert backup.is_syncing
    assert root.primary.guard_of(backup, queue.number, waiting_ticks(queue)).delayed_count() == 2
    follower.catch_up()
    assert backup.missing_count(queue.number) == 0
    assert root.primary.guard_of(backup, queue.number, waiting_ticks(queue)).delayed_count() == 0


def test_a_subscription_sends_messages_and_leaves_them_in_the_queue() -> None:
    """003:34: a browser: it takes nothing. Its messages are acknowledged together, when the backup has all
    of them on its disk.
    """
    root = a_root("b")
    root.member.put("q", *[b"%d" % number * 100 for number in range(20)])
    root.tick()
    follower = joining(root)
    seen: set[int] = set()
    for _ in range(200):
        root.tick()
        seen.add(backup_of(root).missing_total())
        follower.pump(1)
        follower.flushed()
    assert len(seen) > 2, "it walks in several pieces"
    assert root.member.vhost.queue("q").message_count == 20
    assert follower.member.replica.message_count() == 20


def test_acknowledgements_are_forwarded_to_the_guards() -> None:
    """003:35: one acknowledgement counts for the guards of all queues."""
    root = a_root("b")
    root.member.declare("p")
    follower = Follower("b", Member(), root)
    follower.catch_up()
    root.member.put("p", b"one")
    root.member.put("q", b"two")
    root.tick()
    numbers = {name: root.member.vhost.queue(name) for name in ("p", "q")}

    def delayed() -> list[int]:
        backup = backup_of(root)
        return [
            root.primary.guard_of(backup, queue.number, waiting_ticks(queue)).delayed_count()
            for queue in numbers.values()
        ]

    assert delayed() == [1, 1]
    follower.pump()
    follower.flushed()
    assert delayed() == [1, 1]
    (ack,) = follower.up.sent
    assert ack[0] == messages.ACK
    follower.pump()
    assert delayed() == [0, 0]


def test_a_guard_is_there_before_its_subscription() -> None:
    """003:37: guard and subscription are separate, for the guard comes first: with the JOIN. The subscription
    begins with the answer, at the end of a tick.
    """
    root = a_root("b")
    root.member.put("q", b"one")
    joining(root)
    backup = backup_of(root)
    assert backup.first_guarded_k == 0
    assert not backup.is_answered
    root.tick()
    assert backup.is_answered


def test_the_events_are_those_of_the_seed() -> None:
    """003:54, 003:55, 003:56, 003:57, 003:58: enqueue, deliver, acknowledged, dequeued."""
    words = [event.value for event in ReplicationEvent]
    assert words == ["enqueue", "deliver", "acknowledged", "dequeued"]


def test_the_diagram_is_the_table() -> None:
    """003:60, 003:62, 003:63, 003:64, 003:65, 003:66: every arrow of the diagram, and no other."""
    deliver, enqueue = ReplicationEvent.DELIVER, ReplicationEvent.ENQUEUE
    acknowledged, dequeued = ReplicationEvent.ACKNOWLEDGED, ReplicationEvent.DEQUEUED
    arrows = {
        (NEW, deliver): SENT,
        (SENT, acknowledged): SAFE,
        (SENT, dequeued): SAFE,
        (NEW, enqueue): DELAYED,
        (DELAYED, dequeued): SAFE,
        (DELAYED, deliver): DELAYED_SENT,
        (DELAYED_SENT, acknowledged): SAFE,
        (DELAYED_SENT, dequeued): SAFE,
    }
    assert arrows == STATES
