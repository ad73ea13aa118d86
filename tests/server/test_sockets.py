"""Who is read when: pauses and rests of one socket, and a busy one beside a quiet one."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from pika import spec

from penstock.server.launch import start
from penstock.server.running import Running
from penstock.server.server_configuration import ServerConfiguration
from penstock.server.sockets import READ_BYTES_FULL, SocketTransport
from penstock.server.write_limit import WRITE_BYTES_MAX
from tests.behaviour.raw import BODY, HEADER, RawConnection, frame, header_payload
from tests.server.doubles import ReadingTransport, WritingTransport

SECONDS_MAX = 20
BODY_BYTES = 4096
# What the event loop reads at once; a rest is due after every such read.
READ_BYTES = 256_000
# Enough ticks that a socket which is read at all has been read.
TICKS = 50
# The option's structure: on, zero seconds.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

PAUSE, RESUME, REST, GO_ON = "pause_reading", "resume_reading", "rest", "go_on"


@pytest.mark.parametrize(
    ("steps", "reads"),
    [
        ([], True),
        ([PAUSE], False),
        ([REST], False),
        ([PAUSE, REST, GO_ON], False),
        ([PAUSE, REST, RESUME], False),
        ([REST, PAUSE, GO_ON], False),
        ([REST, PAUSE, RESUME], False),
        ([PAUSE, REST, GO_ON, RESUME], True),
        ([PAUSE, REST, RESUME, GO_ON], True),
        ([PAUSE, PAUSE, RESUME], True),
        ([REST, REST, GO_ON], True),
        ([RESUME, GO_ON], True),
    ],
    ids=lambda value: ",".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_a_socket_is_read_when_it_is_neither_paused_nor_resting(
    steps: list[str], reads: bool
) -> None:
    transport = ReadingTransport()
    socket_transport = SocketTransport(transport)
    for step in steps:
        getattr(socket_transport, step)()
    assert transport.reads == reads


@pytest.mark.parametrize("step", [PAUSE, RESUME, REST, GO_ON])
def test_a_socket_that_closes_while_it_rests_is_left_alone(step: str) -> None:
    transport = ReadingTransport()
    socket_transport = SocketTransport(transport)
    socket_transport.rest()
    transport.is_closed = True
    getattr(socket_transport, step)()
    assert transport.told == 1


def test_pieces_are_written_as_they_are() -> None:
    transport = WritingTransport()
    SocketTransport(transport).write_pieces([b"head", b"body"])
    assert transport.pieces == [b"head", b"body"]
    assert not transport.is_aborted


def test_pieces_for_a_peer_that_does_not_read_end_its_connection() -> None:
    transport = WritingTransport()
    transport.held_bytes = WRITE_BYTES_MAX + len(b"headbody") + 1
    SocketTransport(transport).write_pieces([b"head", b"body"])
    assert transport.is_aborted


def test_pieces_for_a_socket_that_closes_are_dropped() -> None:
    transport = WritingTransport()
    transport.is_closed = True
    SocketTransport(transport).write_pieces([b"head", b"body"])
    assert transport.pieces == []


class Clients:
    """Raw connections to a broker on this thread's own loop: what they send waits in the kernel
    until the story lets the loop go on. Held by one test.
    """

    def __init__(self, running: Running) -> None:
        self.running = running
        self._opened: list[RawConnection] = []

    async def open(self, queue: str) -> RawConnection:
        """Logged in, with a queue; the handshake needs a thread, because the broker has this one."""
        return await asyncio.to_thread(self._open, queue)

    def _open(self, queue: str) -> RawConnection:
        host, port = self.running.address
        connection = RawConnection(host, port)
        self._opened.append(connection)
        connection.open("guest", "guest", "/")
        connection.open_channel(1)
        connection.call(1, spec.Queue.Declare(queue=queue), spec.Queue.DeclareOk)
        return connection

    def depth(self, queue: str) -> int:
        return self.running.node.state.vhost("/").queues[queue].message_count

    def close(self) -> None:
        for connection in self._opened:
            connection.socket.close()


def publishes(queue: str) -> bytes:
    publish = spec.Basic.Publish(exchange="", routing_key=queue).encode()
    method = b"\x00\x3c\x00\x28" + b"".join(publish)
    return (
        frame(1, 1, method)
        + frame(HEADER, 1, header_payload(BODY_BYTES))
        + frame(BODY, 1, bytes(BODY_BYTES))
    )


class Flood:
    """A publisher that sends as much as the kernel takes. Held by one test."""

    def __init__(self, clients: Clients, connection: RawConnection) -> None:
        self.connection = connection
        self._clients = clients
        self._message = publishes("flooded")
        self._taken = 0
        connection.socket.setblocking(False)

    @property
    def sent(self) -> int:
        """Messages sent in full."""
        return self._taken // len(self._message)

    @property
    def arrived(self) -> int:
        return self._clients.depth("flooded")

    def fill(self) -> None:
        """Send until the kernel takes no more, without letting the broker read."""
        before = self.sent
        with contextlib.suppress(BlockingIOError):
            while True:
                begun = self._taken % len(self._message)
                self._taken += self.connection.socket.send(self._message[begun:])
        assert (self.sent - before) * BODY_BYTES > 8 * READ_BYTES, "too little to be a flood"


async def open_flood(clients: Clients) -> Flood:
    """With a first flood behind it: the kernel offers a large window to who has filled a small
    one, and only then reads are full.
    """
    flood = Flood(clients, await clients.open("flooded"))
    flood.fill()
    await until(lambda: flood.arrived == flood.sent)
    return flood


def play(story: Callable[[Clients], Awaitable[None]]) -> None:
    async def played() -> None:
        running = await start(ServerConfiguration(port=0))
        clients = Clients(running)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await story(clients)
        finally:
            clients.close()
            await running.stop()

    uvloop.run(played())


async def ticks(count: int = TICKS) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def read_some(raw: socket.socket) -> bytes:
    raw.setblocking(False)
    return await asyncio.get_running_loop().sock_recv(raw, 65536)


def test_a_flood_does_not_keep_a_message_from_another_connections_consumer() -> None:
    async def story(clients: Clients) -> None:
        flood, quiet = await open_flood(clients), await clients.open("q")
        consumer = await clients.open("q")
        consume = spec.Basic.Consume(queue="q", no_ack=True)
        await asyncio.to_thread(consumer.call, 1, consume, spec.Basic.ConsumeOk)
        before = flood.arrived
        # All of it is readable when the broker looks next, the flood before the one message.
        flood.fill()
        quiet.send(publishes("q"))
        assert b"\x00\x3c\x00\x3c" in await read_some(consumer.socket), "no basic.deliver"
        # One read of the flood comes before the message, one more while the consumer is told.
        assert (flood.arrived - before) * BODY_BYTES <= 2 * READ_BYTES
        await until(lambda: flood.arrived == flood.sent)

    play(story)


def test_a_publisher_that_rests_and_is_blocked_goes_on_when_neither_holds() -> None:
    async def story(clients: Clients) -> None:
        flood = await open_flood(clients)
        node, server = clients.running.node, clients.running.server
        read_before = flood.arrived
        # The story's turn comes after a read and before the end of its tick. A read is not always
        # full: the kernel hands over what it has.
        while (flood.arrived - read_before + 1) * BODY_BYTES <= READ_BYTES_FULL:
            read_before = flood.arrived
            if read_before == flood.sent:
                flood.fill()
            await asyncio.sleep(0)
        read_once = flood.arrived
        node.set_alarm("test", "low on memory", server.now())
        # The rest is over after its tick, the alarm is not.
        await ticks()
        assert flood.arrived == read_once
        node.set_alarm("test", "", server.now())
        await until(lambda: flood.arrived == flood.sent)

    play(story)


def test_a_publisher_that_leaves_while_it_rests_disturbs_nobody() -> None:
    async def story(clients: Clients) -> None:
        flood = await open_flood(clients)
        before = flood.arrived
        flood.fill()
        await until(lambda: flood.arrived > before)
        flood.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        flood.connection.socket.close()
        await until(lambda: not clients.running.node.connections)
        # The server still takes and serves connections.
        await clients.open("q")
        assert clients.depth("q") == 0

    play(story)
