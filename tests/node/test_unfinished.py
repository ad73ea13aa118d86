"""Messages that the memory alarm has stopped in the middle come to an end, one after the other."""

from __future__ import annotations

from penstock.client.events import ConnectionClosed
from penstock.node.node import MEMORY
from penstock.node.unfinished import SILENT_MS_MAX, TURN_MS_MAX, WAIT_MS
from penstock.wire.amqp091 import methods_generated as m
from tests.dialects.amqp10.doubles import House as House10
from tests.seeds.doubles import NOW, House, Peer

BODY_BYTES = 500_000
PART = 300_000
FRAME_BYTES = 131_072
LOW = "low on memory"


class Stuck:
    """Clients in the middle of a message each, while memory is low. Held by a test."""

    def __init__(self, *parts: int) -> None:
        self.house = House()
        self.peers: list[Peer] = []
        self.rest: list[bytes] = []
        for part in parts:
            peer = self.house.client()
            peer.call(m.QueueDeclare("q"))
            peer.publish("q", bytes(BODY_BYTES))
            said = peer.said()
            peer.connection.received(said[:part], NOW)
            self.peers.append(peer)
            self.rest.append(said[part:])
        self.house.node.set_alarm(MEMORY, LOW, NOW)
        self.house.node.held_bytes()

    def sweep(self, after_ms: int) -> None:
        self.house.node.sweep(NOW + after_ms, 0)
        self.house.node.flush(NOW + after_ms)

    def are_read(self) -> list[bool]:
        return [peer.transport.is_reading for peer in self.peers]

    def message_count(self) -> int:
        return self.house.node.state.vhost("/").queues["q"].message_count


def test_the_client_that_has_said_most_completes_its_message_first_and_then_the_next() -> None:
    stuck = Stuck(PART, PART + FRAME_BYTES)
    stuck.sweep(0)
    stuck.sweep(WAIT_MS - 1)
    assert stuck.are_read() == [False, False]
    stuck.sweep(WAIT_MS)
    assert stuck.are_read() == [False, True]
    stuck.peers[1].connection.received(stuck.rest[1], NOW)
    assert stuck.are_read() == [False, False]
    assert stuck.message_count() == 1
    stuck.house.node.held_bytes()
    # What is ready now is more than what is unfinished: consumers can bring the alarm to its end.
    stuck.sweep(2 * WAIT_MS)
    assert stuck.are_read() == [False, False]
    stuck.house.client().call(m.QueuePurge("q"))
    stuck.house.node.held_bytes()
    stuck.sweep(3 * WAIT_MS)
    stuck.sweep(4 * WAIT_MS)
    assert stuck.are_read() == [True, False]
    stuck.peers[0].connection.received(stuck.rest[0], NOW)
    assert stuck.message_count() == 1


def test_a_client_that_goes_on_behind_its_message_is_stopped_again() -> None:
    stuck = Stuck(PART)
    peer = stuck.peers[0]
    stuck.sweep(0)
    stuck.sweep(WAIT_MS)
    peer.publish("q", bytes(BODY_BYTES))
    peer.connection.received(stuck.rest[0] + peer.said()[:PART], NOW)
    assert stuck.message_count() == 1
    assert stuck.are_read() == [False]


def test_a_client_that_says_no_more_is_closed_and_the_next_has_its_turn() -> None:
    stuck = Stuck(PART, PART + FRAME_BYTES)
    stuck.sweep(0)
    stuck.sweep(WAIT_MS)
    stuck.sweep(WAIT_MS + SILENT_MS_MAX - 1)
    assert stuck.are_read() == [False, True]
    stuck.sweep(WAIT_MS + SILENT_MS_MAX)
    assert stuck.peers[1].transport.is_reading, "for its close-ok"
    stuck.house.settle()
    (closed,) = [event for event in stuck.peers[1].events if isinstance(event, ConnectionClosed)]
    assert "506" in str(closed.error)
    assert "was not completed in time" in str(closed.error)
    assert stuck.house.node.held_bytes() < PART + FRAME_BYTES
    stuck.sweep(WAIT_MS + SILENT_MS_MAX + 1)
    assert stuck.peers[0].transport.is_reading


def test_a_client_that_goes_on_has_more_time_but_not_for_ever() -> None:
    stuck = Stuck(PART)
    stuck.sweep(0)
    stuck.sweep(WAIT_MS)
    now = WAIT_MS
    rest = stuck.rest[0]
    while now < WAIT_MS + TURN_MS_MAX - SILENT_MS_MAX:
        now += SILENT_MS_MAX - 1
        stuck.peers[0].connection.received(rest[:10], NOW + now)
        rest = rest[10:]
        stuck.sweep(now)
        assert stuck.are_read() == [True]
    stuck.sweep(WAIT_MS + TURN_MS_MAX)
    stuck.house.settle()
    assert [event for event in stuck.peers[0].events if isinstance(event, ConnectionClosed)]


def test_when_memory_is_fine_again_everybody_goes_on() -> None:
    stuck = Stuck(PART, PART)
    stuck.sweep(0)
    stuck.sweep(WAIT_MS)
    stuck.house.node.set_alarm(MEMORY, "", NOW)
    assert stuck.are_read() == [True, True]
    for peer, rest in zip(stuck.peers, stuck.rest, strict=True):
        peer.connection.received(rest, NOW)
    assert stuck.message_count() == 2


def test_what_waits_in_the_transport_is_counted_and_let_in_as_well() -> None:
    """A WebSocket's bridge holds what came while nobody reads, which may be more than what the
    connection itself holds of its message, or all there is.
    """
    stuck = Stuck(PART, PART + FRAME_BYTES)
    before = stuck.house.node.held_bytes()
    first, second = [peer.transport for peer in stuck.peers]
    first.unheard = 10 * PART
    second.unheard = PART
    assert stuck.house.node.held_bytes() == before + 11 * PART
    stuck.sweep(0)
    stuck.sweep(WAIT_MS)
    assert stuck.are_read() == [True, False]
    first.unheard = 0
    stuck.peers[0].connection.received(stuck.rest[0], NOW)
    assert stuck.are_read() == [False, False]


def test_another_alarm_lets_nobody_go_on() -> None:
    stuck = Stuck(PART)
    stuck.house.node.set_alarm("disk", "low on disk", NOW)
    stuck.house.node.set_alarm(MEMORY, "", NOW)
    stuck.sweep(0)
    stuck.sweep(10 * WAIT_MS)
    assert stuck.are_read() == [False]


def test_an_amqp_1_0_client_completes_its_message_or_is_closed() -> None:
    house = House10()
    queue = house.declare("q")
    peers = [house.connect(f"client{number}") for number in range(2)]
    rest = []
    for number, peer in enumerate(peers):
        peer.sender(peer.begin(), "/queues/q").put(bytes(BODY_BYTES))
        said = peer.said()
        part = PART + number * FRAME_BYTES
        peer.connection.received(said[:part], house.now)
        rest.append(said[part:])
    node = house.node
    node.set_alarm(MEMORY, LOW, house.now)
    node.held_bytes()
    node.sweep(house.now, 0)
    node.sweep(house.now + WAIT_MS, 0)
    assert [peer.transport.is_reading for peer in peers] == [False, True]
    peers[1].connection.received(rest[1], house.now)
    assert queue.message_count == 1
    queue.purge(house.now)
    node.held_bytes()
    node.sweep(house.now + 2 * WAIT_MS, 0)
    assert peers[0].transport.is_reading
    node.sweep(house.now + 2 * WAIT_MS + SILENT_MS_MAX, 0)
    house.settle()
    assert peers[0].is_over
