"""Whatever was let in serves for everything that a broker does with a message."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.header_values import Long, Timestamp
from penstock.broker.message import NO_EXPIRATION, Address, Message
from penstock.broker.publishing.dead_letter import record_death
from penstock.broker.queues.message_queue import DeathReason
from penstock.dialects.amqp091.properties import (
    EXPIRATION_MS_MAX,
    MessageProperties,
    headers_for_wire,
    is_single,
    no_properties,
    properties_of,
    read_properties,
    read_stored_properties,
)
from penstock.dialects.amqp10.messages.properties import TransferProperties, composed_head
from penstock.dialects.translate import DialectTranslator
from penstock.formats.amqp091_frames import encode_content
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.content import (
    BasicProperties,
    body_size_of,
    decode_properties,
    encode_header,
)
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
        (2**63, str(2**63)),
        (-(2**63), -(2**63)),
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


def properties_with(size: int = 1, **fields: object) -> MessageProperties:
    return read_properties(encode_header(size, BasicProperties(**fields)))  # type: ignore[arg-type]


def test_the_facts_that_a_broker_acts_on_are_read() -> None:
    found = properties_with(delivery_mode=2, priority=0, expiration="10", user_id="u", reply_to="r")
    assert (found.persistent, found.priority, found.has_priority) == (True, 0, True)
    assert (found.expiration_ms, found.user_id, found.reply_to) == (10, "u", "r")
    absent = properties_with()
    assert (absent.persistent, absent.priority, absent.has_priority) == (False, 0, False)
    assert (absent.expiration_ms, absent.user_id, absent.reply_to) == (NO_EXPIRATION, None, None)
    assert not properties_with(delivery_mode=1).persistent


@pytest.mark.parametrize(
    ("fields", "is_plain"),
    [
        ({}, True),
        ({"headers": {"a": 1}, "message_id": "m", "priority": 3}, True),
        ({"headers": {"a": "CC"}}, True),
        ({"user_id": "u"}, False),
        ({"reply_to": "r"}, False),
        ({"headers": {"CC": []}}, False),
        ({"headers": {"BCC": ["k"]}}, False),
    ],
)
def test_a_publish_of_plain_properties_needs_no_further_look(
    fields: dict[str, object], is_plain: bool
) -> None:
    assert properties_with(**fields).is_plain is is_plain  # type: ignore[arg-type]


@pytest.mark.parametrize("fields", [{"message_id": "m"}, {"correlation_id": "c"}])
def test_a_header_that_names_its_message_is_single(fields: dict[str, object]) -> None:
    assert is_single(encode_header(1, BasicProperties(**fields)))  # type: ignore[arg-type]
    everything_else = BasicProperties(
        "a", "b", {"c": 1}, 1, 2, None, "d", "3", None, 4, "e", "f", "g", "h"
    )
    assert not is_single(encode_header(1, everything_else))
    assert not is_single(encode_header(1, BasicProperties()))


def test_a_header_is_found_in_the_frames_that_its_message_came_in() -> None:
    header = encode_header(4, BasicProperties(message_id="m", headers={"a": 1, "BCC": ["k"]}))
    frames = encode_content(3, b"method", header, b"body")
    head = frames[7 + len(b"method") : -len(b"body") - 1]
    properties = read_properties(header)
    properties.came_as(b"", 9)
    assert (properties.content_head, properties.content_channel) == (b"", 0)
    properties.came_as(head, 3)
    assert (properties.content_head, properties.content_channel) == (head, 3)
    assert properties.header == properties.encoded() == header
    assert properties.headers() == {"a": 1, "BCC": ["k"]}
    assert properties.text_of("message_id") == "m"
    for changed in (properties.as_delivered(), properties.with_reply_to("r")):
        assert changed.content_channel == 0, "it is not what came"
        assert changed.content_head == b""


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"delivery_mode": 3}, "{delivery_mode_unknown,3}"),
        ({"expiration": "x"}, "'x': no_integer"),
        ({"expiration": ""}, "'': no_integer"),
        ({"expiration": "5s"}, '{leftover_string,"s"}'),
        ({"expiration": "-1"}, "{value_negative,-1}"),
        ({"expiration": str(EXPIRATION_MS_MAX + 1)}, "{value_too_large,"),
        ({"headers": {"CC": "k"}}, '{unacceptable_type_in_header,"CC",longstr}'),
        ({"headers": {"BCC": 1}}, '{unacceptable_type_in_header,"BCC",int}'),
    ],
)
def test_what_no_broker_can_act_on_is_its_publishers_error(
    fields: dict[str, object], text: str
) -> None:
    with pytest.raises(ChannelFault) as raised:
        properties_with(**fields)  # type: ignore[arg-type]
    assert text in str(raised.value)


def test_limits_are_let_in() -> None:
    assert properties_with(expiration="0").expiration_ms == 0
    assert properties_with(expiration=str(EXPIRATION_MS_MAX)).expiration_ms == EXPIRATION_MS_MAX
    assert properties_with(delivery_mode=2).persistent


def test_a_table_is_checked_even_when_nobody_looks_into_it() -> None:
    header = bytearray(encode_header(1, BasicProperties(headers={"name": "value"})))
    header[header.index(b"S")] = ord("?")
    with pytest.raises(Malformed):
        read_properties(bytes(header))
    with pytest.raises(Malformed):
        read_properties(encode_header(1, BasicProperties(headers={"a": 1}))[:-1])


def test_extra_keys_are_those_of_both_copies_and_texts_only() -> None:
    found = properties_with(headers={"BCC": ["b", 2], "CC": ["a"], "other": ["c"]})
    assert found.has_extra_keys
    assert found.extra_keys() == ["a", "b"]
    assert not properties_with(headers={"other": ["CC"]}).has_extra_keys


def test_consumers_see_everything_but_the_blind_copies() -> None:
    found = properties_with(7, headers={"BCC": ["b"], "CC": ["a"]}, message_id="m")
    seen = found.as_delivered()
    assert seen.headers() == {"CC": ["a"]}
    assert decode_properties(seen.header).message_id == "m"
    assert body_size_of(seen.header) == 7
    only_open = properties_with(headers={"CC": ["a"]})
    assert only_open.as_delivered() is only_open


def test_one_header_more_leaves_the_others_and_the_original() -> None:
    found = properties_with(9, headers={"a": 1, "n": 2}, type_="t")
    more = found.with_header("n", 3)
    assert more.headers() == {"a": 1, "n": 3}
    assert found.headers() == {"a": 1, "n": 2}
    assert (body_size_of(more.header), more.text_of("type")) == (9, "t")
    assert properties_with().with_header("n", 3).headers_start


def test_a_reply_address_takes_the_place_of_another() -> None:
    found = properties_with(5, reply_to="before", headers={"a": 1})
    changed = found.with_reply_to("after")
    assert (changed.reply_to, changed.headers()) == ("after", {"a": 1})
    assert (found.reply_to, body_size_of(changed.header)) == ("before", 5)


def test_a_stored_header_says_whether_its_texts_are_utf_8() -> None:
    for text, is_utf8 in [("t", True), ("\udca1", False)]:
        header = encode_header(1, BasicProperties(type_=text))
        assert read_stored_properties(header).is_utf8 is is_utf8


def test_a_rewritten_header_loses_its_expiration_only_when_told_to() -> None:
    found = properties_with(expiration="10", headers={"a": 1})
    kept = found.rewritten({"b": 2}, drop_expiration=False)
    assert (kept.headers(), kept.expiration_ms) == ({"b": 2}, 10)
    assert found.rewritten({}, drop_expiration=True).expiration_ms == NO_EXPIRATION


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("message_id", "m"),
        ("correlation_id", "c"),
        ("timestamp", "5"),
        ("type", "t"),
        ("reply_to", "r"),
        ("user_id", "u"),
        ("app_id", "a"),
        ("group_id", "a"),
        ("content_type", "ct"),
        ("content_encoding", "ce"),
        ("cluster_id", ""),
        ("no such", ""),
    ],
)
def test_a_property_is_found_as_text_by_its_name(name: str, wanted: str) -> None:
    found = properties_with(
        content_type="ct",
        content_encoding="ce",
        correlation_id="c",
        reply_to="r",
        message_id="m",
        timestamp=5,
        type_="t",
        user_id="u",
        app_id="a",
    )
    assert found.text_of(name) == wanted
    assert properties_with().text_of(name) == ""


def test_timestamps_in_headers_are_the_brokers_own_however_deep() -> None:
    stamp = WireTimestamp(8)
    found = properties_with(headers={"a": stamp, "b": [stamp, 1], "c": {"d": stamp}}).headers()
    assert found["b"] == [found["a"], 1]
    assert found["c"] == {"d": found["a"]}
    assert isinstance(found["a"], Timestamp)
    assert found["a"].seconds == 8


def test_no_properties_are_those_of_an_empty_message() -> None:
    found = no_properties()
    assert (body_size_of(found.header), found.headers(), found.is_plain) == (0, {}, True)
    message = Message(ADDRESS, found, b"", 1)
    assert properties_of(message) is found
