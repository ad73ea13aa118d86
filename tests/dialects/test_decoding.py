"""Messages of both dialects come back from disk as what they were."""

import pytest

from penstock.broker.message import NOBODY
from penstock.broker.state import BrokerState
from penstock.dialects.amqp091.dialect import Dialect091
from penstock.dialects.amqp091.properties import MessageProperties
from penstock.dialects.amqp10.messages.properties import TransferProperties
from penstock.dialects.container import Container
from penstock.dialects.decoding import KEPT_HEAD_BYTES_MAX, KEPT_MAX, DialectDecoder
from penstock.dialects.login_checker import LoginChecker
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp10.performatives_generated import (
    ApplicationProperties,
    Data,
    Header,
    MessageAnnotations,
    Properties,
)
from tests.broker.doubles import CountingEntropy

BODY = Data(b"body").encode()
HEAD = Header(durable=True).encode()
CONTENT_HEADER = encode_header(4, BasicProperties(delivery_mode=2))


def dialect() -> Dialect091:
    entropy = CountingEntropy()
    return Dialect091(Container(BrokerState(entropy), entropy, LoginChecker()), Limits(), {})


@pytest.mark.parametrize(
    "head",
    [
        b"",
        HEAD,
        MessageAnnotations({}).encode(),
        Properties("id").encode(),
        ApplicationProperties({"k": "v"}).encode(),
        # A descriptor that is a symbol.
        b"\x00\xa3\x10amqp:header:list\x45",
    ],
)
def test_a_head_makes_a_message_of_amqp10(head: bytes) -> None:
    message = DialectDecoder(dialect()).decode("x", "k", head, BODY)
    assert isinstance(message.properties, TransferProperties)
    assert message.properties.encoded() == head
    assert (message.address.exchange, message.address.routing_key) == ("x", "k")
    assert (message.body, message.origin) == (BODY, NOBODY)


def test_a_content_header_makes_a_message_of_amqp091() -> None:
    message = DialectDecoder(dialect()).decode("x", "k", CONTENT_HEADER, b"body")
    assert isinstance(message.properties, MessageProperties)
    assert message.properties.encoded() == CONTENT_HEADER
    assert message.properties.persistent


def test_a_text_that_is_not_utf_8_was_let_in_before_and_is_not_let_in_again() -> None:
    owner = dialect()
    header = encode_header(4, BasicProperties(content_type="\udca1"))
    message = DialectDecoder(owner).decode("x", "k", header, b"body")
    assert message.properties.encoded() == header
    with pytest.raises(Malformed, match="not UTF-8"):
        owner.read_properties(header)


def test_equal_headers_and_addresses_share_one_object() -> None:
    owner = dialect()
    decoder = DialectDecoder(owner)
    for header in (HEAD, CONTENT_HEADER):
        first = decoder.decode("x", "k", header, BODY)
        second = decoder.decode("x", "k", header, BODY)
        assert first.properties is second.properties
        assert first.address is second.address
    # Of AMQP 0-9-1 with what its connections have seen.
    assert owner.properties[CONTENT_HEADER] is first.properties


def test_no_more_heads_are_kept_than_the_limit() -> None:
    decoder = DialectDecoder(dialect())
    first = decoder.decode("x", "k", HEAD, BODY)
    for number in range(KEPT_MAX):
        decoder.decode("x", str(number), Properties(str(number)).encode(), BODY)
    second = decoder.decode("x", "k", HEAD, BODY)
    assert first.properties is not second.properties
    assert first.address is not second.address


def test_a_long_head_is_not_kept() -> None:
    decoder = DialectDecoder(dialect())
    head = ApplicationProperties({"k": "v" * KEPT_HEAD_BYTES_MAX}).encode()
    first = decoder.decode("x", "k", head, BODY)
    second = decoder.decode("x", "k", head, BODY)
    assert first.properties is not second.properties


def test_a_damaged_head_is_malformed() -> None:
    with pytest.raises(Malformed):
        DialectDecoder(dialect()).decode("x", "k", b"\x00\x53\x75\xa0\x00", BODY)
