"""Questions about health, which wait for nothing; everything else is handed over whole."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from penstock import Broker
from penstock.node.node import Node
from penstock.server.health import TICK_MS_MAX
from penstock.server.http.front_door import WAITING_MAX, FrontDoor
from penstock.server.http.handover import Handover
from penstock.server.http.health import HealthPages
from penstock.server.server import Server
from tests.server.http.asking import serving
from tests.server.http.doubles import StillServer
from tests.server.http.raw_requests import (
    HOST,
    LOGIN,
    answer_to,
    first_answer,
    opened,
    port_of,
    request,
    said_until_end,
)

LIVE = request(b"GET /health/live")


class Opened:
    """A front door on a port of its own, and what it handed over. Held by a test."""

    def __init__(self, server: StillServer) -> None:
        self.server = server
        self.begun = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]
        self.handover = Handover(self.begun.set)
        self._waker, self._wakened = socket.socketpair()
        health = HealthPages(cast("Server", server))
        door = FrontDoor(
            [self._listening], self._wakened, health, self.handover, is_encrypted=False
        )
        self._thread = threading.Thread(target=door.run)
        self._thread.start()

    def taken(self) -> tuple[socket.socket, bytes]:
        assert self.begun.wait(60)
        [(accepted, said)] = self.handover.take()
        return accepted, said

    def close(self) -> None:
        self._waker.send(b"\0")
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.handover.end()
        self._listening.close()
        self._waker.close()
        self._wakened.close()


@pytest.fixture
def door() -> Iterator[Opened]:
    running = Opened(StillServer())
    yield running
    running.close()


def test_health_is_answered_here_again_and_again(door: Opened) -> None:
    with opened(door.port) as line:
        for path, status in ((b"live", b'{"status":"live"}'), (b"ready", b'{"status":"ready"}')):
            line.sendall(request(b"GET /health/%b" % path))
            said = first_answer(line)
            assert said.startswith(b"HTTP/1.1 200 OK\r\n")
            assert said.endswith(status)
    assert not door.begun.is_set()


def test_questions_in_pieces_and_one_behind_the_other_are_answered(door: Opened) -> None:
    with opened(door.port) as line:
        for octet in LIVE[:20]:
            line.sendall(bytes([octet]))
        line.sendall(LIVE[20:] + LIVE + request(b"GET /health/live", b"Connection: close\r\n"))
        assert said_until_end(line).count(b"HTTP/1.1 200 OK") == 3


def test_a_head_has_no_body(door: Opened) -> None:
    with opened(door.port) as line:
        line.sendall(request(b"HEAD /health/live", b"Connection: close\r\n"))
        assert said_until_end(line).endswith(b"\r\n\r\n")


def test_a_probe_in_http_1_0_is_answered_and_left(door: Opened) -> None:
    with opened(door.port) as line:
        line.sendall(b"GET /health/live HTTP/1.0\r\n\r\n")
        assert said_until_end(line).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "octets",
    [
        b"P",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /healthy HTTP/1.1\r\n\r\n",
        request(b"GET /health/other"),
        b"GET /health/live HTTP/1.1\r\n\r\n",
        b"GET /health/live HTTP/9.9\r\n" + HOST + b"\r\n",
        request(b"GET /health/live", body=b"x"),
        request(b"GET /health/live", b"x: " + b"x" * 5000),
    ],
)
def test_everything_else_is_handed_over_whole(door: Opened, octets: bytes) -> None:
    with opened(door.port) as line:
        line.sendall(octets)
        accepted, said = door.taken()
        with accepted:
            accepted.settimeout(60)
            while len(said) < len(octets):
                said += accepted.recv(65_536)
            assert said == octets
            accepted.sendall(b"served")
            assert line.recv(6) == b"served"


def test_another_request_behind_health_is_handed_over(door: Opened) -> None:
    with opened(door.port) as line:
        line.sendall(LIVE + request(b"GET /metrics"))
        assert first_answer(line).startswith(b"HTTP/1.1 200 ")
        accepted, said = door.taken()
        accepted.close()
        assert said == request(b"GET /metrics")


def test_a_broker_that_completes_no_tick_is_not_live(door: Opened) -> None:
    door.server.clock.time = TICK_MS_MAX + 1
    said = answer_to(door.port, LIVE)
    assert said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"retry-after: 5" in said
    assert b"the broker's event loop has not completed a tick for 10 s" in said


@pytest.mark.parametrize(
    ("failure", "is_stopping", "reason"),
    [("gone", False, b"the disk failed"), ("", True, b"the broker is stopping")],
)
def test_a_broker_that_takes_nobody_is_live_but_not_ready(
    door: Opened, failure: str, is_stopping: bool, reason: bytes
) -> None:
    door.server.node.storage_failure = failure
    door.server.node.is_stopping = is_stopping
    assert answer_to(door.port, LIVE).startswith(b"HTTP/1.1 200 ")
    said = answer_to(door.port, request(b"GET /health/ready"))
    assert said.startswith(b"HTTP/1.1 503 ")
    assert reason in said


def test_sockets_that_say_nothing_do_not_keep_others_out(door: Opened) -> None:
    silent = [opened(door.port) for _ in range(WAITING_MAX + 10)]
    try:
        assert answer_to(door.port, LIVE).startswith(b"HTTP/1.1 200 ")
        # The first ones have made room.
        assert silent[0].recv(1) == b""
    finally:
        for line in silent:
            line.close()


@contextmanager
def held_up(broker: Broker) -> Iterator[None]:
    """A broker whose thread does nothing else until the end."""
    is_held = threading.Event()
    let_go = threading.Event()

    def hold(node: Node, now: int) -> None:
        is_held.set()
        let_go.wait(60)

    holding = threading.Thread(target=broker._call, args=(hold,))
    holding.start()
    assert is_held.wait(60)
    try:
        yield
    finally:
        let_go.set()
        holding.join()


def test_health_does_not_wait_for_the_broker(broker: Broker) -> None:
    with held_up(broker):
        for path in (b"/health/live", b"/health/ready"):
            assert answer_to(port_of(broker), request(b"GET " + path)).startswith(b"HTTP/1.1 200 ")


def test_the_http_server_answers_health_without_the_broker_too(broker: Broker) -> None:
    """What the front door hands over."""
    with held_up(broker):
        long = request(b"GET /health/live", b"x: %b\r\n" % (b"x" * 5000))
        assert answer_to(port_of(broker), long).startswith(b"HTTP/1.1 200 ")


def test_health_does_not_wait_for_bodies_that_do_not_come() -> None:
    with serving() as broker:
        port = port_of(broker)
        body = b"Content-Length: 100\r\nExpect: 100-continue\r\n"
        slow = [opened(port) for _ in range(300)]
        try:
            for line in slow:
                line.sendall(request(b"POST /api/leases/%2F/q", LOGIN + body))
            answers = {line.recv(12) for line in slow}
            # All requests at once are taken.
            assert answers == {b"HTTP/1.1 100", b"HTTP/1.1 503"}
            for path in (b"GET /health/live", b"POST /health/live", b"GET /"):
                said = answer_to(port, request(path))
                assert said.startswith(b"HTTP/1.1 200 ") == (path == b"GET /health/live")
            long = request(b"GET /health/ready", b"x: %b\r\n" % (b"x" * 5000))
            assert answer_to(port, long).startswith(b"HTTP/1.1 200 ")
        finally:
            for line in slow:
                line.close()
