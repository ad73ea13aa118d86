"""A message crosses to the other dialect and back without loss."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest

from penstock.broker.message import NOBODY, Message
from penstock.dialects.amqp10.messages.message_head import divide_message
from penstock.dialects.amqp10.messages.properties import composed_head, read_head
from penstock.dialects.crossing.labels import HEAD_HEADER, PROPERTIES_ANNOTATION
from penstock.dialects.crossing.round_trip import PROPERTIES_BYTES_MAX
from penstock.dialects.translate import DialectTranslator
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.field_table import Timestamp as WireTimestamp
from penstock.wire.amqp091.property_flags_generated import HEADERS
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
)
from tests.dialects.crossing.messages import (
    ADDRESS,
    LABEL,
    UUID,
    UUID_TEXT,
    bare_message,
    basic_message,
    basic_of,
    head_of,
    headers_of,
    meaning,
    octets_message,
    said,
    to_bare,
    to_basic,
)


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
    head, body, _ = divide_message(payload)
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
