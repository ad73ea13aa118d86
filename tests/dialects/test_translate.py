"""A message crosses to the other dialect and back without loss."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from penstock.broker.message import NOBODY, Address, Message
from penstock.dialects.amqp091.properties import MessageProperties, read_properties
from penstock.dialects.amqp10.message_head import split_message
from penstock.dialects.amqp10.properties import TransferProperties, composed_head, read_head
from penstock.dialects.crossing.labels import HEAD_HEADER, PROPERTIES_ANNOTATION
from penstock.dialects.crossing.round_trip import PROPERTIES_BYTES_MAX
from penstock.dialects.translate import DialectTranslator
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header
from penstock.wire.amqp091.field_table import Timestamp as WireTimestamp
from penstock.wire.amqp091.field_table import decode_table, encode_table
from penstock.wire.amqp091.property_flags_generated import HEADERS
from penstock.wire.amqp10.encoding import encode_value
from penstock.wire.amqp10.performatives_generated import (
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
)
from penstock.wire.amqp10.values import (
    Array,
    Byte,
    Composite,
    Decimal64,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Uuid,
)
from tests.wire.amqp10.strategies import ASCII, SCALAR, VALUE, unsigned

ADDRESS = Address("x", "key", b"")
LABEL = Symbol(PROPERTIES_ANNOTATION)
UUID = Uuid(bytes(range(16)))
UUID_TEXT = "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"


def basic_message(properties: BasicProperties, body: bytes = b"body") -> Message:
    return octets_message(encode_header(len(body), properties), body)


def octets_message(header: bytes, body: bytes) -> Message:
    return Message(ADDRESS, read_properties(header), body, 7)


def bare_message(*sections: Composite) -> Message:
    head, body = split_message(b"".join([section.encode() for section in sections]))
    return Message(ADDRESS, read_head(head), body, 7)


def to_bare(message: Message) -> Message:
    """As a receiver gets it and, if it forwards it, sends it again."""
    crossed = DialectTranslator().for_amqp10(message)
    properties = head_of(crossed)
    assert crossed.address is message.address
    assert crossed.origin == message.origin
    assert split_message(properties.head + crossed.body) == (properties.head, crossed.body)
    payload = composed_head(properties, message.address, 1, True) + crossed.body
    split_message(payload)
    return crossed


def to_basic(message: Message) -> Message:
    crossed = DialectTranslator().for_amqp091(message)
    properties = crossed.properties
    assert isinstance(properties, MessageProperties)
    assert len(properties.header) <= PROPERTIES_BYTES_MAX + 12
    assert int.from_bytes(properties.header[4:12], "big") == len(crossed.body)
    decode_properties(properties.header)
    return crossed


def basic_of(message: Message) -> BasicProperties:
    assert isinstance(message.properties, MessageProperties)
    return decode_properties(message.properties.header)


def headers_of(message: Message) -> dict[str, object]:
    return basic_of(message).headers or {}


def said(message: Message) -> list[bytes]:
    """What an AMQP 0-9-1 message says, in whatever order its headers stand."""
    basic = basic_of(message)
    headers = basic.headers
    basic.headers = None if headers is None else {}
    facts = [encode_header(0, basic), message.body]
    return facts + sorted(encode_table({name: item}) for name, item in (headers or {}).items())


def head_of(message: Message) -> TransferProperties:
    assert isinstance(message.properties, TransferProperties)
    return message.properties


def meaning(message: Message) -> list[object]:
    """What an AMQP 1.0 message says, type by type, whatever the order and width of encodings."""
    head = head_of(message)
    maps = []
    for pairs in (head.annotations(), head.application()):
        maps.append(sorted(encode_value(key) + encode_value(item) for key, item in pairs.items()))
    header = (head.durable, head.given_priority, head.expiration_ms)
    return [header, maps, head.section().encode(), message.body]


def test_a_message_of_the_right_dialect_is_itself() -> None:
    translator = DialectTranslator()
    basic = basic_message(BasicProperties())
    bare = bare_message(Data(b""))
    assert translator.for_amqp091(basic) is basic
    assert translator.for_amqp10(bare) is bare


def test_every_property_of_amqp091_has_its_place() -> None:
    basic = BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        headers={"k": "v", "x-k": 1},
        delivery_mode=2,
        priority=5,
        correlation_id=UUID_TEXT,
        reply_to="a/b",
        expiration="60000",
        message_id="id",
        timestamp=12,
        type_="kind",
        user_id="guest",
        app_id="app",
        cluster_id="cluster",
    )
    crossed = to_bare(basic_message(basic))
    head = head_of(crossed)
    assert (head.durable, head.given_priority, head.expiration_ms) == (True, 5, 60000)
    assert head.section() == Properties(
        "id",
        b"guest",
        None,
        None,
        "/queues/a%2Fb",
        UUID,
        "text/plain",
        "gzip",
        None,
        12000,
        "app",
    )
    assert head.application() == {"k": "v"}
    assert head.annotations() == {
        "x-k": 1,
        "x-basic-type": "kind",
        "x-basic-cluster-id": "cluster",
    }
    assert crossed.body == Data(b"body").encode()
    assert basic_of(to_basic(crossed)) == basic


def test_every_property_of_amqp10_has_its_place() -> None:
    section = Properties(
        UUID,
        b"guest",
        "/queues/q",
        "subject",
        "/queues/a%2Fb",
        "cause",
        "text/plain",
        "gzip",
        -5,
        12345,
        "group",
        7,
        "other",
    )
    original = bare_message(
        Header(True, 5, 60000),
        MessageAnnotations({Symbol("x-k"): Byte(1)}),
        section,
        ApplicationProperties({"k": "v"}),
        Data(b"body"),
        Footer({Symbol("f"): 1}),
    )
    crossed = to_basic(original)
    assert headers_of(crossed) == {
        "k": "v",
        "x-k": 1,
        "x-amqp-1.0-creation-time": 12345,
        "x-amqp-1.0-to": "/queues/q",
        "x-amqp-1.0-subject": "subject",
        "x-amqp-1.0-absolute-expiry-time": -5,
        "x-amqp-1.0-group-sequence": 7,
        "x-amqp-1.0-reply-to-group-id": "other",
        "x-amqp-1.0-footer": Footer({Symbol("f"): 1}).encode(),
    }
    assert basic_of(crossed) == BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        headers=headers_of(crossed),
        delivery_mode=2,
        priority=5,
        correlation_id="cause",
        reply_to="a/b",
        expiration="60000",
        message_id=UUID_TEXT,
        timestamp=12,
        user_id="guest",
        app_id="group",
    )
    assert crossed.body == b"body"
    assert meaning(to_bare(crossed)) == meaning(original)


@pytest.mark.parametrize(
    ("letter", "value"),
    [
        (b"t\x01", True),
        (b"b\xff", Byte(-1)),
        (b"B\xff", UByte(255)),
        (b"s\xff\xff", Short(-1)),
        (b"u\xff\xff", UShort(65535)),
        (b"I\xff\xff\xff\xff", Int(-1)),
        (b"i\xff\xff\xff\xff", UInt(0xFFFFFFFF)),
        (b"l" + b"\xff" * 8, -1),
        (b"f" + struct.pack(">f", 0.5), Float(0.5)),
        (b"d" + struct.pack(">d", 0.1), 0.1),
        (b"T" + (9).to_bytes(8, "big"), Timestamp(9000)),
        (b"S\x00\x00\x00\x01s", "s"),
        (b"x\x00\x00\x00\x01s", b"s"),
        (b"D\x02\x00\x00\x00\x05", Decimal64((396 << 53 | 5).to_bytes(8, "big"))),
        (b"D\x02\xff\xff\xff\xfb", Decimal64((1 << 63 | 396 << 53 | 5).to_bytes(8, "big"))),
        (b"V", None),
    ],
)
def test_types_of_headers_cross_both_ways(letter: bytes, value: object) -> None:
    table = b"\x01k" + letter
    octets = HEADERS.to_bytes(2, "big") + len(table).to_bytes(4, "big") + table
    header = encode_header(0, BasicProperties())[:12] + octets
    crossed = to_bare(octets_message(header, b""))
    found = head_of(crossed).application()["k"]
    assert found == value
    assert type(found) is type(value)
    back = bare_message(ApplicationProperties({"k": value}), Data(b""))
    assert to_basic(back).properties.encoded() == header
    assert to_basic(crossed).properties.encoded() == header


@pytest.mark.parametrize(
    ("value", "header"),
    [
        (Symbol("s"), "s"),
        (UUID, UUID_TEXT),
        (ULong(2**64 - 1), str(2**64 - 1)),
        (ULong(5), 5),
        (Timestamp(1500), WireTimestamp(1)),
        (Timestamp(-1), -1),
        (Timestamp(2**62), 2**62),
        (Array(0x70, [1, 2]), None),
        (Described(Symbol("d"), "v"), "v"),
        (Decimal64((398 + 20 << 53 | 5).to_bytes(8, "big")), str(Decimal("5E+20"))),
        (Decimal64(b"\x78" + b"\x00" * 7), b"\x78" + b"\x00" * 7),
    ],
)
def test_what_no_field_can_say_goes_along_as_octets(value: object, header: object) -> None:
    original = bare_message(ApplicationProperties({"k": value}), Data(b"b"))
    crossed = to_basic(original)
    if header is not None:
        assert headers_of(crossed)["k"] == header
    assert headers_of(crossed)[HEAD_HEADER] == head_of(original).head
    assert head_of(to_bare(crossed)).head == head_of(original).head


@pytest.mark.parametrize(
    ("identifier", "text", "headers"),
    [
        ("id", "id", {}),
        (UUID, UUID_TEXT, {}),
        (ULong(12), "12", {}),
        (b"\xff", None, {"x-message-id": b"\xff"}),
        ("i" * 300, None, {"x-message-id": "i" * 300}),
        (UUID_TEXT, UUID_TEXT, {}),
        (UUID_TEXT.upper(), UUID_TEXT.upper(), {}),
    ],
)
def test_message_ids_of_all_types_cross(
    identifier: object, text: str | None, headers: dict[str, object]
) -> None:
    original = bare_message(Properties(identifier), Data(b""))
    crossed = to_basic(original)
    assert basic_of(crossed).message_id == text
    assert {k: v for k, v in headers_of(crossed).items() if k != HEAD_HEADER} == headers
    assert meaning(to_bare(crossed)) == meaning(original)


@pytest.mark.parametrize(
    "section",
    [
        Properties(user_id=b"\xff"),
        Properties(user_id=b"u" * 300),
        Properties(reply_to="/queues/" + "r" * 300),
        Properties(group_id="g" * 300),
        Properties(content_type="c" * 300, content_encoding="e" * 300),
        Properties(correlation_id="\N{SNOWMAN}" * 100),
        Properties(to=5, reply_to=Symbol("s")),
        Properties(creation_time=-1),
        Properties(creation_time=2**63 - 1),
    ],
)
def test_what_does_not_fit_a_property_becomes_a_header(section: Properties) -> None:
    original = bare_message(section, Data(b""))
    crossed = to_basic(original)
    assert headers_of(crossed)
    assert meaning(to_bare(crossed)) == meaning(original)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("q", "/queues/q"),
        ("a b/\N{SNOWMAN}", "/queues/a%20b%2F%E2%98%83"),
        ("amqp://elsewhere/q", "amqp://elsewhere/q"),
        ("/exchanges/x/k", "/exchanges/x/k"),
        ("", ""),
    ],
)
def test_a_queue_to_reply_to_is_an_address(name: str, address: str) -> None:
    crossed = to_bare(basic_message(BasicProperties(reply_to=name)))
    assert head_of(crossed).reply_to() == address
    assert LABEL not in head_of(crossed).annotations()
    assert basic_of(to_basic(crossed)).reply_to == name


@pytest.mark.parametrize(
    "basic",
    [
        BasicProperties(delivery_mode=0),
        BasicProperties(delivery_mode=1),
        BasicProperties(headers={}),
        BasicProperties(expiration="+5"),
        BasicProperties(expiration="007"),
        BasicProperties(expiration=str(2**33)),
        BasicProperties(timestamp=2**64 - 1),
        BasicProperties(content_type="\N{SNOWMAN}", content_encoding="\N{SNOWMAN}"),
        BasicProperties(message_id=UUID_TEXT.upper()),
        BasicProperties(reply_to="/queues/q"),
        BasicProperties(headers={"\udcff": 1, "x-\N{SNOWMAN}": 2, "s": "\udcff"}),
        BasicProperties(headers={"t": {"\udcff": 1, "\N{SNOWMAN}": 2}, "x-exchange": "mine"}),
        BasicProperties(headers={"\N{SNOWMAN}": [1]}),
        BasicProperties(headers={"CC": ["a", "b"], "x-cc": ["c"]}),
        BasicProperties(headers={"t": WireTimestamp(2**63), "u": WireTimestamp(2**40)}),
        BasicProperties(headers={"x-basic-type": "t", "x-basic-header-a": [1], "x-death": 5}),
        BasicProperties(headers={PROPERTIES_ANNOTATION: b"\x00\x00", HEAD_HEADER: b""}),
        BasicProperties(headers={"x-amqp-1.0-creation-time": 5, "x-amqp-1.0-subject": 1}),
        BasicProperties(headers={"x-amqp-1.0-creation-time": 12000}, timestamp=12),
        BasicProperties(headers={"x-amqp-1.0-footer": b"no footer"}),
        BasicProperties(headers={"x-amqp-1.0-user-id": b"u"}, user_id="u"),
        BasicProperties(type_="amqp-1.0"),
    ],
)
def test_odd_messages_of_amqp091_come_back_the_same(basic: BasicProperties) -> None:
    original = basic_message(basic)
    assert said(to_basic(to_bare(original))) == said(original)


def test_deaths_cross_both_ways() -> None:
    deaths: list[object] = [
        {
            "count": 2,
            "reason": "rejected",
            "queue": "q",
            "time": WireTimestamp(5),
            "exchange": "",
            "routing-keys": ["q"],
        }
    ]
    original = basic_message(BasicProperties(headers={"x-death": deaths}))
    crossed = to_bare(original)
    story = head_of(crossed).annotations()["x-opt-deaths"]
    assert isinstance(story, Array)
    assert isinstance(story.items[0], dict)
    assert story.items[0]["count"] == ULong(2)
    assert headers_of(to_basic(crossed)) == headers_of(original)


def test_blind_copies_are_not_told() -> None:
    crossed = to_bare(basic_message(BasicProperties(headers={"BCC": ["secret"], "a": 1})))
    assert b"secret" not in head_of(crossed).head
    assert head_of(crossed).application() == {"a": 1}
    # Nor are they brought in by octets that a client makes up.
    octets = encode_header(0, BasicProperties(headers={"BCC": ["secret"], "a": 1}))[12:]
    forged = bare_message(
        MessageAnnotations({LABEL: octets}),
        ApplicationProperties({"a": Int(1), "BCC": "x", "CC": "y"}),
        Data(b""),
    )
    assert "BCC" not in headers_of(to_basic(forged))


def test_texts_that_are_no_utf8_do_not_stop_a_message() -> None:
    header = bytearray(
        encode_header(4, BasicProperties(content_type="t", delivery_mode=2, headers={"a": 1}))
    )
    header[15] = 0xFF
    crossed = to_bare(octets_message(bytes(header), b"body"))
    assert crossed.properties.persistent
    assert head_of(crossed).application() == {"a": 1}


@pytest.mark.parametrize(
    "body",
    [
        [AmqpValue({"a": [1, None]})],
        [AmqpSequence([1]), AmqpSequence(["two"]), Footer({Symbol("f"): 1})],
    ],
)
def test_values_and_sequences_cross_encoded(body: list[Composite]) -> None:
    original = bare_message(Properties(subject="s"), *body)
    crossed = to_basic(original)
    assert basic_of(crossed).type_ == "amqp-1.0"
    assert crossed.body == original.body
    assert meaning(to_bare(crossed)) == meaning(original)


def test_several_data_sections_become_one_body() -> None:
    crossed = to_basic(bare_message(Data(b"one "), Data(b"two"), Footer({})))
    assert crossed.body == b"one two"
    assert to_bare(crossed).body == Data(b"one two").encode() + Footer({}).encode()


@pytest.mark.parametrize("body", [b"", b"plain", Data(b"x").encode(), AmqpValue(1).encode()[:-1]])
def test_a_type_that_promises_sections_is_not_believed(body: bytes) -> None:
    crossed = to_bare(basic_message(BasicProperties(type_="amqp-1.0"), body))
    assert crossed.body == Data(body).encode()
    back = to_basic(crossed)
    assert (basic_of(back).type_, back.body) == ("amqp-1.0", body)


def test_a_changed_header_counts_more_than_the_octets_that_went_along() -> None:
    crossed = to_basic(bare_message(ApplicationProperties({"k": UUID, "n": 1}), Data(b"")))
    basic = basic_of(crossed)
    assert basic.headers is not None
    assert HEAD_HEADER in basic.headers
    basic.headers["n"] = 2
    again = to_bare(basic_message(basic, b""))
    assert head_of(again).application() == {"k": UUID_TEXT, "n": 2}

    odd = to_bare(basic_message(BasicProperties(headers={"s": "\udcff", "n": 1})))
    annotations = head_of(odd).annotations()
    assert LABEL in annotations
    changed = bare_message(
        MessageAnnotations(annotations), ApplicationProperties({"s": b"\xff", "n": 2}), Data(b"")
    )
    assert headers_of(to_basic(changed))["n"] == 2


def test_what_a_receiver_sends_on_is_what_it_received() -> None:
    original = basic_message(BasicProperties(headers={"s": "\udcff"}, type_="t", priority=1))
    crossed = to_bare(original)
    payload = composed_head(head_of(crossed), ADDRESS, 2, True) + crossed.body
    head, body = split_message(payload)
    back = to_basic(Message(ADDRESS, read_head(head), body, NOBODY))
    assert basic_of(back) == basic_of(original)


@pytest.mark.parametrize("size", [100_000, 140_000, 500_000])
def test_a_content_header_never_outgrows_a_frame(size: int) -> None:
    pairs: dict[object, object] = {"large": "x" * size, "small": UUID}
    crossed = to_basic(bare_message(ApplicationProperties(pairs), Data(b"")))
    headers = headers_of(crossed)
    assert headers["small"] == UUID_TEXT
    assert HEAD_HEADER not in headers
    assert ("large" in headers) == (size == 100_000)


def test_many_headers_that_do_not_fit_are_left_out() -> None:
    pairs: dict[object, object] = {f"{number:0200}": None for number in range(3000)}
    headers = headers_of(to_basic(bare_message(ApplicationProperties(pairs), Data(b""))))
    # As many as fit; each takes 202 octets.
    assert len(headers) > PROPERTIES_BYTES_MAX // 202 - 2


def test_translations_are_remembered_by_their_attributes() -> None:
    translator = DialectTranslator()
    basic = BasicProperties(headers={"k": "v"})
    first = translator.for_amqp10(basic_message(basic, b"one"))
    second = translator.for_amqp10(basic_message(basic, b"three"))
    assert first.properties is second.properties
    assert second.body == Data(b"three").encode()
    back = translator.for_amqp091(second)
    assert translator.for_amqp091(first).body == b"one"
    assert back.properties.encoded() == encode_header(5, basic)
    for number in range(3000):
        translator.for_amqp10(basic_message(BasicProperties(message_id=str(number))))
        translator.for_amqp091(bare_message(Properties(str(number)), Data(b"")))
    assert headers_of(translator.for_amqp091(second)) == {"k": "v"}


TEXT = st.text(max_size=60) | st.sampled_from([UUID_TEXT, "/queues/q", "x" * 255])
SHORT_TEXT = TEXT.filter(lambda text: len(text.encode()) <= 255)
NAME = (
    st.binary(max_size=20)
    | st.sampled_from([b"x-a", b"x-amqp-1.0-subject", b"x-amqp-1.0-head", b"x-basic-type", b"x-cc"])
    | st.sampled_from([b"x-opt-basic-properties", b"x-basic-header-a", b"x-opt-deaths"])
)


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


def fixed(letter: bytes, width: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=width, max_size=width).map(lambda octets: letter + octets)


def fields(value: st.SearchStrategy[bytes], name: bytes) -> st.SearchStrategy[bytes]:
    names = NAME if name == b"" else st.just(name)
    return st.tuples(names, value).map(lambda pair: bytes((len(pair[0]),)) + pair[0] + pair[1])


FIELD = st.recursive(
    st.one_of(
        *(fixed(letter.encode(), 1) for letter in "tbB"),
        *(fixed(letter.encode(), 2) for letter in "su"),
        *(fixed(letter.encode(), 4) for letter in "Iif"),
        *(fixed(letter.encode(), 8) for letter in "lLdT"),
        fixed(b"D", 5),
        st.just(b"V"),
        (st.binary(max_size=300) | TEXT.map(str.encode)).map(lambda octets: b"S" + sized(octets)),
        st.binary(max_size=30).map(lambda octets: b"x" + sized(octets)),
    ),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: b"A" + sized(b"".join(items)))
        | st.lists(fields(inner, b""), max_size=4).map(lambda all_: b"F" + sized(b"".join(all_)))
    ),
    max_leaves=8,
)
TABLE = st.lists(fields(FIELD, b""), max_size=6).map(lambda found: sized(b"".join(found)))
BASIC = st.builds(
    BasicProperties,
    content_type=st.none() | SHORT_TEXT,
    content_encoding=st.none() | SHORT_TEXT,
    delivery_mode=st.none() | st.integers(0, 2),
    priority=st.none() | unsigned(8),
    correlation_id=st.none() | SHORT_TEXT,
    reply_to=st.none() | SHORT_TEXT,
    expiration=st.none() | st.integers(0, 10**12).map(str) | st.just("+07"),
    message_id=st.none() | SHORT_TEXT,
    timestamp=st.none() | unsigned(64) | unsigned(32),
    type_=st.none() | SHORT_TEXT | st.just("amqp-1.0"),
    user_id=st.none() | SHORT_TEXT,
    app_id=st.none() | SHORT_TEXT,
    cluster_id=st.none() | SHORT_TEXT,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    BASIC,
    st.none() | TABLE,
    st.binary(max_size=20) | VALUE.map(lambda value: AmqpValue(value).encode()),
)
@example(BasicProperties(type_="amqp-1.0"), None, AmqpValue(1).encode())
def test_from_amqp091_and_back_is_the_same(
    basic: BasicProperties, table: bytes | None, body: bytes
) -> None:
    if table is not None:
        basic.headers = decode_table(table, 0)
    header = encode_header(len(body), basic)
    if table is not None:
        # Every letter and every repeated name as it was made up, not as our encoder has it.
        at = 14
        for text in (basic.content_type, basic.content_encoding):
            at += 0 if text is None else 1 + header[at]
        size = 4 + int.from_bytes(header[at : at + 4], "big")
        header = header[:at] + table + header[at + size :]
    original = octets_message(header, body)
    assert said(to_basic(to_bare(original))) == said(original)


PROPERTIES = st.builds(
    Properties,
    message_id=st.none() | TEXT | st.binary(max_size=20) | unsigned(64).map(ULong) | st.just(UUID),
    user_id=st.none() | st.binary(max_size=300),
    to=st.none() | TEXT | VALUE,
    subject=st.none() | TEXT,
    reply_to=st.none() | TEXT | SCALAR,
    correlation_id=st.none() | TEXT | st.binary(max_size=300),
    content_type=st.none() | ASCII,
    content_encoding=st.none() | ASCII,
    absolute_expiry_time=st.none() | st.integers(-(2**63), 2**63 - 1),
    creation_time=st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 10**13),
    group_id=st.none() | st.text(max_size=300),
    group_sequence=st.none() | unsigned(32),
    reply_to_group_id=st.none() | TEXT,
)
ANNOTATIONS = st.dictionaries(
    (ASCII | ASCII.map(lambda text: "x-" + text)).map(Symbol)
    | unsigned(64).map(ULong)
    | NAME.filter(bytes.isascii).map(lambda name: Symbol(name.decode())),
    VALUE,
    max_size=4,
).map(lambda pairs: dict[object, object](pairs.items()))
APPLICATION = st.dictionaries(
    st.text(max_size=20) | st.sampled_from(["CC", "BCC", "x-a", "n" * 300, HEAD_HEADER]),
    VALUE,
    max_size=4,
).map(lambda pairs: dict[object, object](pairs.items()))
BODY = st.one_of(
    st.lists(st.binary(max_size=20).map(Data), min_size=1, max_size=1),
    st.lists(st.builds(AmqpSequence, st.lists(VALUE, max_size=3)), min_size=1, max_size=2),
    st.lists(st.builds(AmqpValue, VALUE), min_size=1, max_size=1),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.none() | st.builds(Header, st.booleans(), unsigned(8), st.none() | unsigned(32)),
    st.none() | ANNOTATIONS.map(MessageAnnotations),
    st.none() | PROPERTIES,
    st.none() | APPLICATION.map(ApplicationProperties),
    BODY,
    st.none() | ANNOTATIONS.map(Footer),
)
def test_from_amqp10_and_back_means_the_same(
    header: Header | None,
    annotations: MessageAnnotations | None,
    properties: Properties | None,
    application: ApplicationProperties | None,
    body: list[Composite],
    footer: Footer | None,
) -> None:
    sections = [header, annotations, properties, application, *body, footer]
    original = bare_message(*[section for section in sections if section is not None])
    assert meaning(to_bare(to_basic(original))) == meaning(original)
