"""Who may log in as a server of the cluster, and what clients may not do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.broker.access.users import DEFAULT_USER_HASH
from penstock.broker.topology import PutUser, SetPermissions
from penstock.client.conversation import Conversation
from penstock.client.events import ConnectionClosed, Opened
from penstock.client.uri import Address
from penstock.dialects.login import NO_PLACE
from penstock.dialects.mechanisms import (
    PEER_USER,
    PLAIN,
    Challenge,
    MechanismVerdict,
    ScramSha256,
)
from penstock.dialects.peer import Peer
from penstock.dialects.peers import Peers, PeerSession
from penstock.formats.scram_keys import ITERATIONS_MIN, SCRAM_SHA_256, ScramKeys, derive
from penstock.node.configuration import NodeConfiguration
from penstock.node.node import Node
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.methods_generated import ClusterControl, ClusterHello, Method
from penstock.wire.outgoing import Outgoing
from penstock.wire.scram import ScramClient
from tests.broker.doubles import CountingEntropy
from tests.dialects.amqp10.doubles import House as House10
from tests.dialects.amqp10.doubles import KeptTransport, PromptLogins
from tests.support.recorded_events import RecordedEvents
from tests.wire.doubles import open_server

KEY = "the key"
NOW = 1


class NotedSession(PeerSession):
    def __init__(self) -> None:
        self.heard: list[object] = []

    def method_received(self, channel: int, method: Method, now: int) -> None:
        self.heard.append((channel, method))

    def content_received(self, method: bytes, body: bytes, now: int) -> None:
        self.heard.append(body)

    def drained(self) -> None:
        self.heard.append("drained")

    def ended(self, reason: str, now: int) -> None:
        self.heard.append("ended")

    def held_bytes(self) -> int:
        return 7


class NotedPeers(Peers):
    """Lets everybody in who has the key, unless the test gives a reason."""

    def __init__(self) -> None:
        self.session = NotedSession()
        self.reason = ""
        self._keys = derive(KEY, b"salt", ITERATIONS_MIN)

    def keys(self) -> ScramKeys:
        return self._keys

    def limits(self) -> Limits:
        return Limits(frame_max=1_000_000, channel_max=1, heartbeat_seconds=2)

    def why_refused(self, peer: Peer) -> str:
        return self.reason

    def opened(self, wire: WireConnection, peer: Peer, now: int) -> PeerSession:
        return self.session


class Member:
    """A node that is, or is not, a member of a cluster, and one client of it."""

    def __init__(self, peers: NotedPeers | None) -> None:
        self.events = RecordedEvents()
        self.node = Node(
            NodeConfiguration("1", "a test", "house"),
            CountingEntropy(),
            PromptLogins(),
            NOW,
            0,
            events=self.events,
        )
        self.node.container.peers = peers

    def log_in(self, user: str, password: str, mechanism: str) -> tuple[Conversation, object]:
        """A client, and the last of its events."""
        near, far = KeptTransport(), KeptTransport()
        flush_list: list[Outgoing] = []
        address = Address(user=user, password=password, mechanism=mechanism, frame_max=1_000_000)
        client = Conversation(address, Outgoing(flush_list, near), nonce="nonce")
        connection = self.node.connected(far, "127.0.0.1", True, NOW)
        assert connection is not None
        client.start()
        events: list[object] = []
        for _ in range(20):
            while flush_list:
                flush_list.pop().flush()
            octets = near.take()
            if octets:
                connection.received(octets, NOW)
            self.node.fire_due(NOW + 100_000)
            while self.node.has_work():
                self.node.flush(NOW)
            events += client.receive(far.take(), NOW)
        return client, events[-1] if events else None


def test_a_peer_with_the_key_is_let_in_with_the_limits_of_peers() -> None:
    client, last = Member(NotedPeers()).log_in(PEER_USER, KEY, SCRAM_SHA_256)
    assert isinstance(last, Opened)
    assert (client.frame_max, client.heartbeat_seconds) == (1_000_000, 2)


def test_a_client_beyond_the_limit_is_turned_away_at_its_login_and_a_server_is_not() -> None:
    member = Member(NotedPeers())
    member.node.configuration = replace(member.node.configuration, connections_max=0)
    for user, mechanism in (("guest", "PLAIN"), ("guest", SCRAM_SHA_256)):
        _, last = member.log_in(user, "guest", mechanism)
        assert isinstance(last, ConnectionClosed)
        assert last.error is not None and NO_PLACE in last.error.text
    _, last = member.log_in(PEER_USER, KEY, SCRAM_SHA_256)
    assert isinstance(last, Opened)


@pytest.mark.parametrize("user", ["guest", PEER_USER])
def test_where_scram_is_not_offered_to_clients_only_peers_can_use_it(user: str) -> None:
    peers = NotedPeers()
    users = Member(peers).node.state.users
    mechanism = ScramSha256(users, "server", peers.keys(), is_offered=False)
    client = ScramClient(user, KEY, "client")
    challenge = mechanism.step(client.start())
    assert isinstance(challenge, Challenge)
    verdict = mechanism.step(client.answer(challenge.octets))
    assert isinstance(verdict, MechanismVerdict)
    assert verdict.is_peer == (user == PEER_USER)
    assert ("not offered" in verdict.reason) == (user != PEER_USER)


@pytest.mark.parametrize(
    ("user", "password", "mechanism"),
    [
        (PEER_USER, "another", SCRAM_SHA_256),
        (PEER_USER, KEY, PLAIN),
        (PEER_USER, KEY, "AMQPLAIN"),
        ("guest", KEY, SCRAM_SHA_256),
    ],
)
def test_nobody_else_is_let_in(user: str, password: str, mechanism: str) -> None:
    member = Member(NotedPeers())
    _, last = member.log_in(user, password, mechanism)
    assert isinstance(last, ConnectionClosed)
    assert last.error is not None and last.error.code == 403


def test_the_reason_is_told_to_a_peer_and_not_to_a_client() -> None:
    peers = NotedPeers()
    _, last = Member(peers).log_in(PEER_USER, "another", SCRAM_SHA_256)
    assert isinstance(last, ConnectionClosed) and last.error is not None
    assert "does not have the key of this cluster" in last.error.text
    peers.reason = "not in this way"
    _, last = Member(peers).log_in(PEER_USER, KEY, SCRAM_SHA_256)
    assert isinstance(last, ConnectionClosed) and last.error is not None
    assert "not in this way" in last.error.text
    _, last = Member(peers).log_in("guest", "another", SCRAM_SHA_256)
    assert isinstance(last, ConnectionClosed) and last.error is not None
    assert "See the broker" in last.error.text or "see the broker" in last.error.text


def test_a_server_without_a_cluster_knows_no_peers() -> None:
    _, last = Member(None).log_in(PEER_USER, KEY, SCRAM_SHA_256)
    assert isinstance(last, ConnectionClosed)


def test_the_name_is_an_ordinary_one_without_a_cluster_and_reserved_with_one() -> None:
    for peers, is_let_in in ((None, True), (NotedPeers(), False)):
        member = Member(peers)
        member.node.apply(PutUser(PEER_USER, DEFAULT_USER_HASH), NOW)
        member.node.apply(SetPermissions(PEER_USER, "/", "", "", ""), NOW)
        _, last = member.log_in(PEER_USER, "guest", PLAIN)
        assert isinstance(last, Opened) is is_let_in


def test_an_amqp_1_0_client_cannot_be_a_peer() -> None:
    house = House10()
    house.node.container.peers = NotedPeers()
    peer = house.connect(mechanism="SCRAM-SHA-256", password=KEY)
    house.pass_time(100_000)
    assert peer.opened is None and peer.is_over


def test_the_class_cluster_is_refused_to_clients() -> None:
    machine = open_server()
    machine.receive(frame(ClusterHello({})))
    code, text = machine.closed_with()
    assert (code, "cannot receive cluster.hello" in text) == (503, True)
    machine = open_server()
    machine.connection.send_content(
        1, ClusterControl(20).encode(), encode_header(0, BasicProperties()), b""
    )
    machine.flush()
    machine.receive(frame(ClusterControl(20)))
    assert machine.closed_with()[0] == 503


def test_a_method_that_the_class_cluster_does_not_have_is_refused() -> None:
    machine = open_server()
    machine.connection.accept_peer()
    octets = (61440 << 16 | 99).to_bytes(4, "big")
    machine.receive(b"\x01\x00\x01\x00\x00\x00\x04" + octets + b"\xce")
    code, text = machine.closed_with()
    assert (code, "class 61440 has no method 99" in text) == (540, True)


def frame(method: Method) -> bytes:
    octets = method.encode()
    return b"\x01\x00\x01" + len(octets).to_bytes(4, "big") + octets + b"\xce"
