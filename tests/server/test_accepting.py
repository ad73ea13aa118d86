"""Accepting when there is no room: by a listening socket that says what a test wants."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from structlog.testing import capture_logs

from penstock.server.accepting import LOG_SECONDS, PAUSE_SECONDS, Acceptor, Refusals

SECONDS_MAX = 20


class ScarceListener(socket.socket):
    """Fails with these errors, one after the other, before it accepts anybody."""

    errors: list[int]

    def accept(self) -> tuple[socket.socket, object]:
        if self.errors:
            number = self.errors.pop(0)
            raise OSError(number, os.strerror(number))
        return super().accept()


class Room:
    """An acceptor and what it did. Held by one test."""

    def __init__(self, errors: list[int]) -> None:
        self.listening = ScarceListener(socket.AF_INET, socket.SOCK_STREAM)
        self.listening.errors = errors
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen(10)
        self.listening.setblocking(False)
        self.accepted: list[asyncio.Protocol] = []
        self.room_made = 0
        self.acceptor = Acceptor(self.listening, self._protocol, Refusals(), self._make_room)

    def _protocol(self) -> asyncio.Protocol:
        protocol = asyncio.Protocol()
        self.accepted.append(protocol)
        return protocol

    def _make_room(self) -> None:
        self.room_made += 1

    async def connect(self) -> socket.socket:
        raw = socket.socket()
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, self.listening.getsockname())
        return raw


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.005)


def test_without_descriptors_a_peer_is_closed_with_the_one_that_was_kept() -> None:
    async def story() -> None:
        room = Room([errno.EMFILE])
        raw = await room.connect()
        async with asyncio.timeout(SECONDS_MAX):
            assert await asyncio.get_running_loop().sock_recv(raw, 1) == b""
        assert room.accepted == []
        assert room.room_made == 1
        # The next one finds room.
        other = await room.connect()
        await until(lambda: len(room.accepted) == 1)
        room.acceptor.close()
        raw.close()
        other.close()

    with capture_logs() as said:
        asyncio.run(story())
    assert [line["event"] for line in said] == ["refused connections"]


def test_when_nothing_helps_it_is_tried_again_later() -> None:
    async def story() -> None:
        # Not even with the spare one, and then the network's own trouble.
        room = Room([errno.ENFILE, errno.ENFILE, errno.EPROTO])
        loop = asyncio.get_running_loop()
        began = loop.time()
        raw = await room.connect()
        await until(lambda: len(room.accepted) == 1)
        assert loop.time() - began >= 2 * PAUSE_SECONDS * 0.9
        room.acceptor.close()
        raw.close()

    asyncio.run(story())


def test_closing_twice_and_while_it_pauses_is_in_order() -> None:
    async def story() -> None:
        room = Room([errno.ENFILE, errno.ENFILE])
        raw = await room.connect()
        await until(lambda: room.room_made == 1)
        room.acceptor.close()
        room.acceptor.close()
        await asyncio.sleep(PAUSE_SECONDS * 1.2)
        assert room.accepted == []
        raw.close()

    asyncio.run(story())


def test_refusals_are_logged_once_and_then_counted() -> None:
    refusals = Refusals()
    with capture_logs() as said:
        for seconds in (0.0, 1.0, LOG_SECONDS - 1, LOG_SECONDS, LOG_SECONDS + 1):
            refusals.add("full", seconds)
    assert [line["count"] for line in said] == [1, 3]
