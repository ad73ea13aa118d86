"""Whatever ends a connection, nothing of it stays open: neither for a loop that ends at once, nor for
one that runs on.
"""

import asyncio
import gc
import ssl
import warnings
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from penstock import Broker
from penstock.client import asynchronous
from penstock.client.asynchronous_reconnect import connect_lasting
from penstock.client.errors import ClientError, ConnectFailed
from tests.client.certificates import make_authority
from tests.client.silent_peer import SilentPeer
from tests.client.terminator import Terminator

SECONDS_MAX = 30
# What a broker answers to a client whose version of the protocol it does not speak.
OTHER_VERSION = b"AMQP\x03\x01\x00\x00"
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
# The loop takes a turn for each step of opening a connection; a cancelled one is tried at each.
TURNS_MAX = 40

Loop = Callable[[], asyncio.AbstractEventLoop]
each_loop = pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    authority = make_authority(tmp_path_factory.mktemp("authority"), "authority")
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(*authority.sign("broker", "DNS:localhost"))
    return made


def uri(port: int, **parameters: object) -> str:
    query = "".join(f"&{name}={value}" for name, value in parameters.items())
    return f"amqps://127.0.0.1:{port}?verify=verify_none{query}"


def play(loop: Loop, story: Callable[[], Awaitable[None]]) -> None:
    """Fails for every socket and transport that the story leaves to the garbage collector."""

    async def played() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await story()

    gc.collect()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(played())
        gc.collect()
    assert [str(warning.message) for warning in seen] == []


@each_loop
def test_a_refused_connection_is_closed_although_the_peer_does_not_take_leave(
    context: ssl.SSLContext, loop: Loop
) -> None:
    async def story() -> None:
        with pytest.raises(ClientError):
            await asynchronous.connect(uri(peer.port))

    with SilentPeer(context, b"", OTHER_VERSION) as peer:
        play(loop, story)


@each_loop
def test_a_peer_that_speaks_first_is_heard(context: ssl.SSLContext, loop: Loop) -> None:
    async def story() -> None:
        with pytest.raises(ClientError, match="unknown frame type 42"):
            await asynchronous.connect(uri(peer.port))

    with SilentPeer(context, b"* OK IMAP4rev1 ready\r\n", b"") as peer:
        play(loop, story)


@each_loop
@pytest.mark.parametrize("handshake", [True, False], ids=["after", "during"])
def test_a_login_that_is_cancelled_after_or_during_the_handshake_is_closed(
    context: ssl.SSLContext, loop: Loop, handshake: bool
) -> None:
    async def story() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asynchronous.connect(uri(peer.port))

    with SilentPeer(context if handshake else None, b"", b"") as peer:
        play(loop, story)


@each_loop
def test_a_handshake_that_takes_too_long_is_closed(loop: Loop) -> None:
    async def story() -> None:
        with pytest.raises(ConnectFailed, match="timed out"):
            await asynchronous.connect(uri(peer.port, connection_timeout=200))

    with SilentPeer(None, b"", b"") as peer:
        play(loop, story)


@each_loop
@pytest.mark.parametrize("scheme", ["amqp", "amqps"])
def test_a_login_can_be_cancelled_in_every_turn_of_the_loop(
    broker: Broker, context: ssl.SSLContext, loop: Loop, scheme: str
) -> None:
    async def story() -> None:
        for turns in range(TURNS_MAX):
            opening = asyncio.ensure_future(asynchronous.connect(address))
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
            if not opening.cancelled():
                await opening.result().close()

    with Terminator(context, broker.port) as terminator:
        address = uri(terminator.port) if scheme == "amqps" else broker.url
        play(loop, story)


@each_loop
def test_closing_a_connection_that_the_peer_ended_waits_for_the_socket(
    context: ssl.SSLContext, broker: Broker, loop: Loop
) -> None:
    async def story() -> None:
        connection = await asynchronous.connect(uri(terminator.port))
        assert broker.drop_connections() == 1
        await connection.wait_ended()
        await connection.close()

    with Terminator(context, broker.port) as terminator:
        play(loop, story)


@each_loop
def test_a_close_that_is_cancelled_closes_the_socket(
    context: ssl.SSLContext, broker: Broker, loop: Loop
) -> None:
    async def story() -> None:
        # From the first turn on: before it the task has not begun to close anything.
        for turns in range(1, TURNS_MAX):
            connection = await asynchronous.connect(uri(terminator.port))
            closing = asyncio.ensure_future(connection.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait([closing])

    with Terminator(context, broker.port) as terminator:
        play(loop, story)


@each_loop
def test_a_lasting_connection_leaves_nothing_of_those_it_lost(
    context: ssl.SSLContext, broker: Broker, loop: Loop
) -> None:
    async def story() -> None:
        async with await connect_lasting(uri(terminator.port)) as connection:
            assert broker.drop_connections() == 1
            while not connection.restored_count:
                await asyncio.sleep(0.01)
            assert broker.drop_connections() == 1

    with Terminator(context, broker.port) as terminator:
        play(loop, story)
