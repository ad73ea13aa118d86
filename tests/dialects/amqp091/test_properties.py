"""Whatever was let in serves for everything that a broker does with a message."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.header_values import Long, Timestamp
from penstock.broker.message import Address, Message
from penstock.broker.publishing.dead_letter import record_death
from penstock.broker.queues.message_queue import DeathReason
from penstock.dialects.amqp091.properties import (
    MessageProperties,
    headers_for_wire,
    read_properties,
    read_stored_properties,
)
from penstock.dialects.amqp10.messages.properties import TransferProperties, composed_head
from penstock.dialects.translate import DialectTranslator
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.field_table import Long as WireLong
from penstock.wire.amqp091.field_table import Timestamp as WireTimestamp
from penstock.wire.amqp091.field_table import encode_table

ADDRESS = Address("", "q", b"")
NAMES = ("x-death", "CC", "BCC", "x-delay", "count", "queue", "x-amqp-1.0-head", "\udca1", "a", "")
TEXTS = ("", "q", "rejected", "é", "\udca1", "9" * 30, "k" * 255)

texts = st.sampled_from(TEXTS)
names = st.sampled_from(NAMES)
leaves = (
    texts
    | st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 2**31, 2**63 - 1, -(2**63)])
    | st.floats(width=32)
    | st.binary(max_size=3)
    | st.builds(WireTimestamp, st.sampled_from([0, 2**63, 2**64 - 1]))
    | st.sampled_from([Decimal("1E-255"), Decimal(2**31 - 1), Decimal("-0.1")])
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)
deaths = st.fixed_dictionaries(
    {"queue": st.just("q"), "reason": st.just("rejected"), "count": values | st.just(2**63 - 1)},
    optional={"time": values, "exchange": values, "routing-keys": values},
)
copies = st.lists(texts, max_size=2)
tables = st.fixed_dictionaries(
    {}, optional={"x-death": st.lists(deaths, max_size=2), "CC": copies, "BCC": copies, "a": values}
) | st.dictionaries(names, values, max_size=3)
maybe = st.none() | texts
headers = st.builds(
    BasicProperties,
    maybe,
    maybe,
    st.none() | tables,
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 0, 255]),
    maybe,
    maybe,
    st.sampled_from([None, "0", "+5", "0005", "3153600000000"]),
    maybe,
    st.sampled_from([None, 0, 2**64 - 1]),
    maybe,
    maybe,
    maybe,
    maybe,
)


def is_utf_8(properties: BasicProperties) -> bool:
    known = (
        properties.content_type,
        properties.content_encoding,
        properties.correlation_id,
        properties.reply_to,
        properties.message_id,
        properties.type_,
        properties.user_id,
        properties.app_id,
        properties.cluster_id,
    )
    return not any("\udca1" in (text or "") for text in known)


@given(headers)
def test_a_header_serves_for_everything_or_is_not_let_in(properties: BasicProperties) -> None:
    header = encode_header(1, properties)
    try:
        # One that an earlier version let in does no harm either.
        read = read_stored_properties(header)
    except ChannelFault:
        # No version ever let it in.
        return
    if is_utf_8(properties):
        read_properties(header)
    else:
        with pytest.raises(Malformed, match="not UTF-8"):
            read_properties(header)
    message = Message(ADDRESS, read, b"x", 1)
    use(message)
    use(dead(message))
    crossed = DialectTranslator().for_amqp10(message)
    use(crossed)
    use(dead(crossed))
    use(DialectTranslator().for_amqp091(crossed))


def dead(message: Message) -> Message:
    properties = message.properties
    for reason in (DeathReason.REJECTED, DeathReason.EXPIRED):
        found = dict(properties.headers())
        record_death(found, "q", reason, message, 1000)
        properties = properties.rewritten(found, drop_expiration=True)
    return Message(message.address, properties, message.body, message.origin)


def use(message: Message) -> None:
    """All that routing, selectors, streams and deliveries ask for."""
    properties = message.properties
    for name in ("message_id", "correlation_id", "timestamp", "type", "app_id", "content_type"):
        properties.text_of(name)
    for key in properties.extra_keys():
        Address("", key, b"").octets()
    if isinstance(properties, MessageProperties):
        properties.with_header("x-stream-offset", 2**63 - 1)
        properties.with_reply_to("amq.rabbitmq.reply-to.x")
        properties.as_delivered()
    else:
        assert isinstance(properties, TransferProperties)
        composed_head(properties, message.address, 1, True)


def test_a_stored_text_that_is_not_utf_8_keeps_its_octets_when_the_message_dies() -> None:
    header = encode_header(1, BasicProperties(content_type="\udca1", message_id="m"))
    found = dead(Message(ADDRESS, read_stored_properties(header), b"x", 1))
    assert isinstance(found.properties, MessageProperties)
    again = decode_properties(found.properties.header)
    assert (again.content_type, again.message_id) == ("\udca1", "m")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (2**64 - 1, str(2**64 - 1)),
        (-(2**63) - 1, str(-(2**63) - 1)),
        (2**63 - 1, 2**63 - 1),
        (True, True),
        (Decimal("1E+30"), "1E+30"),
        (Decimal("0.1"), Decimal("0.1")),
        (Decimal("NaN"), "NaN"),
        ([2**64], [str(2**64)]),
        ({"k" * 256: 1, "é" * 128: 2, "é" * 127: 3}, {"é" * 127: 3}),
    ],
)
def test_what_has_no_field_type_is_text_and_what_has_no_place_is_left_out(
    value: object, written: object
) -> None:
    found = headers_for_wire({"x": value})
    assert found == {"x": written}
    encode_table(found)


def test_a_moment_before_1970_is_a_number_in_a_table() -> None:
    found = headers_for_wire({"x": Timestamp(-1), "y": Long(1)})
    assert isinstance(found["x"], WireLong)
    encode_table(found)


def test_values_nested_too_deep_for_a_table_are_left_out() -> None:
    value: object = "core"
    for _ in range(40):
        value = [value]
    encode_table(headers_for_wire({"x": value}))
