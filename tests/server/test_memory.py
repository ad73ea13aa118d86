"""The memory alarm: what raises it, what ends it, and how far publishers go past it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest
import uvloop

from penstock.broker.topology import DeclareQueue
from penstock.server.launch import start
from penstock.server.memory import (
    FLOOD_BYTES_MIN,
    HELD_FRACTION,
    RELEASE_FRACTION,
    RESIDENT_FRACTION,
    TRIM_MS_MIN,
    MemoryWatcher,
    default_limit_bytes,
    flood_bytes,
    resident_bytes,
)
from penstock.server.running import Running
from penstock.server.server_configuration import ServerConfiguration
from penstock.wire.amqp091 import methods_generated as m
from tests.behaviour.raw import BODY, HEADER, RawConnection, frame, header_payload
from tests.dialects.amqp10.doubles import House as House10
from tests.dialects.amqp10.doubles import KeptTransport
from tests.seeds.doubles import NOW, CountingTransport, House, Peer

LIMIT = 1_000_000
MESSAGE = 10_000


class Watched:
    """A node and its watcher; resident memory is what the test says. Held by one test."""

    def __init__(self, resident: int = LIMIT * 10) -> None:
        self.house = House()
        self.peer: Peer = self.house.client()
        self.peer.call(m.QueueDeclare("q"))
        self.resident = resident
        self.trims = 0
        self.watcher = MemoryWatcher(self.house.node, LIMIT, self._resident, self._trim)

    def _resident(self) -> int:
        return self.resident

    def _trim(self) -> None:
        self.trims += 1

    def hold(self, octets: int) -> None:
        """Messages of about so many octets are ready."""
        self.peer.call(m.QueuePurge("q"))
        # As an operator's: publishing would be stopped by the alarm.
        queue = self.house.node.state.vhost("/").queues["q"]
        while self.house.node.held_bytes() < octets:
            self.house.client().publish("q", bytes(MESSAGE))
            self._hear_all()
        assert queue.message_count

    def _hear_all(self) -> None:
        for peer in self.house.peers:
            said = peer.said()
            if said:
                peer.connection.received(said, NOW)

    def is_raised(self, now: int = NOW) -> bool:
        self.watcher(now)
        return self.house.node.container.alarm != ""


def test_publishers_wait_when_too_much_is_held_and_go_on_when_it_is_gone() -> None:
    watched = Watched()
    assert not watched.is_raised()
    watched.hold(LIMIT + MESSAGE)
    assert watched.is_raised()
    assert watched.house.node.container.alarm == "low on memory"
    watched.peer.call(m.QueuePurge("q"))
    assert not watched.is_raised()


def test_after_a_drain_resident_memory_alone_does_not_keep_publishers_waiting() -> None:
    watched = Watched(resident=LIMIT // 2)
    watched.resident = LIMIT * 3
    watched.hold(LIMIT * 2)
    assert watched.is_raised()
    watched.peer.call(m.QueuePurge("q"))
    # The allocator has given nothing back.
    assert not watched.is_raised()


def test_the_alarm_does_not_flicker() -> None:
    watched = Watched(resident=int(LIMIT * 1.1))
    watched.hold(LIMIT + MESSAGE)
    assert watched.is_raised()
    watched.hold(int(LIMIT * (RELEASE_FRACTION + 0.02)))
    assert watched.is_raised()
    watched.hold(int(LIMIT * (RELEASE_FRACTION - 0.05)))
    assert not watched.is_raised()
    watched.hold(int(LIMIT * (RELEASE_FRACTION + 0.02)))
    assert not watched.is_raised()


def test_messages_in_many_queues_do_not_raise_it_while_resident_memory_is_small() -> None:
    watched = Watched(resident=LIMIT // 2)
    watched.hold(LIMIT * 5)
    assert not watched.is_raised()


def test_resident_memory_is_a_second_line_for_what_is_not_counted() -> None:
    watched = Watched(resident=int(LIMIT * RESIDENT_FRACTION) + 1)
    watched.hold(int(LIMIT * HELD_FRACTION) + MESSAGE)
    assert watched.is_raised()
    watched.resident = int(LIMIT * RESIDENT_FRACTION * RELEASE_FRACTION) - 1
    assert not watched.is_raised()


def test_the_second_line_ends_when_what_is_counted_is_gone() -> None:
    watched = Watched(resident=LIMIT * 10)
    watched.hold(int(LIMIT * HELD_FRACTION) + MESSAGE)
    assert watched.is_raised()
    watched.hold(int(LIMIT * HELD_FRACTION * RELEASE_FRACTION) - 3 * MESSAGE)
    assert not watched.is_raised()


def test_free_pages_are_given_back_now_and_then_when_little_is_held() -> None:
    watched = Watched(resident=LIMIT * 10)
    watched.is_raised(1_000)
    watched.is_raised(2_000)
    assert watched.trims == 1
    watched.is_raised(1_000 + TRIM_MS_MIN)
    assert watched.trims == 2
    watched.resident = LIMIT
    watched.is_raised(10 * TRIM_MS_MIN)
    assert watched.trims == 2


def test_the_figures_of_this_machine_can_be_read() -> None:
    assert resident_bytes() > 1_000_000
    assert default_limit_bytes() > 1_000_000
    assert flood_bytes(0) == FLOOD_BYTES_MIN
    assert flood_bytes(1 << 40) == 1 << 35


def reads(transport: CountingTransport | KeptTransport) -> bool:
    return transport.is_reading


@pytest.mark.parametrize("before", [True, False], ids=["before the alarm", "during the alarm"])
def test_a_client_in_the_middle_of_its_first_body_is_not_read_while_the_alarm_lasts(
    before: bool,
) -> None:
    house = House()
    peer = house.client()
    peer.call(m.QueueDeclare("q"))
    peer.publish("q", bytes(500_000))
    said = peer.said()
    if not before:
        house.node.set_alarm("memory", "low on memory", NOW)
        assert reads(peer.transport)
    peer.connection.received(said[:300_000], NOW)
    if before:
        assert reads(peer.transport)
        house.node.set_alarm("memory", "low on memory", NOW)
    assert not reads(peer.transport)
    house.node.set_alarm("memory", "", NOW)
    assert reads(peer.transport)
    peer.connection.received(said[300_000:], NOW)
    assert house.node.state.vhost("/").queues["q"].message_count == 1


@pytest.mark.parametrize("before", [True, False], ids=["before the alarm", "during the alarm"])
def test_an_amqp_1_0_client_in_the_middle_of_a_delivery_is_not_read_while_the_alarm_lasts(
    before: bool,
) -> None:
    house = House10()
    queue = house.declare("q")
    peer = house.connect()
    sender = peer.sender(peer.begin(), "/queues/q")
    sender.put(bytes(500_000))
    said = peer.said()
    if not before:
        house.node.set_alarm("memory", "low on memory", house.now)
    peer.connection.received(said[:300_000], house.now)
    if before:
        assert reads(peer.transport)
        house.node.set_alarm("memory", "low on memory", house.now)
    assert not reads(peer.transport)
    house.node.sweep(house.now + 10_000_000, 0)
    assert not peer.is_over
    house.node.set_alarm("memory", "", house.now)
    assert reads(peer.transport)
    peer.connection.received(said[300_000:], house.now)
    assert queue.message_count == 1


def test_an_amqp_1_0_client_that_hangs_up_in_the_middle_of_a_delivery_is_read_to_its_end() -> None:
    house = House10()
    house.declare("q")
    peer = house.connect()
    peer.sender(peer.begin(), "/queues/q").put(bytes(500_000))
    said = peer.said()
    peer.connection.received(said[:300_000], house.now)
    house.node.set_alarm("memory", "low on memory", house.now)
    house.node.sweep(house.now, 0)
    assert not reads(peer.transport)
    peer.transport.is_hung_up = True
    house.node.sweep(house.now, 0)
    assert reads(peer.transport)
    peer.connection.received(said[300_000:400_000], house.now)
    assert reads(peer.transport)


def test_a_consumer_that_does_not_publish_is_read_while_the_alarm_lasts() -> None:
    house = House()
    peer = house.client()
    house.node.set_alarm("memory", "low on memory", NOW)
    peer.call(m.QueueDeclare("q"))
    assert reads(peer.transport)


# Far below what five clients send, and so is what the kernel keeps of it.
SERVED_LIMIT = 24 * 1024 * 1024
LARGE_BODY = 100 * 1024 * 1024
CLIENTS = 5
READ_BYTES = 256 * 1024
SECONDS_MAX = 60.0


class Pusher:
    """Sends a body for as long as the kernel takes it. Held by one test."""

    def __init__(self, running: Running) -> None:
        host, port = running.address
        self.connection = RawConnection(host, port)
        self.connection.open("guest", "guest", "/")
        self.connection.open_channel(1)
        self.socket: socket.socket = self.connection.socket
        self.socket.setblocking(False)
        method = b"\x00\x3c\x00\x28" + b"\x00\x00\x00\x01q\x00"
        fragment = frame(BODY, 1, bytes(100_000))
        self._unsent = frame(1, 1, method) + frame(HEADER, 1, header_payload(LARGE_BODY))
        self._fragment = fragment
        self.sent = 0

    def push(self) -> bool:
        """False when the kernel takes no more."""
        try:
            count = self.socket.send(self._unsent)
        except BlockingIOError:
            return False
        self.sent += count
        self._unsent = self._unsent[count:] or self._fragment
        return True


def test_clients_that_send_large_bodies_at_once_go_past_the_limit_by_little() -> None:
    uvloop.run(_go_past_the_limit())


async def _go_past_the_limit() -> None:
    running = await start(ServerConfiguration(port=0, memory_bytes_max=SERVED_LIMIT))
    node = running.node
    node.apply_to_vhost("/", DeclareQueue("q"), running.server.now())
    pushers = [await asyncio.to_thread(Pusher, running) for _ in range(CLIENTS)]
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while any([pusher.push() for pusher in pushers]) or not node.container.alarm:
            assert time.monotonic() < deadline, "the clients were never stopped"
            # The server has this thread: it reads between two sends.
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        # This process is larger than its limit, so half of it is what raises the alarm.
        assert resident_bytes() > SERVED_LIMIT * RESIDENT_FRACTION
        past = node.held_bytes() - SERVED_LIMIT * HELD_FRACTION
        assert past < flood_bytes(SERVED_LIMIT) + CLIENTS * READ_BYTES
        # The kernel has taken more than that, so they would have gone on.
        assert sum(pusher.sent for pusher in pushers) > node.held_bytes()
        # Nobody reads them, and yet it is noticed that they are gone.
        for pusher in pushers:
            pusher.socket.close()
        while node.container.alarm or node.connections:
            assert time.monotonic() < deadline, "what dead clients hold keeps the alarm on"
            await asyncio.sleep(0.01)
        assert node.held_bytes() == 0
    finally:
        for pusher in pushers:
            with contextlib.suppress(OSError):
                pusher.socket.close()
        await running.stop(0)
