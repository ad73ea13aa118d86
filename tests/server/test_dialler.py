"""Links between two brokers over real sockets, in the clear and with TLS, and what is refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from penstock import Broker
from penstock.cluster.links import LinkSettings, LinkSurroundings, PeerLinks
from penstock.cluster.links_listener import PeerLine
from penstock.cluster.peer_identity import PeerIdentity
from penstock.node.node import Node
from penstock.server.dialler import SocketDialler
from penstock.server.tls import BadCertificate, make_dial_context
from penstock.server.tls_settings import DialTls, TlsConfiguration
from penstock.world.network import DialAddress, DialListener, Transport
from tests.cluster.linked_hosts import HeardLinks
from tests.server.raw_client import wait_for
from tests.support.identities import Identities
from tests.support.recorded_events import RecordedEvents

STREAM = 5
CONTROL = 20
HOST = "127.0.0.1"


class LinkedBroker:
    """A broker with links to others. Held by one test."""

    def __init__(self, broker: Broker, name: str, tls: DialTls | None, key: bytes) -> None:
        self.broker = broker
        self.name = name
        self.heard = HeardLinks()
        self.events = RecordedEvents()
        self.links: PeerLinks = broker._call(lambda node, now: self._join(node, tls, key))

    def _join(self, node: Node, tls: DialTls | None, key: bytes) -> PeerLinks:
        running = self.broker._running
        assert running is not None
        container = node.container
        links = PeerLinks(
            PeerIdentity(self.name, "", f"store {self.name}".ljust(16).encode(), "c", "d"),
            key,
            LinkSurroundings(
                SocketDialler(running.server, tls),
                container.entropy,
                container.flush_list,
                self.events,
                container.state.wall,
            ),
            self.heard,
            LinkSettings(),
        )
        container.peers = links.door
        running.server.watchers.append(links.tick)
        return links

    def knows(self, addresses: dict[str, str]) -> None:
        self.broker._call(lambda node, now: self.links.set_members(addresses, now))

    def connected(self) -> list[str]:
        return self.broker._call(lambda node, now: self.links.connected())

    def lines(self) -> set[str]:
        return self.broker._call(lambda node, now: set(self.heard.lines))

    def stream(self, name: str, pieces: list[bytes]) -> None:
        self.broker._call(lambda node, now: self.heard.lines[name].send(STREAM, pieces))

    def own_line(self, name: str) -> PeerLine:
        """To be called on the broker's thread."""
        line = self.links.line_to(name)
        assert line is not None
        return line

    def bodies(self, name: str) -> list[bytes]:
        return self.broker._call(lambda node, now: self.heard.bodies(name))

    def reasons(self) -> list[str]:
        return self.broker._call(
            lambda node, now: [event.reason for event in self.events.events if event.reason]
        )

    def has_said(self, text: str) -> bool:
        return any(text in reason for reason in self.reasons())


@contextmanager
def two(
    listening: TlsConfiguration | None = None,
    dialling: DialTls | None = None,
    keys: tuple[bytes, bytes] = (b"key", b"key"),
) -> Iterator[tuple[LinkedBroker, LinkedBroker]]:
    with ExitStack() as stack:
        # Servers log in with SCRAM-SHA-256 wherever they listen, whatever clients are offered.
        brokers = [
            stack.enter_context(Broker(mechanisms=("PLAIN",), tls=listening or TlsConfiguration()))
            for _ in "ab"
        ]
        linked = [
            LinkedBroker(broker, name, dialling, key)
            for broker, name, key in zip(brokers, "ab", keys, strict=True)
        ]
        if listening is None:
            addresses = {one.name: f"{HOST}:{one.broker.port}" for one in linked}
        else:
            addresses = {one.name: f"amqps://{HOST}:{one.broker.tls_port}" for one in linked}
        for one in linked:
            one.knows(addresses)
        yield linked[0], linked[1]


def check_messages(a: LinkedBroker, b: LinkedBroker) -> None:
    wait_for(lambda: a.connected() == ["b"] and b.connected() == ["a"])
    wait_for(lambda: a.lines() == {"b"} and b.lines() == {"a"})
    long = [bytes([number]) * 1_000_000 for number in range(40)]
    a.stream("b", [b"short"])
    a.stream("b", list(long))
    a.stream("b", [b"last"])
    a.broker._call(lambda node, now: a.links.send("b", CONTROL, b"control"))
    wait_for(lambda: len(b.bodies("a")) == 4)
    assert sorted(b.bodies("a"), key=len) == [b"last", b"short", b"control", b"".join(long)]
    assert [body for body in b.bodies("a") if body != b"control"] == [
        b"short",
        b"".join(long),
        b"last",
    ]


def test_two_brokers_on_this_machine_link_in_the_clear() -> None:
    with two() as (a, b):
        check_messages(a, b)


def test_two_brokers_link_with_tls_in_both_directions(identities: Identities) -> None:
    server = identities.server
    dialling = DialTls(server.file, server.key, identities.ours.file)
    with two(identities.mutual(), dialling) as (a, b):
        check_messages(a, b)


def test_a_certificate_that_nobody_trusts_is_refused_and_named(identities: Identities) -> None:
    with two(identities.one_way(), DialTls()) as (a, b):
        for one in (a, b):
            wait_for(lambda one=one: one.has_said("certificate verify failed"))
        assert a.connected() == [] == b.connected()


def test_a_certificate_is_not_looked_at_when_the_operator_says_so(identities: Identities) -> None:
    with two(identities.one_way(), DialTls(verifies=False)) as (a, b):
        check_messages(a, b)


def test_a_wrong_key_is_named_at_both_ends() -> None:
    with two(keys=(b"one", b"another")) as (a, b):
        wait_for(lambda: a.has_said("does not have the key of this cluster"))
        wait_for(lambda: b.has_said("does not have the key of this cluster"))
        assert a.connected() == [] == b.connected()


def test_a_peer_that_is_dropped_links_again() -> None:
    with two() as (a, b):
        wait_for(lambda: a.connected() == ["b"] and b.connected() == ["a"])
        a.broker.drop_connections()
        wait_for(lambda: b.broker._call(lambda node, now: bool(b.heard.named("link_down"))))
        wait_for(lambda: a.connected() == ["b"] and b.connected() == ["a"])
        check_messages(a, b)


def test_a_memory_alarm_does_not_stop_what_peers_send() -> None:
    with two() as (a, b):
        wait_for(lambda: b.lines() == {"a"} and a.connected() == ["b"])
        b.broker.block_publishers()
        long = bytes(3_000_000)
        a.broker._call(lambda node, now: a.own_line("b").send(1, [long]))
        wait_for(lambda: b.bodies("a") == [long])


class NotedDial(DialListener):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def connected(self, transport: Transport, now: int) -> None:
        self.heard.append("connected")

    def received(self, data: bytes, now: int) -> None:
        self.heard.append("received")

    def writable(self, is_writable: bool, now: int) -> None:
        self.heard.append("writable")

    def lost(self, reason: str, now: int) -> None:
        self.heard.append(f"lost {reason}")


def dialled(broker: Broker, address: DialAddress) -> list[str]:
    """Everything that a listener heard of one attempt."""
    listener = NotedDial()
    running = broker._running
    assert running is not None
    dialler = broker._call(lambda node, now: SocketDialler(running.server))
    broker._call(lambda node, now: dialler.dial(address, listener))
    wait_for(lambda: any(text.startswith("lost") for text in listener.heard))
    return listener.heard


def test_nobody_listens_there() -> None:
    with Broker() as broker, socket.socket() as unused:
        unused.bind((HOST, 0))
        [said] = dialled(broker, DialAddress(HOST, unused.getsockname()[1]))
        assert "cannot connect to 127.0.0.1:" in said and "refused" in said.lower()


def test_a_name_that_does_not_exist_is_told() -> None:
    with Broker() as broker:
        [said] = dialled(broker, DialAddress("nowhere.invalid", 1))
        assert "cannot connect to nowhere.invalid:1" in said


def test_a_listener_that_does_not_speak_tls_is_told() -> None:
    with Broker() as broker:
        [said] = dialled(broker, DialAddress(HOST, broker.port, is_tls=True))
        assert f"cannot connect to amqps://{HOST}:{broker.port}" in said


def own_address() -> str:
    """An address of this machine that other machines could have; empty if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        try:
            raw.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(raw.getsockname()[0])


def test_an_address_that_is_not_of_this_machine_is_not_spoken_to_in_the_clear() -> None:
    address = own_address()
    if not address or address.startswith("127."):
        pytest.skip("this machine has no other address")
    with socket.create_server((address, 0)) as listening, Broker() as broker:
        [said] = dialled(broker, DialAddress(address, listening.getsockname()[1]))
        assert "has no TLS" in said


def test_files_that_cannot_be_used_are_named(tmp_path: Path, identities: Identities) -> None:
    missing = tmp_path / "nowhere.pem"
    for files in (DialTls(authorities=missing), DialTls(certificate=missing)):
        with pytest.raises(BadCertificate, match=r"nowhere\.pem"):
            make_dial_context(files)
    with pytest.raises(BadCertificate, match="does not belong"):
        make_dial_context(DialTls(identities.server.file, identities.client.key))
