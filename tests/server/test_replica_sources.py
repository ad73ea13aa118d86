"""Replicas between real servers whose source is reached over TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from penstock import Broker
from penstock.server.tls_settings import TlsConfiguration
from tests.server.http.asking import Pages, declared, publish
from tests.server.opened import close_all, pika_connection
from tests.server.raw_client import wait_for
from tests.support.identities import Identities

NO_TLS = TlsConfiguration()
PATH = "/api/ha/replicas/%2F/q"


@contextmanager
def serving(data: Path, tls: TlsConfiguration = NO_TLS) -> Iterator[Broker]:
    with Broker(http=True, data=data, tls=tls) as running:
        try:
            yield running
        finally:
            close_all()


def replicate(pages: Pages, uri: str) -> None:
    body = json.dumps({"from": uri}).encode()
    assert pages.ask("PUT", PATH, body).status_code == 201


def await_following(pages: Pages, count: int) -> None:
    def is_equal() -> bool:
        row = pages.facts(PATH)
        return (row["state"], row["messages"]) == ("following", count)

    wait_for(is_equal)


def taken(broker: Broker) -> list[bytes]:
    channel = pika_connection(broker.url).channel()
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get("q", auto_ack=True)
        if method is None:
            return found
        found.append(body)


def secure_address(broker: Broker, **options: object) -> str:
    query = "&".join(f"{name}={quote(str(value))}" for name, value in options.items())
    return f"amqps://guest:guest@127.0.0.1:{broker.tls_port}/?{query}"


def test_a_replica_follows_a_source_whose_certificate_it_trusts(
    identities: Identities, tmp_path: Path
) -> None:
    with (
        serving(tmp_path / "source", identities.mutual()) as source,
        serving(tmp_path / "target") as target,
    ):
        channel = declared(source, "q", {})
        publish(channel, "q", [b"one", b"two"])
        pages = Pages(target)
        replicate(
            pages,
            secure_address(
                source,
                cacertfile=identities.ours.file,
                certfile=identities.client.file,
                keyfile=identities.client.key,
            ),
        )
        await_following(pages, 2)
        publish(channel, "q", [b"three"])
        await_following(pages, 3)
        assert str(pages.facts(PATH)["connected_to"]).startswith("amqps://")
        assert pages.ask("DELETE", PATH).status_code == 204
        assert taken(target) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("trusts", ["the system", "another authority"])
def test_a_source_whose_certificate_is_not_trusted_gets_no_login_and_the_reason_is_shown(
    identities: Identities, tmp_path: Path, trusts: str
) -> None:
    with (
        serving(tmp_path / "source", identities.one_way()) as source,
        serving(tmp_path / "target") as target,
    ):
        publish(declared(source, "q", {}), "q", [b"one"])
        pages = Pages(target)
        theirs = identities.foreign.file.with_name("theirs.pem")
        options = {} if trusts == "the system" else {"cacertfile": theirs}
        replicate(pages, secure_address(source, **options))
        wait_for(lambda: "certificate verify failed" in str(pages.facts(PATH)["reason"]))
        row = pages.facts(PATH)
        assert f"127.0.0.1:{source.tls_port}" in str(row["reason"])
        assert (row["messages"], row["connected_to"]) == (0, "")


def test_a_file_of_the_address_that_cannot_be_used_is_named(
    identities: Identities, tmp_path: Path
) -> None:
    missing = tmp_path / "nowhere.pem"
    with (
        serving(tmp_path / "source", identities.one_way()) as source,
        serving(tmp_path / "target") as target,
    ):
        pages = Pages(target)
        replicate(pages, secure_address(source, cacertfile=missing))
        wait_for(lambda: f"cannot use the cacertfile {missing}" in str(pages.facts(PATH)["reason"]))
