"""Turns: how much one connection gets done before others are served."""

from __future__ import annotations

from penstock.broker.topology import BindQueue, DeclareExchange, DeclareQueue
from penstock.client.events import ChannelClosed, ConnectionClosed
from penstock.dialects.connection import Connection
from penstock.dialects.turn import (
    COMPARED_PER_UNIT,
    ENQUEUED_PER_UNIT,
    METHOD_UNITS,
    TOPOLOGY_UNITS,
    PendingWork,
)
from penstock.node.failures import FailureListener
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from penstock.wire.amqp10.performatives_generated import Attach, Source, Target
from penstock.world.disk import DiskError
from tests.dialects.amqp10.doubles import House as House10
from tests.dialects.amqp10.doubles import KeepingSender
from tests.dialects.protocols import amqp091_of
from tests.seeds.doubles import NOW, House, Peer

DECLARE_UNITS = TOPOLOGY_UNITS + METHOD_UNITS
# Of the tests' own node: ten declares, once for what comes and once for what was kept.
UNITS = DECLARE_UNITS * 10
PER_TICK_MAX = 20


def small_house() -> House:
    house = House()
    house.node.container.turns.units_max = UNITS
    return house


def declare_all(peer: Peer, count: int) -> None:
    """Said in one go."""
    for number in range(count):
        peer.conversation.tell(1, m.QueueDeclare(f"q{number}", no_wait=True))


def declared(house: House) -> int:
    return len(house.node.state.vhost("/").queues)


def test_pipelined_declares_are_spread_over_ticks_and_all_are_done_in_order() -> None:
    house = small_house()
    peer = house.client()
    declare_all(peer, 100)
    peer.deliver_to_node()
    assert 0 < declared(house) <= PER_TICK_MAX
    assert not peer.transport.is_reading
    ticks = 0
    while house.node.has_work():
        before = declared(house)
        house.node.flush(NOW)
        ticks += 1
        assert declared(house) - before <= PER_TICK_MAX
    assert ticks >= 5
    assert list(house.node.state.vhost("/").queues) == [f"q{number}" for number in range(100)]
    assert peer.transport.is_reading


def test_a_publisher_is_heard_while_another_client_waits_for_its_turn() -> None:
    house = small_house()
    busy, other = house.client(), house.client()
    other.call(m.QueueDeclare("other"))
    declare_all(busy, 100)
    other.publish("other", *[b"x"] * 50)
    busy.deliver_to_node()
    other.deliver_to_node()
    assert house.node.state.vhost("/").queues["other"].message_count == 50
    assert other.transport.is_reading
    assert declared(house) < 100


def test_those_who_wait_are_served_by_turns() -> None:
    house = small_house()
    peers = [house.client() for _ in range(3)]
    for name, peer in enumerate(peers):
        for number in range(40):
            peer.conversation.tell(1, m.QueueDeclare(f"{name}-{number}", no_wait=True))
        peer.deliver_to_node()
    counts = []
    while house.node.has_work():
        house.node.flush(NOW)
        names = list(house.node.state.vhost("/").queues)
        counts.append([sum(q.startswith(f"{name}-") for q in names) for name in range(3)])
    # Each had a turn before any had its third.
    assert any(min(found) >= 10 and max(found) <= 30 for found in counts)
    assert counts[-1] == [40, 40, 40]


def test_more_that_comes_while_a_connection_waits_is_heard_after_what_came_before() -> None:
    house = small_house()
    peer = house.client()
    declare_all(peer, 30)
    said = peer.said()
    peer.connection.received(said[:-10], NOW)
    peer.connection.received(said[-10:], NOW)
    while house.node.has_work():
        house.node.flush(NOW)
    assert declared(house) == 30


def test_a_connection_that_is_lost_while_it_waits_says_no_more() -> None:
    house = small_house()
    peer = house.client()
    declare_all(peer, 100)
    peer.deliver_to_node()
    before = declared(house)
    house.node.lost(peer.connection, NOW)
    while house.node.has_work():
        house.node.flush(NOW)
    assert declared(house) == before


def test_a_close_behind_much_work_is_answered() -> None:
    house = small_house()
    peer = house.client()
    declare_all(peer, 100)
    peer.conversation.close()
    house.settle()
    assert declared(house) == 100
    assert any(isinstance(event, ConnectionClosed) for event in peer.events)


def test_a_server_that_stops_closes_a_connection_that_waits() -> None:
    house = small_house()
    peer = house.client()
    declare_all(peer, 100)
    peer.deliver_to_node()
    house.node.stop(NOW)
    house.settle()
    assert any(isinstance(event, ConnectionClosed) for event in peer.events)


def test_a_refusal_in_a_later_turn_closes_its_channel() -> None:
    house = small_house()
    peer = house.client()
    declare_all(peer, 50)
    peer.conversation.call(1, m.QueueDeclare("missing", passive=True))
    house.settle()
    closed = [event for event in peer.events if isinstance(event, ChannelClosed)]
    assert closed[0].error is not None
    assert "no queue 'missing'" in str(closed[0].error)


def test_a_publish_to_very_many_queues_ends_a_turn() -> None:
    house = House()
    width = 400
    house.node.container.turns.units_max = 3 * width // ENQUEUED_PER_UNIT
    vhost = house.node.state.vhost("/")
    vhost.apply(DeclareExchange("wide", "fanout"), NOW)
    for number in range(width):
        vhost.apply(DeclareQueue(f"q{number}"), NOW)
        vhost.apply(BindQueue(f"q{number}", "wide", ""), NOW)
    peer = house.client()
    for _ in range(50):
        peer.conversation.publish(1, "wide", "", b"x")
    peer.deliver_to_node()
    assert vhost.queues["q0"].message_count <= 4
    house.settle()
    assert vhost.queues["q0"].message_count == 50


def test_publishes_through_bindings_that_must_all_be_compared_end_a_turn() -> None:
    house = House()
    bindings = 200
    house.node.container.turns.units_max = 3 * bindings // COMPARED_PER_UNIT
    vhost = house.node.state.vhost("/")
    vhost.apply(DeclareExchange("by-headers", "headers"), NOW)
    vhost.apply(DeclareQueue("q"), NOW)
    for number in range(bindings):
        # Nothing but one header tells a message from another, and every binding wants it.
        arguments: dict[str, object] = {"x-match": "all", "kind": ["a", str(number)]}
        vhost.apply(BindQueue("q", "by-headers", "", arguments), NOW)
    peer = house.client()
    properties = BasicProperties(headers={"kind": ["a", "0"]})
    for _ in range(50):
        peer.conversation.publish(1, "by-headers", "", b"x", properties)
    peer.deliver_to_node()
    assert vhost.queues["q"].message_count <= 4
    house.settle()
    assert vhost.queues["q"].message_count == 50


def test_pipelined_attaches_are_spread_over_ticks() -> None:
    house = House10()
    house.declare("q")
    peer = house.connect()
    session = peer.begin()
    house.node.container.turns.units_max = TOPOLOGY_UNITS * 5
    for number in range(40):
        attach = Attach(source=Source(), target=Target("/queues/q"))
        peer.wire.attach_sender(session, f"link{number}", KeepingSender(), attach)
    peer.connection.received(peer.said(), house.now)
    waiting = house.node.container.turns.waiting
    assert [turn.number for turn in waiting] == [peer.connection.number]
    ticks = 0
    while house.node.container.turns.waiting:
        house.node.flush(house.now)
        ticks += 1
    assert ticks >= 4
    house.settle()
    assert len(peer.attached) == 40


class FailingWork(PendingWork):
    """Fails when the connection goes on."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def prepare(self, now: int) -> bool:
        raise self._error

    def roll_back(self) -> None:
        """There is nothing to free."""


class Failures(FailureListener):
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def connection_failed(self, connection: Connection, doing: str, error: Exception) -> None:
        self.numbers.append(connection.number)

    def failed(self, doing: str, error: Exception) -> None:
        raise error


def fail_in_a_later_turn(house: House, peer: Peer, error: Exception) -> None:
    declare_all(peer, 100)
    peer.deliver_to_node()
    amqp091_of(peer.connection).turn.work = FailingWork(error)


def test_when_the_disk_fails_in_a_later_turn_nobody_hears_of_the_tick() -> None:
    house = small_house()
    peer, other = house.client(), house.client()
    other.call(m.QueueDeclare("other"))
    fail_in_a_later_turn(house, peer, DiskError("the disk is gone"))
    other.conversation.call(1, m.QueueDeclare("other", passive=True))
    other.deliver_to_node()
    house.node.flush(NOW)
    assert house.node.storage_failure == "the disk is gone"
    assert other.transport.writes == []


def test_a_defect_in_a_later_turn_ends_its_connection_and_no_other() -> None:
    house = small_house()
    failures = Failures()
    house.node.failure_listener = failures
    peer, other = house.client(), house.client()
    fail_in_a_later_turn(house, peer, RuntimeError("a defect"))
    house.node.flush(NOW)
    assert failures.numbers == [peer.connection.number]
    other.call(m.QueueDeclare("other"))
    house.settle()
    closed = [event for event in peer.events if isinstance(event, ConnectionClosed)]
    assert "541" in str(closed[0].error)
