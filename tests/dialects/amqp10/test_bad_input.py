"""Whatever a client sends: nothing raises out of the node, and other clients are served."""

from __future__ import annotations

from random import Random

from penstock.dialects.amqp10.nodes.filters import described_selector
from penstock.wire.amqp10.performatives_generated import (
    ApplicationProperties,
    Data,
    Header,
    Modified,
    Properties,
    Rejected,
    Source,
    Target,
)
from penstock.wire.amqp10.sending import SentDelivery
from tests.dialects.amqp10.doubles import House, Peer

# Enough to meet every kind of performative damaged in every third octet or so.
RUNS = 150
# In the octets of a conversation: the handshake is the wire's business, and fuzzed there.
DAMAGES_MAX = 4


def conversation() -> list[bytes]:
    """What a busy client says, piece by piece as it was carried."""
    house = House()
    house.declare("q")
    peer = house.connect()
    pieces = Recorded(peer)
    session = peer.begin()
    address = Target("/queues/q", timeout=5, expiry_policy="never")
    sender = peer.sender(session, None, "s", target=address, unsettled={b"old": None})
    anonymous = peer.sender(session, None, "anonymous")
    head = Header(durable=True, ttl=5).encode() + Properties(subject="a").encode()
    sender.send(b"1", b"2", b"3", head=head)
    anonymous.send(b"4", head=Properties(to="/queues/q", user_id=b"guest").encode())
    source = Source("/queues/q", filter_={"s": described_selector("a = 1 OR TRUE")})
    receiver = peer.receiver(session, None, "r", source=source)
    receiver.settle(receiver.got[0])
    receiver.settle(receiver.got[1], Rejected())
    annotations: dict[object, object] = {"x-opt-a": [1, "b"]}
    receiver.settle(receiver.got[2], Modified(True, False, annotations))
    peer.receiver(session, None, "b", source=Source("/queues/q", distribution_mode="copy"))
    requests = peer.sender(session, "/management", "m")
    responses = peer.receiver(session, "/management", "m")
    request = Properties(message_id="1", to="/queues/new", subject="PUT", reply_to="$me")
    requests.link.send(SentDelivery(), request.encode(), Data(b"").encode())
    house.settle()
    responses.link.drain()
    receiver.detach(closed=False)
    sender.send(b"5", head=ApplicationProperties({"a": 1}).encode())
    peer.wire.end_session(session, None)
    house.settle()
    return pieces.all


class Recorded:
    """Keeps what a peer says from now on."""

    def __init__(self, peer: Peer) -> None:
        self.all: list[bytes] = []
        inner = peer.connection
        peer.connection = self  # type: ignore[assignment]
        self._inner = inner

    def received(self, data: bytes, now: int) -> None:
        self.all.append(data)
        self._inner.received(data, now)


def damaged(data: bytes, dice: Random) -> bytes:
    octets = bytearray(data)
    for _ in range(dice.randint(1, DAMAGES_MAX)):
        at = dice.randrange(len(octets))
        kind = dice.randrange(4)
        if kind == 0:
            octets[at] = dice.randrange(256)
        elif kind == 1:
            octets[at] ^= 1 << dice.randrange(8)
        elif kind == 2 and len(octets) > 1:
            del octets[at]
        else:
            octets.insert(at, dice.choice([0, 0x40, 0x45, 0xC1, 0xFF]))
    return bytes(octets)


def test_damaged_conversations_never_raise_and_harm_nobody_else() -> None:
    pieces = conversation()
    for seed in range(RUNS):
        dice = Random(seed)
        house = House()
        queue = house.declare("q")
        peer = house.connect()
        victim = dice.randrange(len(pieces))
        for index, piece in enumerate(pieces):
            said = damaged(piece, dice) if index >= victim and dice.random() < 0.7 else piece
            peer.connection.received(said, house.now)
            while house.node.has_work():
                house.node.flush(house.now)
        house.node.lost(peer.connection, house.now)
        house.peers.remove(peer)
        house.pass_time(10)
        other = house.connect("other")
        before = queue.message_count
        other.sender(other.begin(), "/queues/q").send(b"fine")
        assert queue.message_count == before + 1, seed


def test_addresses_of_any_type_are_refused_and_not_tripped_over() -> None:
    house = House()
    peer = house.connect()
    session = peer.begin()
    for number, address in enumerate([[1], {"a": 1}, 5, b"octets", True, ""]):
        peer.sender(session, None, f"s{number}", target=Target(address))
        peer.receiver(session, None, f"r{number}", source=Source(address))
    conditions = {condition for _, condition, _ in peer.link_faults}
    assert len(peer.link_faults) == 12
    assert conditions == {"amqp:precondition-failed"}
