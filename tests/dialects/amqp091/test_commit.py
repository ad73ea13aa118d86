"""Commits that take several turns: nothing can be seen of them before everything can."""

from __future__ import annotations

import pytest

from penstock.broker.message import Message
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import BindQueue, DeclareExchange, DeclareQueue, DeleteQueue
from penstock.client.events import ChannelClosed, Replied, Returned
from penstock.dialects.amqp091.commit import RESTARTS_MAX
from penstock.dialects.amqp091.staged import RECORD_BYTES, Transaction
from penstock.dialects.turn import COMMIT_STEP_COUNT as STEP_COUNT
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from tests.dialects.protocols import channel_of
from tests.seeds.doubles import NOW, House, Peer

COUNT = STEP_COUNT * 6


class Staged:
    """A house with a queue, and a client that has staged many publishes. Held by one test."""

    def __init__(self, key: str = "q", **arguments: object) -> None:
        self.house = House()
        self.vhost = self.house.node.state.vhost("/")
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.vhost.apply(DeclareQueue("q", arguments=named), NOW)
        self.peer = self.house.client()
        self.peer.call(m.TxSelect())
        for number in range(COUNT):
            self.peer.publish(key, b"%d" % number)
        self.house.settle()
        self.house.node.container.turns.units_max = 1

    def begin(self) -> None:
        """The commit is heard and not done."""
        self.peer.events.clear()
        self.peer.conversation.call(1, m.TxCommit())
        self.peer.deliver_to_node()
        assert self.house.node.has_work()
        assert self.count() == 0

    def count(self, queue: str = "q") -> int:
        return self.vhost.queues[queue].message_count

    def flush_until_done(self) -> int:
        """Returns the number of ticks in which nothing could be seen."""
        ticks = 0
        while self.house.node.has_work():
            self.house.node.flush(NOW)
            if self.count() == 0:
                ticks += 1
        return ticks

    def replies(self) -> list[Replied]:
        self.house.settle()
        return [event for event in self.peer.events if isinstance(event, Replied)]


def test_a_long_commit_takes_several_ticks_and_becomes_visible_in_one() -> None:
    staged = Staged()
    staged.begin()
    seen = set()
    while staged.house.node.has_work():
        staged.house.node.flush(NOW)
        seen.add(staged.count())
    assert seen == {0, COUNT}
    assert len(staged.replies()) == 1
    bodies = [entry.message.body for entry in staged.vhost.queues["q"].browse(COUNT)]
    assert bodies == [b"%d" % number for number in range(COUNT)]


def test_others_are_served_while_a_commit_is_prepared() -> None:
    staged = Staged()
    staged.vhost.apply(DeclareQueue("other"), NOW)
    other = staged.house.client()
    staged.begin()
    other.publish("other", b"x")
    other.deliver_to_node()
    staged.house.node.flush(NOW)
    assert staged.count("other") == 1
    assert staged.count() == 0


def test_a_connection_that_dies_during_its_commit_has_rolled_back() -> None:
    staged = Staged()
    staged.begin()
    staged.house.node.flush(NOW)
    staged.house.node.lost(staged.peer.connection, NOW)
    staged.flush_until_done()
    assert staged.count() == 0


def test_a_server_that_stops_during_a_commit_rolls_it_back() -> None:
    staged = Staged()
    staged.begin()
    staged.house.node.stop(NOW)
    staged.house.settle()
    assert staged.count() == 0


def test_what_comes_after_a_commit_waits_for_it() -> None:
    staged = Staged()
    staged.peer.events.clear()
    staged.peer.conversation.call(1, m.TxCommit())
    staged.peer.conversation.call(1, m.QueueDeclare("q", passive=True))
    staged.peer.deliver_to_node()
    replies = staged.replies()
    assert [type(reply.method) for reply in replies] == [m.TxCommitOk, m.QueueDeclareOk]
    declared = replies[1].method
    assert isinstance(declared, m.QueueDeclareOk)
    assert declared.message_count == COUNT


def test_what_comes_in_another_read_waits_for_the_commit_too() -> None:
    staged = Staged()
    staged.begin()
    staged.peer.conversation.call(1, m.QueueDeclare("q", passive=True))
    staged.peer.deliver_to_node()
    assert staged.count() == 0
    replies = staged.replies()
    assert [type(reply.method) for reply in replies] == [m.TxCommitOk, m.QueueDeclareOk]


def test_a_queue_that_is_deleted_meanwhile_gets_nothing_and_the_commit_succeeds() -> None:
    staged = Staged()
    staged.vhost.apply(DeclareQueue("kept"), NOW)
    staged.peer.publish("kept", b"last")
    staged.house.settle()
    staged.begin()
    for _ in range(3):
        staged.house.node.flush(NOW)
    deleted = staged.vhost.queues["q"]
    staged.vhost.apply(DeleteQueue("q"), NOW)
    while staged.house.node.has_work():
        staged.house.node.flush(NOW)
    assert deleted.message_count == 0
    assert staged.count("kept") == 1
    assert [type(reply.method) for reply in staged.replies()] == [m.TxCommitOk]


def test_a_queue_that_is_deleted_when_everything_is_routed_gets_nothing() -> None:
    """Between the last slice and the step that shows everything, and too late to begin anew."""
    staged = Staged()
    staged.begin()
    for number in range(RESTARTS_MAX + 1):
        staged.vhost.apply(DeclareQueue(f"declared{number}"), NOW)
        staged.house.node.flush(NOW)
    deleted = staged.vhost.queues["q"]
    for _ in range(COUNT // STEP_COUNT - 2):
        staged.house.node.flush(NOW)
    staged.vhost.apply(DeleteQueue("q"), NOW)
    while staged.house.node.has_work():
        staged.house.node.flush(NOW)
    assert deleted.message_count == 0
    assert [type(reply.method) for reply in staged.replies()] == [m.TxCommitOk]


def test_a_queue_that_is_bound_meanwhile_gets_all_of_the_commit_or_nothing() -> None:
    staged = Staged()
    staged.vhost.apply(DeclareExchange("fan", "fanout"), NOW)
    staged.vhost.apply(BindQueue("q", "fan", ""), NOW)
    for number in range(COUNT):
        staged.peer.conversation.publish(1, "fan", "", b"%d" % number)
    staged.house.settle()
    staged.begin()
    for _ in range(8):
        staged.house.node.flush(NOW)
    staged.vhost.apply(DeclareQueue("late"), NOW)
    staged.vhost.apply(BindQueue("late", "fan", ""), NOW)
    while staged.house.node.has_work():
        staged.house.node.flush(NOW)
    assert staged.count() == 2 * COUNT
    assert staged.count("late") == COUNT


def test_somebody_who_declares_without_end_does_not_keep_a_commit_from_being_done() -> None:
    staged = Staged()
    staged.begin()
    for number in range(100):
        staged.vhost.apply(DeclareQueue(f"declared{number}"), NOW)
        staged.house.node.flush(NOW)
    assert staged.count() == COUNT


def test_a_full_queue_that_refuses_closes_the_channel_as_in_a_short_commit() -> None:
    staged = Staged(x_max_length=10, x_overflow="reject-publish")
    staged.begin()
    staged.flush_until_done()
    staged.house.settle()
    closed = [event for event in staged.peer.events if isinstance(event, ChannelClosed)]
    assert "partial tx completion" in str(closed[0].error)
    assert staged.count() == 10


def test_what_leads_nowhere_comes_back_before_the_commit_is_answered() -> None:
    staged = Staged()
    staged.peer.conversation.publish(1, "amq.direct", "nowhere", b"lost", mandatory=True)
    staged.house.settle()
    staged.begin()
    staged.flush_until_done()
    staged.house.settle()
    told = [type(event) for event in staged.peer.events]
    assert told == [Returned, Replied]


def test_blind_copies_are_routed_and_not_shown() -> None:
    staged = Staged()
    staged.vhost.apply(DeclareQueue("copy"), NOW)
    properties = BasicProperties(headers={"BCC": ["copy"], "kept": 1})
    staged.peer.conversation.publish(1, "", "q", b"copied", properties)
    staged.house.settle()
    staged.begin()
    staged.flush_until_done()
    (entry,) = staged.vhost.queues["copy"].browse(2)
    assert entry.message.properties.headers() == {"kept": 1}
    assert staged.count() == COUNT + 1


def test_acknowledgements_take_effect_with_the_publishes() -> None:
    staged = Staged()
    staged.vhost.apply(DeclareQueue("taken"), NOW)
    staged.house.node.container.turns.units_max = 1_000_000
    publisher = staged.house.client()
    publisher.publish("taken", *[b"x"] * 10)
    staged.house.settle()
    staged.peer.call(m.BasicConsume("taken"))
    staged.peer.conversation.tell(1, m.BasicAck(10, True))
    staged.house.settle()
    staged.house.node.container.turns.units_max = 1
    staged.begin()
    taken = staged.vhost.queues["taken"]
    staged.house.node.flush(NOW)
    assert taken.unacked_count == 10
    staged.flush_until_done()
    assert taken.unacked_count == 0
    assert staged.count() == COUNT


class Taken:
    """A client in transaction mode that holds ten deliveries. Held by one test."""

    def __init__(self) -> None:
        self.house = House()
        self.peer = self.house.client()
        self.peer.call(m.QueueDeclare("q"))
        self.peer.publish("q", *[b"%d" % number for number in range(1, 11)])
        self.house.settle()
        self.peer.call(m.TxSelect())
        self.peer.call(m.BasicConsume("q"))
        self.queue = self.house.node.state.vhost("/").queues["q"]

    def commit(self, *tags: int) -> None:
        for tag in tags:
            self.peer.conversation.tell(1, m.BasicAck(tag))
        self.peer.conversation.call(1, m.TxCommit())
        self.house.settle()


@pytest.mark.parametrize(
    "tags",
    [
        (1, 2, 3, 4, 5),
        (2, 3, 4),
        (5, 4, 3, 2, 1),
        (1, 2, 4, 5),
        (3, 1, 2),
        (10, 9),
        tuple(range(1, 11)),
    ],
    ids=str,
)
def test_acknowledgements_settle_exactly_their_deliveries(tags: tuple[int, ...]) -> None:
    taken = Taken()
    taken.commit(*tags)
    assert taken.queue.unacked_count == 10 - len(tags)
    taken.house.node.lost(taken.peer.connection, NOW)
    left = [entry.message.body for entry in taken.queue.browse(10)]
    assert left == [b"%d" % tag for tag in range(1, 11) if tag not in tags]


def test_a_delivery_that_is_acknowledged_twice_closes_the_channel() -> None:
    taken = Taken()
    taken.commit(1, 2, 2, 3)
    closed = [event for event in taken.peer.events if isinstance(event, ChannelClosed)]
    assert "unknown delivery tag 2" in str(closed[0].error)


@pytest.mark.parametrize("count", [0, 1, 100])
def test_a_short_commit_is_done_at_once(count: int) -> None:
    house = House()
    peer: Peer = house.client()
    peer.call(m.QueueDeclare("q"))
    peer.call(m.TxSelect())
    peer.publish("q", *[b"x"] * count)
    peer.conversation.call(1, m.TxCommit())
    peer.deliver_to_node()
    assert house.node.state.vhost("/").queues["q"].message_count == count


def test_a_transaction_that_collects_too_much_closes_its_channel_and_is_rolled_back() -> None:
    house = House()
    peer = house.client()
    peer.call(m.QueueDeclare("q"))
    peer.call(m.TxSelect())
    channel = channel_of(peer.connection)
    channel.transaction = Transaction(10 * (1_000 + RECORD_BYTES + 100))
    peer.publish("q", *[bytes(1_000)] * 10)
    house.settle()
    assert not any(isinstance(event, ChannelClosed) for event in peer.events)
    peer.publish("q", bytes(1_000))
    house.settle()
    closed = [event for event in peer.events if isinstance(event, ChannelClosed)]
    assert "bytes of messages in one transaction" in str(closed[0].error)
    assert house.node.state.vhost("/").queues["q"].message_count == 0
    assert house.node.held_bytes() < 100


class Holding(PublishInterceptor):
    """Holds every message until the test lets go of it."""

    def __init__(self) -> None:
        self.held: list[Message] = []

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        message.hold()
        self.held.append(message)
        return True


class Held:
    """A commit of two messages, which somebody holds. Held by one test."""

    def __init__(self) -> None:
        self.house = House()
        self.peer = self.house.client()
        self.peer.call(m.QueueDeclare("q"))
        self.peer.call(m.TxSelect())
        self.holding = Holding()
        self.house.node.intercept_publishes(self.holding)
        self.peer.publish("q", b"one", b"two")
        self.house.settle()
        self.peer.events.clear()
        self.peer.call(m.TxCommit())

    def release(self, *, refused: bool = False) -> None:
        message = self.holding.held.pop()
        if refused:
            message.refuse()
        message.release()
        self.house.settle()


def test_a_commit_is_answered_when_nobody_holds_any_of_its_messages() -> None:
    held = Held()
    assert held.house.node.state.vhost("/").queues["q"].message_count == 2
    held.release()
    assert held.peer.events == []
    held.release()
    (answer,) = held.peer.events
    assert isinstance(answer, Replied)
    assert isinstance(answer.method, m.TxCommitOk)


def test_a_held_message_that_is_given_up_closes_the_channel_of_its_commit() -> None:
    held = Held()
    held.release(refused=True)
    assert held.peer.events == []
    held.release()
    (closed,) = held.peer.events
    assert isinstance(closed, ChannelClosed)
    assert "partial tx completion" in str(closed.error)


def test_a_channel_with_the_number_of_a_closed_one_hears_nothing_of_its_commit() -> None:
    held = Held()
    held.peer.conversation.close_channel(1)
    held.house.settle()
    assert held.peer.conversation.open_channel()[0] == 1
    held.house.settle()
    held.peer.events.clear()
    held.release()
    held.release(refused=True)
    assert held.peer.events == []
