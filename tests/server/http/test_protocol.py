"""One connection of the HTTP server, on a loop whose timers the test lets run out."""

import asyncio
from collections.abc import Callable
from typing import cast

import uvicorn
from uvicorn.server import ServerState

from penstock.server.http.protocol import FileSendingProtocol
from penstock.server.http.rest_of_body import DROPPED_BYTES_MAX, DROPPED_SECONDS
from penstock.server.http.settings import SOCKETS_MAX
from tests.server.http.raw_requests import request


class HeldTimers:
    """A loop that runs nothing by itself."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        timer = (delay, call)
        self.timers.append(timer)
        return cast("asyncio.TimerHandle", HeldTimer(self, timer))


class HeldTimer:
    def __init__(self, loop: HeldTimers, timer: tuple[float, Callable[[], None]]) -> None:
        self._loop = loop
        self._timer = timer

    def cancel(self) -> None:
        if self._timer in self._loop.timers:
            self._loop.timers.remove(self._timer)


class KeptTransport:
    """Keeps what is written, and how it ended."""

    def __init__(self, takes: bool = True) -> None:
        self._takes = takes
        self.written = b""
        self.end = ""
        self.is_written_out = False
        self.protocol: object = None

    def get_extra_info(self, name: str) -> object:
        return None

    def get_protocol(self) -> object:
        return self.protocol

    def get_write_buffer_size(self) -> int:
        return 0 if self._takes else len(self.written)

    def is_closing(self) -> bool:
        return bool(self.end)

    def write(self, data: bytes) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_written_out = True

    def close(self) -> None:
        self.end = self.end or "closed"

    def abort(self) -> None:
        self.end = "aborted"

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def _nobody(scope: object, receive: object, send: object) -> None:
    raise AssertionError("no request is whole here")


CONFIG = uvicorn.Config(_nobody, http=FileSendingProtocol, log_config=None, lifespan="off")


def connected(
    loop: HeldTimers, state: ServerState, said: bytes = b"", takes: bool = True
) -> tuple[FileSendingProtocol, KeptTransport]:
    transport = KeptTransport(takes)
    protocol = FileSendingProtocol(CONFIG, state, {}, cast("asyncio.AbstractEventLoop", loop), said)
    transport.protocol = protocol
    protocol.connection_made(cast("asyncio.Transport", transport))
    return protocol, transport


def test_half_a_head_is_waited_for_only_so_long() -> None:
    loop = HeldTimers()
    protocol, transport = connected(loop, ServerState(), request(b"GET /")[:-2])
    protocol.data_received(b"x: y\r\n")
    [(delay, lose_patience)] = loop.timers
    assert delay == 15
    lose_patience()
    assert transport.written.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"no complete request was received within 15 s" in transport.written
    assert transport.end == "closed"
    # Cut off if it does not take that either.
    [_, (_, cut)] = loop.timers
    cut()
    assert transport.end == "aborted"


def test_a_peer_that_does_not_take_its_answer_is_cut_off_with_its_memory() -> None:
    for takes, end in ((True, "closed"), (False, "aborted")):
        protocol, transport = connected(HeldTimers(), ServerState(), takes=takes)
        transport.write(b"an answer")
        protocol.timeout_keep_alive_handler()
        assert transport.end == end


def test_a_new_connection_makes_room_for_itself() -> None:
    """The one that has waited longest goes."""
    loop = HeldTimers()
    state = ServerState()
    ends = []
    for number in range(SOCKETS_MAX):
        # The third is the oldest.
        loop.now = -1.0 if number == 2 else number
        ends.append(connected(loop, state)[1])
    loop.now = SOCKETS_MAX
    _, newest = connected(loop, state)
    assert [at for at, transport in enumerate(ends) if transport.end] == [2]
    assert ends[2].end == "aborted"
    assert not newest.end


def refused(loop: HeldTimers) -> tuple[FileSendingProtocol, KeptTransport]:
    """A connection whose request was answered before it was complete."""
    protocol, transport = connected(loop, ServerState())
    protocol.data_received(b"GET /" + b"a" * 100_000)
    assert transport.written.startswith(b"HTTP/1.1 431 ")
    assert transport.is_written_out
    return protocol, transport


def test_what_comes_after_the_last_answer_is_dropped_up_to_a_limit() -> None:
    loop = HeldTimers()
    protocol, transport = refused(loop)
    answer = transport.written
    megabyte = bytes(1 << 20)
    for _ in range(DROPPED_BYTES_MAX // len(megabyte)):
        protocol.data_received(megabyte)
    assert not transport.is_closing()
    protocol.data_received(b"x")
    assert transport.is_closing()
    assert transport.written == answer


def test_what_comes_after_the_last_answer_is_dropped_for_a_limited_time() -> None:
    loop = HeldTimers()
    protocol, transport = refused(loop)
    protocol.data_received(b"x")
    [(delay, cut)] = loop.timers
    assert delay == DROPPED_SECONDS
    assert not transport.is_closing()
    cut()
    assert transport.end == "aborted"
    protocol.connection_lost(None)
    assert not loop.timers
