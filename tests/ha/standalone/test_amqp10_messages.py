"""Messages of AMQP 1.0 in a replica: octet for octet what their publisher sent."""

from __future__ import annotations

import pytest

from penstock.broker.topology import DeclareQueue
from penstock.wire.amqp10.performatives_generated import (
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    Accepted,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
    Source,
    Target,
)
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.values import Described, Symbol, UInt, ULong
from tests.ha.amqp10_client import Amqp10Client
from tests.ha.standalone.replica_world import ReplicaWorld

URI = "amqp://guest:guest@source/"
FRONT = (
    Header(durable=True, priority=7, first_acquirer=True).encode()
    + DeliveryAnnotations({Symbol("hop"): 1}).encode()
    + MessageAnnotations({Symbol("x-opt-made"): UInt(5), Symbol("x-opt-by"): "me"}).encode()
    + Properties(message_id=ULong(77), subject="s", content_type="a/b", group_id="g").encode()
    + ApplicationProperties({"text": "\N{SNOWMAN}", "count": -3, "large": ULong(1 << 63)}).encode()
)
PAYLOADS = {
    "data": FRONT + Data(b"body").encode() + Footer({Symbol("sum"): 3}).encode(),
    "several data sections": FRONT + Data(b"one").encode() + Data(b"two").encode(),
    "a value": FRONT + AmqpValue({"list": [1, None, True], "map": {"a": b"b"}}).encode(),
    "a described value": AmqpValue(Described(Symbol("my:type"), [1.5])).encode(),
    "no value": Header(durable=True).encode() + AmqpValue(None).encode(),
    "sequences": FRONT + AmqpSequence([1, "a"]).encode() + AmqpSequence([]).encode(),
    "a large body": FRONT + Data(bytes(range(256)) * 1000).encode(),
}


@pytest.fixture(scope="module")
def taken() -> dict[str, list[bytes]]:
    """What receivers get of the source, and of the replica when it is released after a crash."""
    world = ReplicaWorld()
    world.source.apply(DeclareQueue("q", durable=True))
    sender = Amqp10Client(world, "sender", "source")
    link = sender.sender("out", Target("/queues/q"))
    sent = [sender.send_payload(link, payload) for payload in PAYLOADS.values()]
    world.until(lambda: all(isinstance(one.outcome, Accepted) for one in sent))
    world.target.replicate(URI)
    world.settle()
    world.target.lose_power()
    world.settle()
    world.target.release()
    found: dict[str, list[bytes]] = {}
    for server in ("source", "target"):
        client = Amqp10Client(world, "reader", server)
        received, _ = client.receiver("in", Source("/queues/q"))
        world.until(lambda received=received: len(received.payloads) == len(PAYLOADS))  # type: ignore[misc]
        found[server] = received.payloads
    return found


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_message_is_received_as_it_was_sent(taken: dict[str, list[bytes]], name: str) -> None:
    index = list(PAYLOADS).index(name)
    sent = Sections(PAYLOADS[name])
    at_source, at_target = (Sections(taken[server][index]) for server in ("source", "target"))
    assert at_target.bare() == sent.bare()
    assert at_target.octets(FOOTER) == sent.octets(FOOTER)
    annotations = sent.decode(MESSAGE_ANNOTATIONS)
    if isinstance(annotations, MessageAnnotations):
        received = at_target.decode(MESSAGE_ANNOTATIONS)
        assert isinstance(received, MessageAnnotations)
        assert annotations.value.items() <= received.value.items()
    # And everything behind the header as the source delivers it.
    assert behind_header(at_target) == behind_header(at_source)


def test_of_the_header_only_what_a_consumer_of_the_source_may_have_seen_is_new(
    taken: dict[str, list[bytes]],
) -> None:
    for index, payload in enumerate(PAYLOADS.values()):
        sent = header_of(payload)
        at_source, at_target = (header_of(taken[server][index]) for server in ("source", "target"))
        assert at_source.first_acquirer == sent.first_acquirer
        assert not at_target.first_acquirer
        assert at_target.durable == sent.durable
        assert at_target.priority == sent.priority


def header_of(payload: bytes) -> Header:
    header = Sections(payload).decode(HEADER)
    return header if isinstance(header, Header) else Header()


def behind_header(sections: Sections) -> bytes:
    return sections.message[len(sections.octets(HEADER)) :]
