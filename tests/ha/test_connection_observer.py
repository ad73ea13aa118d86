"""Clients of a cluster member that open their connections while it may not serve them."""

from __future__ import annotations

from hashlib import sha256

import pytest

from penstock.client.errors import ReplyError
from penstock.client.events import ConnectionClosed, Opened
from penstock.dialects.admission import NO_ROOT
from penstock.formats.amqp091_frames import HEARTBEAT
from penstock.ha.connection_observer import CLUSTER_KEY, ConnectionObserver, RootView
from penstock.node.node import Node
from penstock.wire.amqp10.framing import HEARTBEAT as HEARTBEAT_10
from penstock.wire.amqp10.limits import Limits as Limits10
from tests.dialects.amqp10.doubles import House as House10
from tests.dialects.amqp10.doubles import Peer as Peer10
from tests.seeds.doubles import NOW, House, Peer

DIGEST = sha256(b"the key").hexdigest()
PAUSE_MS = 60_000


class ToldRoot(RootView):
    """Serves when the test says so."""

    def __init__(self) -> None:
        self.serves = False
        self.root = ""

    def is_serving(self, now: int) -> bool:
        return self.serves

    def root_address(self, now: int) -> str:
        return self.root

    def pause_ms(self) -> int:
        return PAUSE_MS

    def key_digest(self) -> str:
        return DIGEST


def join(node: Node) -> ToldRoot:
    serving = ToldRoot()
    node.container.admission = ConnectionObserver(node.state.timers, serving)
    return serving


def observer(node: Node) -> ConnectionObserver:
    found = node.container.admission
    assert isinstance(found, ConnectionObserver)
    return found


def is_open(peer: Peer) -> bool:
    return any(isinstance(event, Opened) for event in peer.events)


def end_of(peer: Peer) -> ReplyError | None:
    [error] = [event.error for event in peer.events if isinstance(event, ConnectionClosed)]
    return error


def held(house: House) -> Peer:
    peer = house.connect()
    house.settle()
    assert not is_open(peer)
    return peer


def test_a_client_is_held_after_its_login_and_opened_when_the_server_serves() -> None:
    house = House()
    serving = join(house.node)
    peer, other = held(house), held(house)
    assert observer(house.node).count() == 2
    serving.serves = True
    observer(house.node).changed(NOW)
    house.settle()
    assert is_open(peer) and is_open(other)
    assert observer(house.node).count() == 0
    peer.conversation.open_channel()
    house.settle()
    assert peer.connection.protocol.channel_count() == 1


def test_a_server_that_serves_opens_at_once() -> None:
    house = House()
    join(house.node).serves = True
    peer = house.connect()
    house.settle()
    assert is_open(peer)


def test_a_held_client_gets_heartbeats_and_no_handshake_timeout() -> None:
    house = House()
    join(house.node)
    peer = held(house)
    peer.transport.take()
    now = NOW
    beats = 0
    while now < PAUSE_MS - 1_000:
        now += 1_000
        peer.connection.received(HEARTBEAT, now)
        house.node.sweep(now, now)
        house.node.flush(now)
        beats += peer.transport.take().count(HEARTBEAT)
    # More often than half the interval of a minute: silence tells a held client that the server is gone.
    assert beats >= 20
    assert not any(isinstance(event, ConnectionClosed) for event in peer.events)


def test_a_held_client_is_closed_when_no_root_is_elected_in_time() -> None:
    house = House()
    join(house.node)
    peer = held(house)
    house.node.fire_due(NOW + PAUSE_MS - 1)
    house.settle()
    assert not any(isinstance(event, ConnectionClosed) for event in peer.events)
    house.node.fire_due(NOW + PAUSE_MS)
    house.settle()
    error = end_of(peer)
    assert error is not None and error.code == 320 and NO_ROOT in error.text
    assert observer(house.node).count() == 0


def test_a_held_client_is_told_where_the_root_is_once_that_is_known() -> None:
    house = House()
    serving = join(house.node)
    peer = held(house)
    serving.root = "192.0.2.7:5672"
    observer(house.node).changed(NOW)
    house.settle()
    error = end_of(peer)
    assert error is not None and error.code == 320 and "192.0.2.7:5672" in error.text


def test_a_client_is_closed_at_once_when_another_server_is_the_root() -> None:
    house = House()
    join(house.node).root = "192.0.2.7:5672"
    peer = house.connect()
    house.settle()
    error = end_of(peer)
    assert error is not None and error.code == 320 and "192.0.2.7:5672" in error.text
    assert observer(house.node).count() == 0


def test_a_held_client_that_goes_is_forgotten() -> None:
    house = House()
    serving = join(house.node)
    peer = held(house)
    house.node.lost(peer.connection, NOW)
    assert observer(house.node).count() == 0
    serving.serves = True
    observer(house.node).changed(NOW)
    house.node.fire_due(NOW + PAUSE_MS)


def test_a_held_client_whose_virtual_host_is_missing_is_refused_when_it_is_opened() -> None:
    house = House()
    serving = join(house.node)
    peer = house.connect(vhost="nowhere")
    house.settle()
    serving.serves = True
    observer(house.node).changed(NOW)
    house.settle()
    error = end_of(peer)
    assert error is not None and error.code == 530


def keyed(house: House, presented: object) -> Peer:
    """A client whose start-ok has this property."""
    peer = house.connect()
    peer.deliver_to_node()
    house.node.flush(NOW)
    peer.hear()
    # Its start-ok is under way: put the property into it.
    said = peer.said()
    assert b"product" in said
    house_said = _with_property(said, presented)
    peer.connection.received(house_said, NOW)
    house.logins.answer()
    house.settle()
    return peer


def _with_property(frame: bytes, presented: object) -> bytes:
    from penstock.formats.amqp091_frames import METHOD_FRAME, encode_frame
    from penstock.wire.amqp091.methods_generated import ConnectionStartOk

    method = ConnectionStartOk.decode(frame[7:-1])
    method.client_properties[CLUSTER_KEY] = presented
    return encode_frame(METHOD_FRAME, 0, method.encode())


@pytest.mark.parametrize("presented", ["", "0" * 64, 5, DIGEST[:-1]])
def test_a_client_with_a_wrong_cluster_key_is_refused_with_the_reason(presented: object) -> None:
    house = House()
    join(house.node).serves = True
    error = end_of(keyed(house, presented))
    assert error is not None and error.code == 530 and "cluster_key" in error.text


@pytest.mark.parametrize("presented", [DIGEST, DIGEST.upper()])
def test_a_client_with_the_right_cluster_key_is_served(presented: str) -> None:
    house = House()
    join(house.node).serves = True
    assert is_open(keyed(house, presented))


def test_without_a_cluster_the_cluster_key_means_nothing() -> None:
    assert is_open(keyed(House(), "anything"))


# AMQP 1.0.


def held10(house: House10) -> Peer10:
    peer = house.connect()
    house.settle()
    assert peer.opened is None and not peer.is_over
    return peer


def test_an_amqp_1_0_client_is_held_and_opened() -> None:
    house = House10()
    serving = join(house.node)
    peer = held10(house)
    session = peer.wire.begin()
    house.settle()
    serving.serves = True
    observer(house.node).changed(house.now)
    house.settle()
    assert peer.opened is not None
    house.declare("q")
    producer = peer.sender(session, "/queues/q")
    producer.send(b"one")
    assert producer.outcomes == ["accepted"]


def test_a_held_amqp_1_0_client_gets_empty_frames_and_no_handshake_timeout() -> None:
    house = House10()
    join(house.node)
    peer = house.connect(limits=Limits10(idle_ms=10_000))
    house.settle()
    assert peer.opened is None
    peer.transport.take()
    beats = 0
    for now in range(1_000, PAUSE_MS - 1_000, 1_000):
        house.node.sweep(now, now)
        house.node.flush(now)
        beats += peer.transport.take().count(HEARTBEAT_10)
    assert beats >= 10
    assert not peer.is_over


def test_a_held_amqp_1_0_client_is_cut_off_when_no_root_is_elected_in_time() -> None:
    house = House10()
    join(house.node)
    peer = held10(house)
    house.node.fire_due(house.now + PAUSE_MS)
    house.settle()
    assert peer.transport.is_closed
    assert peer.opened is None


def test_an_amqp_1_0_client_is_cut_off_without_an_open_where_another_server_is_the_root() -> None:
    """Proton tries the next address of its list after that, and would not after a close."""
    house = House10()
    join(house.node).root = "192.0.2.7:5672"
    peer = house.connect()
    house.settle()
    assert peer.transport.is_closed
    assert peer.opened is None
    assert peer.connection_fault is None


def test_an_amqp_1_0_client_that_is_held_and_goes_is_forgotten() -> None:
    house = House10()
    join(house.node)
    peer = held10(house)
    peer.lose()
    assert observer(house.node).count() == 0
