"""Tokens at every door of a served broker: pika, AMQP 1.0, WebSocket, HTTP and our own client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pika
import pytest
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAuthenticationError,
)
from proton import Message
from proton._exceptions import ConnectionException
from proton.utils import BlockingConnection

from penstock.client import asynchronous, blocking
from penstock.client.asynchronous_reconnect import connect_lasting
from penstock.client.calls import declare_queue
from penstock.client.errors import ConnectionClosedError, LoginRefused
from penstock.client.uri import Address
from tests.server.http.doubles import WebSocketRelay
from tests.server.raw_client import wait_for
from tests.server.test_login_doors import is_logged, logging_broker, port_of
from tests.support.tokens import EVERYTHING, Provider

SECONDS_MAX = 60
# Long enough to log in on a busy machine, and short enough to wait for.
SHORT_SECONDS = 8.0


class TokenBroker:
    """A served broker that accepts tokens. Held by a test."""

    def __init__(self, facts: dict[str, str], log: Path, provider: Provider, keys: Path) -> None:
        self.port = port_of(facts)
        self.http = f"http://127.0.0.1:{port_of(facts, 'http')}"
        self.pid = int(facts["pid"])
        self.log = log
        self.provider = provider
        self.keys = keys

    def pika(
        self, token: str, user: str = "", vhost: str = "/", port: int = 0
    ) -> pika.BlockingConnection:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1",
                port or self.port,
                vhost,
                pika.PlainCredentials(user, token),
                blocked_connection_timeout=SECONDS_MAX,
            )
        )

    def get(self, path: str, token: str) -> httpx.Response:
        return httpx.get(
            self.http + path, headers={"Authorization": f"Bearer {token}"}, timeout=SECONDS_MAX
        )

    def wait_logged(self, *words: str) -> None:
        wait_for(lambda: is_logged(self.log, *words), SECONDS_MAX)


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@contextlib.contextmanager
def serving(folder: Path, provider: Provider, more: str = "") -> Iterator[TokenBroker]:
    keys = provider.write_set(folder / "keys.json")
    configuration = f'[oauth2]\nresource_server_id = "rabbit"\njwks_file = "keys.json"\n{more}'
    with logging_broker(folder, configuration) as (facts, log):
        yield TokenBroker(facts, log, provider, keys)


@pytest.fixture(scope="module")
def shared(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenBroker]:
    """For tests that leave nothing behind but their own queues."""
    with serving(tmp_path_factory.mktemp("oauth2"), provider) as broker:
        yield broker


# AMQP 0-9-1.


def test_a_token_is_a_password_and_the_user_name_beside_it_means_nothing(
    shared: TokenBroker,
) -> None:
    # The token gives nothing of the user who is named.
    connection = shared.pika(shared.provider.token("configure:%2F/mine*"), user="guest")
    channel = connection.channel()
    channel.queue_declare("mine-1", exclusive=True)
    with pytest.raises(ChannelClosedByBroker, match="refused for user 'ann'") as refused:
        channel.queue_declare("other")
    assert refused.value.reply_code == 403
    connection.close()
    shared.wait_logged("ann", "PLAIN")


def test_passwords_go_on_beside_tokens(shared: TokenBroker) -> None:
    shared.pika("guest", "guest").close()


def test_scopes_say_what_may_be_read_and_written(shared: TokenBroker) -> None:
    with contextlib.closing(shared.pika(shared.provider.token())) as connection:
        connection.channel().queue_declare("scoped")
    token = shared.provider.token("write:*/amq.default", "write:*/amq.topic/news.*", "read:*/none")
    with contextlib.closing(shared.pika(token)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "scoped", b"hello")
        channel.basic_publish("amq.topic", "news.today", b"hello")
        with pytest.raises(ChannelClosedByBroker, match="access to topic 'sports'"):
            channel.basic_publish("amq.topic", "sports", b"hello")
        refused = connection.channel()
        refused.confirm_delivery()
        with pytest.raises(ChannelClosedByBroker, match=r"access to exchange 'amq\.fanout'"):
            refused.basic_publish("amq.fanout", "", b"hello")
        with pytest.raises(ChannelClosedByBroker, match="access to queue 'scoped'"):
            connection.channel().basic_get("scoped")


def test_a_virtual_host_without_a_scope_is_closed(shared: TokenBroker) -> None:
    with pytest.raises(AMQPConnectionError, match="access to vhost '/' refused for user 'ann'"):
        shared.pika(shared.provider.token("read:other/*"))


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "other"}, "its audience 'other' has not 'rabbit'"),
        ({"exp": 1}, "it has expired"),
        ({"nbf": 2**33}, "it is not yet valid"),
        ({"scope": "openid"}, "no valid scope"),
    ],
)
def test_a_token_that_is_not_good_is_refused_and_logged(
    shared: TokenBroker, claims: dict[str, Any], reason: str
) -> None:
    token = shared.provider.token(**claims)
    with pytest.raises(ProbableAuthenticationError):
        shared.pika(token, user="somebody")
    shared.wait_logged("login refused", reason, "somebody")
    assert token not in shared.log.read_text()


def test_a_token_with_a_wrong_signature_is_refused_and_logged(shared: TokenBroker) -> None:
    with pytest.raises(ProbableAuthenticationError):
        shared.pika(Provider().token())
    shared.wait_logged("login refused", "the signature is not of the key 'key-1'")


def test_an_expired_token_ends_its_connection(shared: TokenBroker) -> None:
    connection = shared.pika(shared.provider.token(seconds=SHORT_SECONDS))
    channel = connection.channel()
    channel.queue_declare("expiring", exclusive=True)
    channel.basic_consume("expiring", lambda *_: None)
    with pytest.raises(ConnectionClosedByBroker, match="the token has expired") as closed:
        connection.sleep(SECONDS_MAX)
    assert closed.value.reply_code == 403
    shared.wait_logged("the token has expired", "ann")


def test_a_renewed_token_replaces_the_old_one(shared: TokenBroker) -> None:
    began = time.monotonic()
    first = shared.provider.token("configure:*/a*", seconds=SHORT_SECONDS)
    connection = shared.pika(first)
    connection.channel().queue_declare("a1", exclusive=True)
    connection.update_secret(shared.provider.token("configure:*/b*"), "in time")
    while time.monotonic() < began + SHORT_SECONDS + 2:
        connection.sleep(0.5)
    connection.channel().queue_declare("b1", exclusive=True)
    with pytest.raises(ChannelClosedByBroker, match="access to queue 'a2'"):
        connection.channel().queue_declare("a2", exclusive=True)
    connection.close()


def test_a_publish_target_that_is_kept_is_checked_again_after_a_renewal(
    shared: TokenBroker,
) -> None:
    connection = shared.pika(shared.provider.token("write:*/amq.fanout"))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.fanout", "", b"one")
    connection.update_secret(shared.provider.token("read:*/*"), "less")
    with pytest.raises(ChannelClosedByBroker, match=r"access to exchange 'amq\.fanout'"):
        channel.basic_publish("amq.fanout", "", b"two")
    connection.close()


@pytest.mark.parametrize(
    ("user", "scope", "reason"),
    [
        ("bob", "read:*/*", "it is a token of user 'bob'"),
        ("ann", "read:other/*", "it gives no access to vhost '/'"),
        ("ann", "", "no valid scope"),
    ],
)
def test_a_later_token_that_is_not_good_ends_the_connection(
    shared: TokenBroker, user: str, scope: str, reason: str
) -> None:
    connection = shared.pika(shared.provider.token())
    with pytest.raises(ConnectionClosedByBroker, match="the new secret was refused") as closed:
        connection.update_secret(shared.provider.token(scope, user=user), "")
    assert closed.value.reply_code == 530
    shared.wait_logged("the new token was refused", reason)


# Other doors of AMQP.


def proton(broker: TokenBroker, token: str) -> BlockingConnection:
    return BlockingConnection(
        f"amqp://127.0.0.1:{broker.port}",
        user="anybody",
        password=token,
        timeout=SECONDS_MAX,
        allowed_mechs="PLAIN",
    )


def test_amqp_10_takes_tokens(shared: TokenBroker) -> None:
    token = shared.provider.token("configure:*/ten*", "write:*/amq.default", "read:*/ten*")
    assert len(token) > 512, "more than the first frames of AMQP 1.0 have to take"
    connection = proton(shared, token)
    connection.create_sender("ten").send(Message("hello"))
    receiver = connection.create_receiver("ten")
    assert receiver.receive(SECONDS_MAX).body == "hello"
    receiver.accept()
    connection.close()
    with pytest.raises(ConnectionException):
        proton(shared, Provider().token())


def test_an_expired_token_ends_its_amqp_10_connection(shared: TokenBroker) -> None:
    connection = proton(shared, shared.provider.token(seconds=SHORT_SECONDS))
    with pytest.raises(ConnectionException, match="the token has expired"):
        connection.wait(lambda: False, timeout=SECONDS_MAX)


def test_websockets_take_tokens(shared: TokenBroker) -> None:
    page = f"ws{shared.http.removeprefix('http')}/ws"
    with contextlib.closing(WebSocketRelay(page)) as relay:
        shared.pika(shared.provider.token(), port=relay.port).close()
    relay = WebSocketRelay(page)
    with contextlib.closing(relay), pytest.raises(ProbableAuthenticationError):
        shared.pika(Provider().token(), port=relay.port)


# HTTP.


def test_http_takes_a_token_as_bearer_and_as_password(shared: TokenBroker) -> None:
    token = shared.provider.token("tag:management", "read:%2F/*")
    said = shared.get("/api/whoami", token)
    assert said.status_code == 200, said.text
    assert (said.json()["name"], said.json()["tags"]) == ("ann", ["management"])
    login = httpx.BasicAuth("guest", token)
    basic = httpx.get(f"{shared.http}/api/whoami", auth=login, timeout=SECONDS_MAX)
    assert basic.json()["name"] == "ann"


def test_tags_and_scopes_decide_what_http_shows(shared: TokenBroker) -> None:
    administrator = shared.provider.token("tag:administrator", *EVERYTHING)
    headers = {"Authorization": f"Bearer {administrator}"}
    with httpx.Client(base_url=shared.http, headers=headers, timeout=SECONDS_MAX) as client:
        assert client.put("/api/vhosts/second", json={}).status_code == 201
        queue = "/api/queues/second/q"
        assert client.put(queue, json={}).status_code == 201
        # Nobody of this name is in the table, and nobody has come into it.
        assert client.get("/api/users/ann").status_code == 404
    manager = shared.provider.token("tag:management", "read:second/*", "write:second/amq.topic/a")
    assert [row["name"] for row in shared.get("/api/vhosts", manager).json()] == ["second"]
    assert shared.get("/api/users", manager).status_code == 403
    assert shared.get("/api/queues/%2F", manager).status_code == 403
    headers = {"Authorization": f"Bearer {manager}"}
    with httpx.Client(base_url=shared.http, headers=headers, timeout=SECONDS_MAX) as client:
        assert client.put("/api/queues/second/more", json={}).status_code == 403
        assert client.get("/api/queues/second/q/peek").status_code == 200
        publish = {"properties": {}, "payload": "x", "payload_encoding": "string"}
        page = "/api/exchanges/second/amq.topic/publish"
        assert client.post(page, json={**publish, "routing_key": "a"}).status_code == 200
        assert client.post(page, json={**publish, "routing_key": "b"}).status_code == 403
        explained = client.post(
            "/api/explain/second", json={"exchange": "amq.fanout", "routing_key": "", "user": "ann"}
        ).json()
        assert "no scope of the token" in explained["permission"]["reason"]
    nobody = shared.provider.token("read:*/*")
    assert shared.get("/api/overview", nobody).status_code == 403


def test_http_refuses_and_logs_bad_tokens(shared: TokenBroker) -> None:
    token = shared.provider.token(aud="elsewhere")
    said = shared.get("/api/whoami", token)
    assert said.status_code == 401
    assert "the token was refused" in said.text
    assert "elsewhere" not in said.text
    shared.wait_logged("login refused", "its audience 'elsewhere'", "HTTP")
    assert token not in shared.log.read_text()


def test_bad_tokens_meet_a_delay_that_grows_and_good_ones_do_not(
    provider: Provider, tmp_path: Path
) -> None:
    with serving(tmp_path, provider) as broker:
        waited = []
        for _ in range(6):
            began = time.monotonic()
            assert broker.get("/api/whoami", provider.token(aud="no")).status_code == 401
            waited.append(time.monotonic() - began)
        assert waited[-1] >= 3.0, waited
        # The same host and name; nothing but the token counts.
        began = time.monotonic()
        broker.pika(provider.token()).close()
        broker.pika("guest", "guest").close()
        # One more failure would take more than six seconds.
        assert time.monotonic() - began < 6.0


def test_without_the_configuration_a_token_is_a_wrong_password(
    provider: Provider, tmp_path: Path
) -> None:
    with logging_broker(tmp_path) as (facts, log):
        broker = TokenBroker(facts, log, provider, tmp_path)
        with pytest.raises(ProbableAuthenticationError):
            broker.pika(provider.token(), "guest")
        said = broker.get("/api/whoami", provider.token())
        assert said.status_code == 401
        assert "'Bearer' is not supported, only Basic" in said.text


# Configuration.


def test_keys_are_read_again_on_sighup(provider: Provider, tmp_path: Path) -> None:
    with serving(tmp_path, provider) as broker:
        held = broker.pika(provider.token())
        second = Provider("key-2")
        second.write_set(broker.keys)
        os.kill(broker.pid, signal.SIGHUP)
        broker.wait_logged("reloaded")
        broker.pika(second.token()).close()
        with pytest.raises(ProbableAuthenticationError):
            broker.pika(provider.token())
        # Who is in stays.
        held.channel().queue_declare("held", exclusive=True)
        held.close()
        broker.keys.write_text("{}")
        os.kill(broker.pid, signal.SIGHUP)
        broker.wait_logged("cannot reload the keys of tokens", "is not a JWK set")
        broker.pika(second.token()).close()


@pytest.mark.parametrize(
    ("without", "command"),
    [("jwt", ["serve", "--memory", "--port=0"]), ("cryptography", ["config", "check"])],
)
def test_without_the_extra_the_broker_says_what_to_install(
    provider: Provider, tmp_path: Path, without: str, command: list[str]
) -> None:
    provider.write_set(tmp_path / "keys.json")
    file = tmp_path / "penstock.toml"
    file.write_text('[oauth2]\nresource_server_id = "rabbit"\njwks_file = "keys.json"\n')
    named = ["--config", str(file)] if command[0] == "serve" else [str(file)]
    program = (
        f"import sys; sys.modules[{without!r}] = None; sys.argv = {['penstock', *command, *named]!r}\n"
        "from penstock.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX * 2,
    )
    assert done.returncode != 0
    assert "pip install 'penstock[oauth2]'" in done.stderr
    assert "Traceback" not in done.stderr


# Our own client.


def address_of(broker: TokenBroker, token: str) -> str:
    return f"amqp://anybody:{quote(token)}@127.0.0.1:{broker.port}/%2F"


def test_the_blocking_client_renews_its_token(shared: TokenBroker) -> None:
    first = shared.provider.token("configure:*/c*")
    with blocking.connect(address_of(shared, first)) as connection:
        connection.update_secret(shared.provider.token("configure:*/d*"), "in time")
        connection.channel().call(declare_queue("d1", exclusive=True))
        with pytest.raises(ConnectionClosedError, match="the new secret was refused"):
            connection.update_secret("nonsense")
    with pytest.raises(LoginRefused):
        blocking.connect(address_of(shared, Provider().token()))


def test_the_asyncio_client_renews_its_token(shared: TokenBroker) -> None:
    async def story() -> None:
        first = shared.provider.token("configure:*/c*")
        async with await asynchronous.connect(address_of(shared, first)) as connection:
            await connection.update_secret(shared.provider.token("configure:*/d*"))
            channel = await connection.channel()
            await channel.call(declare_queue("d2", exclusive=True))
            with pytest.raises(ConnectionClosedError, match="the new secret was refused"):
                await connection.update_secret("nonsense")
            with pytest.raises(ConnectionClosedError):
                await connection.update_secret("too late")

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_lasting_connection_comes_back_with_the_new_token(shared: TokenBroker) -> None:
    async def story() -> None:
        first = shared.provider.token(user="lasting", seconds=SHORT_SECONDS)
        address = Address("127.0.0.1", shared.port, "anybody", first)
        began = time.monotonic()
        async with await connect_lasting(address) as connection:
            await connection.update_secret(shared.provider.token(user="lasting"))
            # From here on the first one would be refused.
            await asyncio.sleep(max(0.0, began + SHORT_SECONDS + 1 - time.monotonic()))
            administrator = shared.provider.token("tag:administrator", *EVERYTHING)
            async with httpx.AsyncClient(
                headers={"Authorization": f"Bearer {administrator}"}, timeout=SECONDS_MAX
            ) as client:
                page = f"{shared.http}/api/connections/username/lasting"
                assert (await client.delete(page)).status_code == 204
            while connection.restored_count == 0:
                await asyncio.sleep(0.05)
            channel = await connection.channel()
            await channel.call(declare_queue("lasting", exclusive=True))

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))
