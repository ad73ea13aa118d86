"""Transactions: nothing takes effect before the discharge, and then all of it or nothing."""

from __future__ import annotations

import pytest

from penstock.broker.message import Message
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import DeleteQueue
from penstock.dialects.amqp10.links.coordinator import CAPABILITIES
from penstock.storage.memory_disk import MemoryDisk
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Coordinator,
    Discharge,
    Header,
    Released,
    TransactionalState,
)
from penstock.world.disk import AppendFile, FlushListener
from tests.dialects.amqp10.doubles import (
    House,
)
from tests.dialects.amqp10.transactions.transaction_doubles import (
    Controller,
    Scene,
    bodies,
    post,
    post_settled,
    retire,
    said,
)

DURABLE = Header(durable=True).encode()


@pytest.fixture
def scene() -> Scene:
    return Scene(House())


def test_the_coordinator_says_what_it_can_do(scene: Scene) -> None:
    answered = scene.peer.attached[scene.controller.link].target
    assert isinstance(answered, Coordinator)
    assert answered.capabilities == list(CAPABILITIES)


def test_what_was_posted_is_there_after_the_commit_and_not_before(scene: Scene) -> None:
    txn = scene.controller.declare()
    tags = post(scene.sender, txn, b"one", b"two")
    scene.house.settle()
    for tag in tags:
        state = scene.sender.listener.outcomes[tag]
        assert isinstance(state, TransactionalState)
        assert state.txn_id == txn
        assert isinstance(state.outcome, Accepted)
        assert tag in scene.sender.listener.settled
    assert scene.queue.message_count == 0
    assert scene.controller.commit(txn) == "accepted"
    assert bodies(scene.queue) == [b"one", b"two"]


def test_what_was_posted_is_gone_after_a_rollback(scene: Scene) -> None:
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one")
    post_settled(scene.sender, txn, b"two")
    scene.house.settle()
    assert scene.controller.rollback(txn) == "accepted"
    assert scene.queue.published_total == 0
    assert scene.controller.commit(txn) == "amqp:transaction:unknown-id"


def test_messages_outside_of_a_transaction_do_not_wait_for_it(scene: Scene) -> None:
    txn = scene.controller.declare()
    post(scene.sender, txn, b"inside")
    scene.sender.send(b"outside")
    assert bodies(scene.queue) == [b"outside"]
    assert scene.controller.commit(txn) == "accepted"
    assert bodies(scene.queue) == [b"outside", b"inside"]


def test_outcomes_of_one_tick_are_told_with_one_disposition_and_before_the_discharge(
    scene: Scene,
) -> None:
    txn = scene.controller.declare()
    tags = post(scene.sender, txn, *[b"%d" % number for number in range(100)])
    scene.controller.put(Discharge(txn))
    scene.peer.connection.received(scene.peer.said(), scene.house.now)
    scene.house.node.flush(scene.house.now)
    written = scene.peer.transport.written
    assert written.count(b"\x00\x53\x15") == 2
    assert written.index(b"\x00\x53\x34") < written.rindex(b"\x00\x53\x15")
    scene.house.settle()
    assert set(tags) <= scene.sender.listener.settled
    assert scene.queue.message_count == 100


def test_more_messages_than_the_window_fit_into_a_transaction(scene: Scene) -> None:
    txn = scene.controller.declare()
    for number in range(4_000):
        post(scene.sender, txn, b"%d" % number)
        if number % 500 == 0:
            scene.house.settle()
    scene.house.settle()
    assert scene.controller.commit(txn) == "accepted"
    assert scene.queue.message_count == 4_000


def test_a_link_whose_sender_settles_first_hears_the_provisional_outcome(scene: Scene) -> None:
    sender = scene.peer.sender(scene.session, "/queues/q", "second", rcv_settle_mode=1)
    txn = scene.controller.declare()
    (tag,) = post(sender, txn, b"one")
    scene.house.settle()
    assert isinstance(sender.listener.outcomes[tag], TransactionalState)
    assert tag not in sender.listener.settled
    assert scene.controller.commit(txn) == "accepted"
    assert scene.queue.message_count == 1


def test_a_message_that_goes_nowhere_is_released_and_not_part_of_it(scene: Scene) -> None:
    lost = scene.peer.sender(scene.session, "/exchanges/amq.direct/nobody", "lost")
    txn = scene.controller.declare()
    (tag,) = post(lost, txn, b"x")
    post(scene.sender, txn, b"one")
    scene.house.settle()
    state = lost.listener.outcomes[tag]
    assert isinstance(state, TransactionalState)
    assert isinstance(state.outcome, Released)
    assert scene.controller.commit(txn) == "accepted"
    assert bodies(scene.queue) == [b"one"]


def test_a_settled_message_that_goes_nowhere_fails_the_commit(scene: Scene) -> None:
    lost = scene.peer.sender(scene.session, "/exchanges/amq.direct/nobody", "lost")
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one")
    post_settled(lost, txn, b"x")
    scene.house.settle()
    assert scene.controller.commit(txn) == "amqp:transaction:rollback"
    assert scene.queue.message_count == 0


def test_a_queue_that_refuses_one_message_gets_none_and_nor_do_the_others(scene: Scene) -> None:
    full = scene.house.declare("full", x_max_length=2, x_overflow="reject-publish")
    sender = scene.peer.sender(scene.session, "/queues/full", "full")
    receiver = scene.receiver()
    scene.sender.send(b"in")
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one")
    post(sender, txn, b"1", b"2", b"3")
    retire(receiver, txn, receiver.got[0])
    assert scene.controller.commit(txn) == "amqp:transaction:rollback"
    assert (full.published_total, scene.queue.published_total) == (0, 1)
    assert scene.queue.unacked_count == 1
    txn = scene.controller.declare()
    post(sender, txn, b"1", b"2")
    scene.house.settle()
    assert scene.controller.commit(txn) == "accepted"
    assert full.message_count == 2


def test_a_queue_that_is_limited_in_octets_is_asked_for_all_of_them(scene: Scene) -> None:
    full = scene.house.declare("full", x_max_length_bytes=40, x_overflow="reject-publish")
    sender = scene.peer.sender(scene.session, "/queues/full", "full")
    txn = scene.controller.declare()
    post(sender, txn, b"x" * 15, b"x" * 16)
    scene.house.settle()
    assert scene.controller.commit(txn) == "amqp:transaction:rollback"
    assert full.message_count == 0
    txn = scene.controller.declare()
    post(sender, txn, b"x" * 15, b"x" * 15)
    scene.house.settle()
    assert scene.controller.commit(txn) == "accepted"
    assert full.message_count == 2


def test_a_queue_that_vanished_fails_the_commit(scene: Scene) -> None:
    other = scene.house.declare("other")
    sender = scene.peer.sender(scene.session, "/queues/other", "other")
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one")
    post(sender, txn, b"two")
    scene.house.settle()
    scene.house.node.apply_to_vhost("/", DeleteQueue(other.name), scene.house.now)
    assert scene.controller.commit(txn) == "amqp:transaction:rollback"
    assert scene.queue.message_count == 0


class RefusesSecond(PublishInterceptor):
    def __init__(self) -> None:
        self.count = 0

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        self.count += 1
        return self.count != 2


def test_an_interceptor_that_refuses_one_message_fails_the_commit(scene: Scene) -> None:
    scene.house.node.container.interceptor = RefusesSecond()
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one", b"two")
    scene.house.settle()
    assert scene.controller.commit(txn) == "amqp:transaction:rollback"
    assert scene.queue.message_count == 0


class Holds(PublishInterceptor):
    def __init__(self) -> None:
        self.held: list[Message] = []

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        message.hold()
        self.held.append(message)
        return True


def test_the_discharge_waits_for_who_holds_a_message(scene: Scene) -> None:
    holds = Holds()
    scene.house.node.container.interceptor = holds
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one", b"two")
    scene.house.settle()
    assert scene.controller.commit(txn) == ""
    holds.held[0].release()
    scene.house.settle()
    assert len(scene.controller.listener.outcomes) == 1
    holds.held[1].release()
    scene.house.settle()
    assert [said(outcome) for outcome in scene.controller.listener.outcomes.values()] == [
        "declared",
        "accepted",
    ]


def test_the_discharge_is_rejected_when_a_held_message_is_given_up(scene: Scene) -> None:
    holds = Holds()
    scene.house.node.container.interceptor = holds
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one", b"two")
    scene.house.settle()
    assert scene.controller.commit(txn) == ""
    holds.held[0].refuse()
    holds.held[0].release()
    holds.held[1].release()
    scene.house.settle()
    assert [said(outcome) for outcome in scene.controller.listener.outcomes.values()] == [
        "declared",
        "amqp:transaction:rollback",
    ]


def test_a_client_that_does_not_know_rejected_is_detached_when_one_is_given_up(
    scene: Scene,
) -> None:
    holds = Holds()
    scene.house.node.container.interceptor = holds
    controller = Controller(scene.peer, scene.session, "picky", ["amqp:accepted:list"])
    txn = controller.declare()
    post(scene.sender, txn, b"one")
    scene.house.settle()
    assert controller.commit(txn) == ""
    holds.held[0].refuse()
    holds.held[0].release()
    scene.house.settle()
    assert scene.peer.link_faults == [("picky", "amqp:transaction:rollback", True)]


# Several at once, over several sessions.


def test_two_transactions_on_one_session_do_not_touch_each_other(scene: Scene) -> None:
    first, second = scene.controller.declare(), scene.controller.declare()
    assert first != second
    post(scene.sender, first, b"1")
    post(scene.sender, second, b"2")
    post(scene.sender, first, b"3")
    scene.house.settle()
    assert scene.controller.rollback(second) == "accepted"
    assert scene.controller.commit(first) == "accepted"
    assert bodies(scene.queue) == [b"1", b"3"]


def test_a_transaction_is_used_in_other_sessions_of_its_connection(scene: Scene) -> None:
    other = scene.peer.sender(scene.peer.begin(), "/queues/q", "other")
    txn = scene.controller.declare()
    post(other, txn, b"one")
    scene.house.settle()
    assert scene.controller.commit(txn) == "accepted"
    assert bodies(scene.queue) == [b"one"]


def test_a_transaction_of_another_connection_is_unknown(scene: Scene) -> None:
    scene.controller.declare()
    txn = scene.controller.declare()
    peer = scene.house.connect("stranger")
    session = peer.begin()
    controller = Controller(peer, session)
    assert controller.commit(txn) == "amqp:transaction:unknown-id"
    assert scene.controller.commit(txn) == "accepted"


def test_work_in_an_unknown_transaction_ends_the_link(scene: Scene) -> None:
    receiver = scene.receiver(credit=2)
    scene.sender.send(b"one", b"two")
    retire(receiver, b"nobody", receiver.got[0], settled=True)
    assert scene.peer.link_faults == [("receiver", "amqp:transaction:unknown-id", True)]
    assert (scene.queue.unacked_count, scene.queue.message_count) == (0, 2)
    post(scene.sender, b"nobody", b"x")
    scene.house.settle()
    assert scene.peer.link_faults[1:] == [("sender", "amqp:transaction:unknown-id", True)]
    assert scene.queue.published_total == 2


# Durability.


class LateDisk(MemoryDisk):
    """Answers flushes at once, unless the test says otherwise."""

    def __init__(self) -> None:
        super().__init__(at_once=False)
        self.is_late = False

    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        super().flush(files, token, listener)
        if not self.is_late:
            self.answer_flushes(0)


def copy_of(disk: MemoryDisk, cut: str = "", size: int = 0) -> MemoryDisk:
    """What a new process finds, with one file cut short as a power loss would."""
    found = MemoryDisk()
    for name in disk.names():
        content = disk.open(name).read(0, disk.open(name).size())
        found.open(name).append(content[:size] if name == cut else content)
    return found


def moving(disk: MemoryDisk) -> tuple[Scene, bytes]:
    """A transaction that is to replace a message of one queue by two in another."""
    scene = Scene(House(disk))
    scene.house.declare("other")
    mover = scene.peer.sender(scene.session, "/queues/other", "mover")
    receiver = scene.receiver()
    scene.sender.send(b"in", head=DURABLE)
    txn = scene.controller.declare()
    post(mover, txn, b"one", b"two", head=DURABLE)
    retire(receiver, txn, receiver.got[0])
    return scene, txn


def test_a_commit_is_on_disk_as_a_whole_or_not_at_all() -> None:
    disk = MemoryDisk()
    scene, txn = moving(disk)
    before = {name: disk.open(name).size() for name in disk.names()}
    assert scene.controller.commit(txn) == "accepted"
    (grown,) = [name for name in disk.names() if disk.open(name).size() > before.get(name, 0)]
    found: list[tuple[int, int]] = []
    for size in range(before[grown], disk.open(grown).size() + 1):
        house = House(copy_of(disk, grown, size))
        found.append((house.queue("q").message_count, house.queue("other").message_count))
    assert set(found) == {(1, 0), (0, 2)}
    assert (found[0], found[-1]) == ((1, 0), (0, 2))


def test_what_is_not_committed_is_not_there_after_a_restart() -> None:
    disk = MemoryDisk()
    moving(disk)
    house = House(copy_of(disk))
    assert bodies(house.queue("q")) == [b"in"]
    assert house.queue("other").message_count == 0


def test_a_discharge_is_accepted_when_it_is_safe() -> None:
    disk = LateDisk()
    scene, txn = moving(disk)
    disk.is_late = True
    assert scene.controller.commit(txn) == ""
    disk.is_late = False
    disk.answer_flushes(scene.house.now)
    scene.house.settle()
    assert said(list(scene.controller.listener.outcomes.values())[-1]) == "accepted"
