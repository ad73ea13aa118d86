"""A WebSocket's bridge to the broker: order, back-pressure both ways, ends."""

import asyncio

import pytest

from penstock.server.http.bridge import (
    IN_BYTES_MAX,
    MESSAGE_BYTES_OUT,
    OUT_BYTES_HIGH,
    OUT_BYTES_MAX,
    WebSocketBridge,
)
from tests.server.http.doubles import HearingServer, OneConnectionNode, line_to, node_of

# Turns of the loop after which everything that was rung has been heard.
TURNS = 5


async def settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def bridged(takes: bool = True) -> tuple[WebSocketBridge, HearingServer]:
    server = HearingServer(OneConnectionNode(takes))
    bridge = WebSocketBridge(line_to(server))
    assert bridge.connect(node_of(server), "127.0.0.1", True, 0) is takes
    return bridge, server


def test_what_comes_is_heard_in_order() -> None:
    async def run() -> None:
        bridge, server = bridged()
        for number in range(10):
            await bridge.offer(b"%d" % number)
        await settle()
        assert b"".join(server.heard) == b"0123456789"

    asyncio.run(run())


def test_a_broker_that_does_not_read_stops_the_peer_and_loses_nothing() -> None:
    async def run() -> None:
        bridge, server = bridged()
        bridge.pause_reading()
        pieces = [bytes([number]) * (IN_BYTES_MAX // 4) for number in range(8)]
        accepted = 0

        async def offer() -> None:
            nonlocal accepted
            for piece in pieces:
                await bridge.offer(piece)
                accepted += 1

        task = asyncio.create_task(offer())
        await settle()
        assert server.heard == []
        assert accepted == 4, "the fifth goes above the mark and waits"
        bridge.resume_reading()
        await asyncio.wait_for(task, 5)
        await settle()
        assert b"".join(server.heard) == b"".join(pieces)

    asyncio.run(run())


def test_what_waits_for_the_broker_is_counted() -> None:
    async def run() -> None:
        bridge, _ = bridged()
        bridge.pause_reading()
        await bridge.offer(bytes(1000))
        await bridge.offer(bytes(500))
        await settle()
        assert bridge.unheard_bytes() == 1500
        bridge.resume_reading()
        await settle()
        assert bridge.unheard_bytes() == 0

    asyncio.run(run())


def test_a_peer_that_does_not_read_stops_deliveries_until_it_does() -> None:
    async def run() -> None:
        bridge, server = bridged()
        connection = server.node.connection
        assert connection is not None
        seen = connection.outgoing
        piece = b"x" * 200_000
        count = OUT_BYTES_HIGH // len(piece)
        for _ in range(count):
            bridge.write(piece)
        assert seen.is_writable()
        bridge.write(piece)
        assert not seen.is_writable()
        carried = 0
        while carried < (count + 1) * len(piece):
            message = await bridge.taken()
            assert 0 < len(message) <= MESSAGE_BYTES_OUT
            bridge.sent(len(message))
            carried += len(message)
        await settle()
        assert seen.is_writable()
        assert carried == (count + 1) * len(piece)

    asyncio.run(run())


def test_a_peer_that_never_reads_is_cut_off() -> None:
    async def run() -> None:
        bridge, _ = bridged()
        for _ in range(OUT_BYTES_MAX // (4 << 20) + 1):
            bridge.write(b"x" * (4 << 20))
        await settle()
        assert bridge.is_aborted.is_set()
        assert await bridge.taken() == b""

    asyncio.run(run())


def test_a_close_lets_what_was_written_leave_first() -> None:
    async def run() -> None:
        bridge, _ = bridged()
        bridge.write(b"last words")
        bridge.close()
        bridge.write(b"too late")
        assert await bridge.taken() == b"last words"
        assert await bridge.taken() == b""

    asyncio.run(run())


def test_after_its_end_nothing_is_given_to_the_connection() -> None:
    async def run() -> None:
        bridge, server = bridged()
        bridge.lost()
        await settle()
        await bridge.offer(b"x")
        bridge.lost()
        await settle()
        assert server.heard == []
        assert server.lost_count == 1

    asyncio.run(run())


@pytest.mark.parametrize("verb", ["lost", "close", "abort"])
def test_a_refused_connection_ends_quietly(verb: str) -> None:
    async def run() -> None:
        bridge, server = bridged(takes=False)
        getattr(bridge, verb)()
        await settle()
        assert server.lost_count == 0

    asyncio.run(run())
