"""Outcomes: whatever a receiver annotates, the message goes back to its queue."""

import pytest

from penstock.broker.entry import BROKER_ITSELF
from penstock.broker.message import Address, Message
from penstock.dialects.amqp091.properties import MessageProperties, read_properties
from penstock.dialects.amqp10.links.outcomes import apply_outcome
from penstock.dialects.amqp10.messages.properties import read_head
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header
from penstock.wire.amqp10.performatives_generated import Modified
from penstock.wire.amqp10.values import Decimal128, Symbol, Timestamp, ULong
from tests.broker.queues.doubles import make_queue

BIG = 2**64 - 1
# What a field table has no type for.
HARD = [
    ULong(BIG),
    [ULong(BIG)],
    Timestamp(-1000),
    Decimal128(bytes.fromhex("2207ffffffffffffffffffffffffffff")),
    {"k" * 300: 1},
]


def of_amqp091() -> Message:
    header = encode_header(1, BasicProperties())
    return Message(Address("", "q", b""), read_properties(header), b"x", 1)


def of_amqp10() -> Message:
    return Message(Address("", "q", b""), read_head(b""), b"\x00\x53\x75\xa0\x01x", 1)


@pytest.mark.parametrize("made", [of_amqp091, of_amqp10])
@pytest.mark.parametrize("value", HARD, ids=repr)
def test_an_annotation_of_any_value_goes_back_with_the_message(made: object, value: object) -> None:
    assert callable(made)
    queue, _ = make_queue()
    queue.enqueue(made(), 0)
    entry = queue.get(0)
    assert entry is not None
    apply_outcome(queue, entry, BROKER_ITSELF, Modified(True, False, {Symbol("x-hard"): value}), 0)
    again = queue.get(0)
    assert again is not None
    assert "x-hard" in again.message.properties.headers()


def test_a_number_without_a_field_type_is_text_in_amqp091() -> None:
    queue, _ = make_queue()
    queue.enqueue(of_amqp091(), 0)
    entry = queue.get(0)
    assert entry is not None
    apply_outcome(
        queue, entry, BROKER_ITSELF, Modified(True, False, {Symbol("x-hard"): ULong(BIG)}), 0
    )
    properties = queue.browse(1)[0].message.properties
    assert isinstance(properties, MessageProperties)
    assert decode_properties(properties.header).headers == {"x-hard": str(BIG)}
