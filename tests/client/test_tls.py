"""`amqps`: both skins through a TLS terminator, and every way of not trusting it."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from penstock import Broker
from penstock.client import asynchronous, blocking
from penstock.client.asynchronous_reconnect import connect_lasting
from penstock.client.calls import consume, declare_queue, limit_prefetch
from penstock.client.errors import ClientError, ConnectFailed, UriInvalid
from penstock.client.uri import decode_uri
from tests.client.certificates import Authority, make_authority
from tests.client.terminator import Terminator

SECONDS_MAX = 30
COUNT = 200
# Larger than a TLS record, than a frame and, all together, than any socket's buffer.
BODY = bytes(range(256)) * 1024
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="module")
def server_context(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.sign("broker", "DNS:localhost,DNS:broker.example"))
    return context


@pytest.fixture
def port(broker: Broker, server_context: ssl.SSLContext) -> Iterator[int]:
    with Terminator(server_context, broker.port) as terminator:
        yield terminator.port


def uri(port: int, host: str = "localhost", **parameters: object) -> str:
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return f"amqps://{host}:{port}/%2F?{query}"


def blocking_trip(address: str) -> None:
    """Large messages both ways, with more of them under way than buffers hold."""
    with blocking.connect(address) as connection, connection.channel() as channel:
        queue = channel.call(declare_queue(exclusive=True)).queue
        channel.select_confirms(window=COUNT)
        channel.publish_batch("", ((queue, b"%d " % number + BODY) for number in range(COUNT)))
        channel.wait_for_confirms()
        channel.call(limit_prefetch(COUNT))
        channel.call(consume(queue))
        for number, message in zip(range(COUNT), channel.messages(SECONDS_MAX), strict=False):
            assert message.body == b"%d " % number + BODY
            channel.ack(message)
        assert number == COUNT - 1


async def asynchronous_trip(address: str) -> None:
    async with asyncio.timeout(SECONDS_MAX), await asynchronous.connect(address) as connection:
        channel = await connection.channel()
        queue = (await channel.call(declare_queue(exclusive=True))).queue
        await channel.select_confirms(window=COUNT)
        waiting = [
            await channel.publish_soon("", queue, b"%d " % number + BODY) for number in range(COUNT)
        ]
        await asyncio.gather(*waiting)
        await channel.call(limit_prefetch(COUNT))
        await channel.call(consume(queue))
        received = 0
        async for message in channel.messages():
            assert message.body == b"%d " % received + BODY
            channel.ack(message)
            received += 1
            if received == COUNT:
                break


def run_blocking(address: str) -> None:
    blocking.connect(address).close()


def run_asynchronous(address: str) -> None:
    async def connect() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await (await asynchronous.connect(address)).close()

    asyncio.run(connect())


Skin = Callable[[str], None]
both_skins = pytest.mark.parametrize("skin", [run_blocking, run_asynchronous])


def test_the_blocking_skin_carries_messages(authority: Authority, port: int) -> None:
    blocking_trip(uri(port, cacertfile=authority.certificate))


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
def test_the_asyncio_skin_carries_messages(
    authority: Authority, port: int, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asynchronous_trip(uri(port, cacertfile=authority.certificate)))


def test_a_lasting_connection_comes_back(broker: Broker, authority: Authority, port: int) -> None:
    address = uri(port, cacertfile=authority.certificate)

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), await connect_lasting(address) as connection:
            channel = await connection.channel()
            await channel.call(declare_queue("q"))
            assert broker.drop_connections() == 1
            while not connection.restored_count:
                await asyncio.sleep(0.01)
            await channel.publish("", "q", b"again")
            message = await channel.get("q")
            assert message is not None

    asyncio.run(story())


@both_skins
def test_the_broker_says_what_is_wrong_as_in_the_clear(
    authority: Authority, port: int, skin: Skin
) -> None:
    address = uri(port, cacertfile=authority.certificate).replace("//", "//guest:wrong@", 1)
    with pytest.raises(ClientError, match="ACCESS_REFUSED"):
        skin(address)


@both_skins
def test_an_authority_that_is_not_trusted_is_a_clear_error(
    stranger: Authority, port: int, skin: Skin
) -> None:
    address = uri(port, cacertfile=stranger.certificate)
    with pytest.raises(ConnectFailed, match="certificate verify failed") as failed:
        skin(address)
    assert f"localhost:{port}" in str(failed.value)


@both_skins
def test_the_systems_authorities_are_asked_when_none_is_named(port: int, skin: Skin) -> None:
    with pytest.raises(ConnectFailed, match="certificate verify failed"):
        skin(uri(port))


@both_skins
def test_a_certificate_for_another_host_is_a_clear_error(
    authority: Authority, port: int, skin: Skin
) -> None:
    with pytest.raises(ConnectFailed, match=r"IP address mismatch.*127\.0\.0\.1"):
        skin(uri(port, "127.0.0.1", cacertfile=authority.certificate))


@both_skins
def test_the_name_to_expect_can_be_given(authority: Authority, port: int, skin: Skin) -> None:
    address = uri(port, "127.0.0.1", cacertfile=authority.certificate)
    skin(address + "&server_name_indication=broker.example")


@both_skins
def test_verification_can_be_switched_off(port: int, skin: Skin) -> None:
    skin(uri(port, "127.0.0.1", verify="verify_none"))


@pytest.fixture
def strict_port(broker: Broker, authority: Authority) -> Iterator[int]:
    """Of a terminator that wants to see its clients' certificates. TLS 1.2, because in 1.3 a client
    hears only after the handshake that its certificate was missing.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.load_cert_chain(*authority.sign("strict", "DNS:localhost"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with Terminator(context, broker.port) as terminator:
        yield terminator.port


@both_skins
def test_a_client_shows_its_certificate(authority: Authority, strict_port: int, skin: Skin) -> None:
    certificate, key = authority.sign("client", "DNS:client.example")
    address = uri(strict_port, cacertfile=authority.certificate)
    with pytest.raises(ConnectFailed):
        skin(address)
    skin(f"{address}&certfile={certificate}&keyfile={key}")


@both_skins
@pytest.mark.parametrize("parameter", ["cacertfile", "certfile"])
def test_a_file_that_is_missing_or_no_certificate_is_named(
    port: int, skin: Skin, parameter: str, tmp_path: Path
) -> None:
    file = tmp_path / "it.pem"
    address = f"amqps://localhost:{port}?{parameter}={file}"
    with pytest.raises(UriInvalid, match=f"{parameter}.*it.pem: No such file"):
        skin(address)
    file.write_text("no certificate")
    with pytest.raises(UriInvalid, match=f"{parameter}.*it.pem"):
        skin(address)


@both_skins
def test_tls_at_a_plain_port_is_a_clear_error(broker: Broker, skin: Skin) -> None:
    with pytest.raises(ConnectFailed, match=f"localhost:{broker.port}.*SSL"):
        skin(uri(broker.port, verify="verify_none"))


@both_skins
def test_a_plain_line_to_a_tls_port_does_not_hang(port: int, skin: Skin) -> None:
    with pytest.raises(ClientError):
        skin(f"amqp://localhost:{port}")


def test_the_next_address_is_tried_when_one_is_not_trusted(
    authority: Authority, stranger: Authority, port: int
) -> None:
    good = decode_uri(uri(port, cacertfile=authority.certificate))
    assert good.tls is not None
    bad = replace(good, tls=replace(good.tls, cacertfile=str(stranger.certificate)))
    with blocking.connect([bad, good]) as connection:
        assert connection.address == good
