"""A cursor that was put or deleted is answered when that would survive a power loss."""

import asyncio
from typing import cast

import pytest
from starlette.requests import Request
from starlette.types import Message

from penstock.broker.streams.stream import Stream
from penstock.broker.topology import DeclareQueue
from penstock.node.node import Node
from penstock.server.http.line import BrokerLine
from penstock.server.http.login import Caller, Doorkeeper
from penstock.server.http.stream_pages import StreamPages
from penstock.server.server import Server
from tests.broker.store.durable_house import DurableHouse
from tests.seeds.doubles import NOW

# Turns of the loop after which everything that was asked has been answered.
TURNS = 10


class OpenDoor:
    async def let_in(self, request: Request) -> Caller:
        return Caller("guest", ("administrator",))


class LoopServer:
    """A node whose ticks happen on the test's loop."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def now(self) -> int:
        return NOW

    def schedule_flush(self) -> None:
        asyncio.get_running_loop().call_soon(self.node.flush, NOW)


def asking(method: str) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": b'{"offset": 0}'}

    parts = {"vhost": "%2F", "name": "s", "cursor": "c"}
    scope = {"type": "http", "method": method, "path_params": parts, "headers": []}
    return Request(scope, receive)


async def settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_cursor_is_answered_after_the_flush(method: str) -> None:
    house = DurableHouse()
    vhost = house.node.state.vhost("/")
    vhost.apply(DeclareQueue("s", durable=True, arguments={"x-queue-type": "stream"}), NOW)
    stream = vhost.queue("s")
    assert isinstance(stream, Stream)
    if method == "DELETE":
        stream.set_cursor("c", 0, NOW)
    house.node.flush(NOW)
    house.flushed()

    async def run() -> None:
        server = cast("Server", LoopServer(house.node))
        line = BrokerLine(server, asyncio.get_running_loop())
        pages = StreamPages(line, cast("Doorkeeper", OpenDoor()), None)
        page = pages.put_cursor if method == "PUT" else pages.delete_cursor
        answer = asyncio.create_task(page(asking(method)))
        await settle()
        assert len(stream.cursors()) == (method == "PUT"), "it is done"
        assert not answer.done(), "and not said before it is safe"
        house.flushed()
        await settle()
        assert (await answer).status_code in {200, 204}

    asyncio.run(run())
