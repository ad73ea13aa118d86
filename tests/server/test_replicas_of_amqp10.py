"""Messages of AMQP 1.0 publishers in a replica that was released: consumers of either protocol get from it
what they get from the source, but for the mark that another consumer may have had the message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pika
import pytest

from penstock import Broker
from penstock.wire.amqp10.performatives_generated import (
    HEADER,
    Accepted,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
)
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.values import Symbol, Timestamp, UByte, UInt, ULong, Uuid
from tests.server.http.asking import Pages
from tests.server.opened import close_all, pika_connection
from tests.server.raw_client import wait_for
from tests.server.wire_client import WireClient

PATIENCE_SECONDS = 60.0
# The same messages are in both, one for the consumers of each protocol.
FOR_AMQP091, FOR_AMQP10 = "for-amqp091", "for-amqp10"
EXCHANGE = "both"

HEADERS = {
    "plain": Header(durable=True, first_acquirer=True),
    "urgent": Header(durable=True, priority=UByte(9), first_acquirer=True),
    # It lasts much longer than the test.
    "not for ever": Header(durable=True, ttl=UInt(3_600_000), first_acquirer=True),
}
PROPERTIES = [
    Properties(
        message_id="m-1",
        user_id=b"guest",
        to="/exchanges/both",
        subject="s",
        reply_to="/queues/answers",
        correlation_id="c-1",
        content_type="text/plain",
        content_encoding="gzip",
        absolute_expiry_time=Timestamp(4_102_444_800_000),
        creation_time=Timestamp(1_700_000_000_000),
        group_id="g",
        group_sequence=UInt(7),
        reply_to_group_id="h",
    ),
    Properties(message_id=ULong(1 << 63), correlation_id=Uuid(bytes(15) + b"\x07")),
    Properties(message_id=b"\x00\xff", correlation_id=ULong(1)),
]
FRONTS = [
    MessageAnnotations({Symbol("x-opt-made"): UInt(5), Symbol("x-opt-by"): "me"}).encode(),
    ApplicationProperties(
        {"text": "\N{SNOWMAN}", "less": -3, "much": ULong(1 << 63), "yes": True, "half": 0.5}
    ).encode(),
]
BODIES = [
    Data(b"one").encode(),
    Data(b"one").encode() + Data(b"two").encode() + Footer({Symbol("sum"): 3}).encode(),
    AmqpValue("text").encode(),
    AmqpValue({"list": [1, None, True], "map": {"a": b"b"}}).encode(),
    AmqpSequence([1, "a"]).encode() + AmqpSequence([]).encode(),
    Data(bytes(range(256)) * 1000).encode(),
]
# Every header, properties, front and body at least once, and all of them together.
MESSAGES = [
    *[(header.encode(), BODIES[0]) for header in HEADERS.values()],
    *[(HEADERS["plain"].encode(), one.encode() + BODIES[0]) for one in PROPERTIES],
    *[(HEADERS["plain"].encode(), front + BODIES[0]) for front in FRONTS],
    *[(HEADERS["plain"].encode(), body) for body in BODIES],
    *[
        (HEADERS["urgent"].encode(), FRONTS[0] + PROPERTIES[0].encode() + FRONTS[1] + body)
        for body in BODIES
    ],
]


@dataclass(frozen=True, slots=True)
class Consumed:
    """What the consumers of one server got."""

    by_amqp091: list[tuple[dict[str, object], bytes, bool]]
    by_amqp10: list[bytes]


@contextmanager
def serving(data: Path) -> Iterator[Broker]:
    with Broker(http=True, data=data) as running:
        try:
            yield running
        finally:
            close_all()


@pytest.fixture(scope="module")
def consumed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Consumed, Consumed]:
    """At the source, and at the replica."""
    folder = tmp_path_factory.mktemp("replicas")
    with serving(folder / "target") as target, serving(folder / "source") as source:
        send_all(source)
        for name in (FOR_AMQP091, FOR_AMQP10):
            replicate(source, Pages(target), name)
        return all_of(source), all_of(target)


def send_all(source: Broker) -> None:
    channel = pika_connection(source.url).channel()
    channel.exchange_declare(EXCHANGE, "fanout", durable=True)
    for name in (FOR_AMQP091, FOR_AMQP10):
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, EXCHANGE)
    with WireClient(source.port, "sender", PATIENCE_SECONDS) as sender:
        link = sender.sender(f"/exchanges/{EXCHANGE}")
        for header, rest in MESSAGES:
            assert isinstance(sender.send_payload(link, header, rest), Accepted)


def replicate(source: Broker, pages: Pages, name: str) -> None:
    path = f"/api/ha/replicas/%2F/{name}"
    assert pages.ask("PUT", path, json.dumps({"from": source.url}).encode()).status_code == 201

    def is_equal() -> bool:
        row = pages.facts(path)
        return (row["state"], row["messages"]) == ("following", len(MESSAGES))

    wait_for(is_equal)
    assert pages.ask("DELETE", path).status_code == 204


def all_of(broker: Broker) -> Consumed:
    channel = pika_connection(broker.url).channel()
    found: list[tuple[dict[str, object], bytes, bool]] = []
    for _ in MESSAGES:
        method, properties, body = channel.basic_get(FOR_AMQP091, auto_ack=True)
        assert isinstance(properties, pika.BasicProperties)
        found.append((vars(properties), body, method.redelivered))
    with WireClient(broker.port, "receiver", PATIENCE_SECONDS) as receiver:
        link = receiver.receiver(f"/queues/{FOR_AMQP10}", len(MESSAGES))
        payloads = [receiver.receive(link).payload for _ in MESSAGES]
    return Consumed(found, payloads)


def test_consumers_of_amqp091_get_the_same_properties_and_bodies(
    consumed: tuple[Consumed, Consumed],
) -> None:
    at_source, at_target = consumed
    seen = [(properties, body) for properties, body, _ in at_source.by_amqp091]
    assert [(properties, body) for properties, body, _ in at_target.by_amqp091] == seen
    # What they are about is there.
    assert {properties["priority"] for properties, _ in seen} >= {9, None}
    assert {properties["message_id"] for properties, _ in seen} >= {"m-1", str(1 << 63)}
    assert any(properties["expiration"] for properties, _ in seen)


def test_consumers_of_amqp10_get_the_same_octets_behind_the_header(
    consumed: tuple[Consumed, Consumed],
) -> None:
    at_source, at_target = consumed
    for sent, one, other in zip(MESSAGES, at_source.by_amqp10, at_target.by_amqp10, strict=True):
        assert behind_header(other) == behind_header(one)
        assert Sections(other).bare() == Sections(sent[1]).bare()
        header, at_replica = header_of(one), header_of(other)
        assert at_replica.durable == header.durable
        assert at_replica.priority == header.priority
        assert (at_replica.ttl is None) == (header.ttl is None)


def test_only_at_the_replica_they_are_told_that_another_consumer_may_have_had_it(
    consumed: tuple[Consumed, Consumed],
) -> None:
    for server, is_flagged in zip(consumed, (False, True), strict=True):
        assert [flag for _, _, flag in server.by_amqp091] == [is_flagged] * len(MESSAGES)
        for payload in server.by_amqp10:
            assert (not header_of(payload).first_acquirer) == is_flagged


def header_of(payload: bytes) -> Header:
    header = Sections(payload).decode(HEADER)
    assert isinstance(header, Header)
    return header


def behind_header(payload: bytes) -> bytes:
    sections = Sections(payload)
    return sections.message[len(sections.octets(HEADER)) :]
