"""Bodies that do not come, and the rate at which they must."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from penstock.server.http.problems import Problem
from penstock.server.http.request_parts import body_of


class Trickle:
    """Sends one octet, then waits for the next; no end. Held by a test."""

    def __init__(self) -> None:
        self.count = 0

    async def receive(self) -> Message:
        self.count += 1
        if self.count > 3:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": b"x", "more_body": True}


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    trickle = Trickle()
    request = Request({"type": "http", "method": "POST", "headers": []}, trickle.receive)
    with pytest.raises(Problem, match="the body was received too slowly: 3 bytes") as found:
        asyncio.run(body_of(request, seconds=0.05))
    assert found.value.status == 408
    assert found.value.headers == {"Connection": "close"}


def test_a_body_that_keeps_up_has_more_time() -> None:
    """64 KiB are worth a second; without that, these four would come too late."""
    pieces = [b"x" * 65_536] * 4

    async def receive() -> Message:
        await asyncio.sleep(0.7)
        return {"type": "http.request", "body": pieces.pop(), "more_body": bool(pieces)}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    body = asyncio.run(body_of(request, bytes_max=1_000_000, seconds=2.0))
    assert len(body) == 4 * 65_536
