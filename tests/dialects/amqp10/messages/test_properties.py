"""A head is read once and then passed on as octets; a body is only checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.header_values import Timestamp as Moment
from penstock.broker.message import NO_EXPIRATION, NOBODY, Address, Message
from penstock.broker.message import Properties as NeutralProperties
from penstock.broker.publishing.dead_letter import record_death
from penstock.broker.queues.message_queue import DeathReason
from penstock.broker.selectors.message_subject import MessageSubject
from penstock.dialects.amqp10.messages.message_head import (
    HEAD_BYTES_MAX,
    body_follows,
    divide_message,
)
from penstock.dialects.amqp10.messages.properties import (
    TransferProperties,
    composed_head,
    read_head,
)
from penstock.formats.octets import Malformed
from penstock.wire.amqp10.decoding import DEPTH_MAX
from penstock.wire.amqp10.performatives_generated import (
    APPLICATION_PROPERTIES,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
)
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.values import (
    Array,
    Byte,
    Composite,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    Uuid,
)
from tests.wire.amqp10.strategies import VALUE

ADDRESS = Address("amq.topic", "a.b", b"")
BODY = Data(b"hello").encode()
PROPERTIES_SECTION = Properties("id", b"guest", "/queues/q", "topic", "/queues/back", "cause")


def encoded(*sections: Composite) -> bytes:
    return b"".join([section.encode() for section in sections])


def head_of(*sections: Composite) -> TransferProperties:
    return read_head(encoded(*sections))


def delivered(properties: TransferProperties, count: int = 0, first: bool = False) -> Sections:
    return Sections(composed_head(properties, ADDRESS, count, first) + BODY)


def annotations_of(sections: Sections) -> dict[object, object]:
    found = sections.decode(MESSAGE_ANNOTATIONS)
    assert isinstance(found, MessageAnnotations)
    return found.value


def test_a_message_is_split_before_its_first_body_section() -> None:
    head = encoded(Header(durable=True), PROPERTIES_SECTION, ApplicationProperties({"k": "v"}))
    assert divide_message(head + BODY)[:2] == (head, BODY)
    assert divide_message(BODY)[:2] == (b"", BODY)


def test_delivery_annotations_are_cut_out() -> None:
    front = Header(durable=True).encode()
    back = MessageAnnotations({Symbol("x-a"): 1}).encode()
    cut = DeliveryAnnotations({Symbol("hop"): 1}).encode()
    assert divide_message(front + cut + back + BODY)[:2] == (front + back, BODY)


@pytest.mark.parametrize(
    "body",
    [
        encoded(Data(b"")),
        encoded(Data(b"x" * 300)),
        encoded(Data(b"a"), Data(b"b"), Footer({Symbol("f"): 1})),
        encoded(AmqpSequence([1, "two"]), AmqpSequence([])),
        encoded(AmqpValue(None)),
        encoded(AmqpValue({(1.5): [Array(0x40, [None] * 3)]}), Footer({})),
        # A map with a list for a key, which only the specification knows what to do with.
        b"\x00\x53\x77\xc1\x03\x02\x45\x40",
        # Four thousand million nulls.
        b"\x00\x53\x77\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
        # A descriptor in eight octets.
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xa0\x01x",
        b"\x00\xa3\x10amqp:data:binary\xa0\x01x",
    ],
)
def test_every_kind_of_body_is_let_in(body: bytes) -> None:
    head = Header(durable=True).encode()
    assert divide_message(head + body)[:2] == (head, body)
    assert body_follows(head + body, len(head))


@pytest.mark.parametrize(
    "head", [b"", encoded(Header(durable=True), ApplicationProperties({"k": "v"}))]
)
@pytest.mark.parametrize("footer", [b"", encoded(Footer({Symbol("f"): 1}))])
def test_a_message_without_a_body_has_null_for_one(head: bytes, footer: bytes) -> None:
    null = encoded(AmqpValue(None))
    assert divide_message(head + footer)[:2] == (head, null + footer)
    assert divide_message(head + footer)[2] == len(head)
    hop = DeliveryAnnotations({Symbol("hop"): 1}).encode()
    assert divide_message(hop + footer) == (b"", null + footer, len(hop))
    # Not by the short way, which passes on what came.
    assert not body_follows(head + footer, len(head))


@pytest.mark.parametrize(
    "payload",
    [
        b"hello",
        encoded(Footer({}), Footer({})),
        encoded(Footer({}), Data(b"a")),
        Footer({}).encode()[:-1],
        encoded(PROPERTIES_SECTION, Header()) + BODY,
        encoded(Header(), Header()) + BODY,
        encoded(Data(b"a"), PROPERTIES_SECTION),
        encoded(Data(b"a"), AmqpSequence([])),
        encoded(AmqpValue(1), AmqpValue(2)),
        encoded(Data(b"a"), Footer({}), Footer({})),
        encoded(Data(b"a"), Footer({}), Data(b"b")),
        BODY[:-1],
        BODY + b"\x00",
        b"\x00\x53\x75\xa1\x01x",
        b"\x00\x53\x76\xa0\x01x",
        b"\x00\x53\x77",
        b"\x00\x53\x77\xa1\x01\xff",
        b"\x00\x53\x77\xa3\x01\xff",
        b"\x00\x53\x77\x56\x02",
        b"\x00\x53\x77\x73\x00\x11\x00\x00",
        b"\x00\x53\x77\xc0\x01\x01",
        b"\x00\x53\x77\xc0\x03\x01\x40\x40",
        b"\x00\x53\x77\xc1\x02\x01\x40",
        b"\x00\x53\x77\xe0\x02\x01\x3f",
        b"\x00\x53\x77\xd0\xff\xff\xff\xff\x00\x00\x00\x00",
        b"\x00\x53\x77" + b"\x00" * 5000,
        b"\x00\x53\x79\x40",
        DeliveryAnnotations({}).encode()[:-1] + b"\x05" + BODY,
    ],
)
def test_a_broken_message_is_refused(payload: bytes) -> None:
    assert not body_follows(payload, 0)
    with pytest.raises(Malformed):
        divide_message(payload)


def test_a_body_nested_too_deeply_is_refused() -> None:
    value: object = 1
    for _ in range(DEPTH_MAX):
        value = [value]
    assert body_follows(AmqpValue(value).encode(), 0)
    deeper = AmqpValue(value).encode()[3:]
    assert not body_follows(b"\x00\x53\x77\xc0" + bytes((len(deeper) + 1, 1)) + deeper, 0)


def test_what_follows_a_known_head_may_be_more_of_a_head() -> None:
    payload = encoded(Header(durable=True), PROPERTIES_SECTION) + BODY
    assert not body_follows(payload, 0)
    assert not body_follows(payload, len(Header(durable=True).encode()))
    assert not body_follows(payload, len(payload))


def test_a_head_beyond_the_limit_is_refused() -> None:
    large = ApplicationProperties({"k": b"x" * HEAD_BYTES_MAX}).encode()
    with pytest.raises(Malformed, match="before the body"):
        divide_message(large + BODY)
    # Annotations for the next hop do not count.
    divide_message(DeliveryAnnotations({Symbol("k"): b"x" * HEAD_BYTES_MAX}).encode() + BODY)


@given(st.binary(max_size=60), st.integers(0, 60), st.integers(0, 255))
def test_damage_is_malformed_or_another_message(tail: bytes, at: int, octet: int) -> None:
    whole = bytearray(
        encoded(Header(ttl=5), PROPERTIES_SECTION, ApplicationProperties({"k": [1]})) + BODY
    )
    whole[at] = octet
    try:
        head, body, _ = divide_message(bytes(whole) + tail)
        properties = read_head(head)
    except Malformed:
        return
    assert body
    properties.headers()
    composed_head(properties, ADDRESS, 0, True)


@given(VALUE, st.binary(min_size=1, max_size=8))
def test_any_value_is_a_body_and_anything_behind_it_is_not(value: object, more: bytes) -> None:
    body = AmqpValue(value).encode()
    assert body_follows(body, 0)
    assert not body_follows(body + more.replace(b"\x00", b"\x01"), 0)


def test_the_header_says_what_the_broker_acts_on() -> None:
    properties = head_of(Header(durable=True, priority=7, ttl=1500))
    assert (properties.persistent, properties.priority, properties.expiration_ms) == (True, 7, 1500)


def test_without_a_header_a_message_is_transient_and_lives_for_ever() -> None:
    properties = head_of()
    assert (properties.persistent, properties.priority) == (False, 0)
    assert properties.expiration_ms == NO_EXPIRATION


@pytest.mark.parametrize(
    "head",
    [
        encoded(DeliveryAnnotations({})),
        encoded(Data(b"")),
        encoded(ApplicationProperties({}), PROPERTIES_SECTION),
        b"\x00\x53\x70\xc0\x02\x01\x50",
        b"\x00\x53\x73\xc0\x03\x01\x50\x01",
        b"\x00\x53\x72\xc1\x03\x02\xa3\x09",
        b"\x00\x53\x74\xc1\x05\x02\xa1\x01\xff\x40",
        b"\x00\x53\x74\x45",
    ],
)
def test_a_broken_head_is_refused(head: bytes) -> None:
    with pytest.raises(Malformed):
        read_head(head)


def test_properties_are_read_by_name() -> None:
    properties = head_of(PROPERTIES_SECTION)
    assert properties.user_id() == b"guest"
    assert properties.to() == "/queues/q"
    assert properties.subject() == "topic"
    assert properties.reply_to() == "/queues/back"
    assert properties.message_id() == "id"
    assert properties.correlation_id() == "cause"
    assert head_of().message_id() is None


def test_selectors_find_every_property() -> None:
    section = Properties(
        ULong(7), b"guest", "to", "subject", "back", Uuid(bytes(range(16))), "text/plain", "gzip"
    )
    section.absolute_expiry_time = 9000
    section.creation_time = 8001
    section.group_id = "group"
    section.group_sequence = 3
    section.reply_to_group_id = "other"
    properties = head_of(Header(priority=9), section)
    subject = MessageSubject(Message(ADDRESS, properties, BODY, NOBODY))
    wanted = {
        "properties.message_id": "7",
        "properties.correlation_id": "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f",
        "JMSXUserID": "guest",
        "JMSDestination": "to",
        "JMSType": "subject",
        "JMSReplyTo": "back",
        "properties.content_type": "text/plain",
        "properties.content_encoding": "gzip",
        "JMSExpiration": 9000,
        "JMSTimestamp": 8001,
        "JMSXGroupID": "group",
        "JMSXGroupSeq": 3,
        "properties.reply_to_group_id": "other",
        "JMSPriority": 9,
    }
    assert {name: subject.value_of(name) for name in wanted} == wanted
    assert properties.text_of("timestamp") == "8"
    assert properties.text_of("nonsense") == ""


def test_headers_are_application_properties_and_annotations_with_x() -> None:
    properties = head_of(
        MessageAnnotations(
            {Symbol("x-a"): Symbol("s"), Symbol("other"): 1, ULong(5): 2, Symbol("x-cc"): ["k"]}
        ),
        ApplicationProperties({"n": Byte(5), "x-a": 1, "t": Timestamp(2000), "u": Timestamp(1)}),
    )
    headers = properties.headers()
    assert headers == {"n": 5, "x-a": "s", "t": Moment(2), "u": 1, "CC": ["k"]}
    assert type(headers["n"]) is int
    assert type(headers["x-a"]) is str
    assert properties.has_extra_keys
    assert properties.extra_keys() == ["k"]


def test_a_delivery_leaves_the_bare_message_untouched() -> None:
    bare = encoded(PROPERTIES_SECTION) + b"\x00\x53\x74\xd1\x00\x00\x00\x04\x00\x00\x00\x00"
    header = Header(durable=True, priority=4, ttl=9, first_acquirer=True)
    properties = read_head(header.encode() + bare)
    sections = delivered(properties, 2, True)
    assert sections.bare() == bare + BODY
    assert sections.decode(HEADER) == Header(True, 4, 9, True, 2)
    assert annotations_of(sections) == {"x-exchange": "amq.topic", "x-routing-key": "a.b"}


def test_a_header_that_would_say_only_defaults_is_left_out() -> None:
    properties = read_head(b"\x00\x53\x70\xc0\x02\x01\x42")
    assert properties.durable is False
    assert delivered(properties).decode(HEADER) is None
    assert delivered(properties, 0, True).decode(HEADER) is None
    assert delivered(properties, 3).decode(HEADER) == Header(delivery_count=3)


@pytest.mark.parametrize("sent", [False, True])
def test_first_acquirer_is_what_the_publisher_said_until_somebody_had_the_message(
    sent: bool,
) -> None:
    properties = head_of(Header(durable=True, first_acquirer=sent))
    for known in (properties, properties.with_annotations({"x-more": 1})):
        assert acquirer_of(delivered(known, 0, True)) is sent
        assert acquirer_of(delivered(known, 0, False)) is False


def acquirer_of(sections: Sections) -> bool:
    header = sections.decode(HEADER)
    assert isinstance(header, Header)
    return header.first_acquirer is True


@pytest.mark.parametrize("padding", ["", "x" * 200, "x" * 300])
@pytest.mark.parametrize("wide", [False, True])
def test_annotations_are_kept_and_the_address_is_said_once(padding: str, wide: bool) -> None:
    annotations: dict[object, object] = {Symbol("x-a"): UInt(1), ULong(1): padding}
    section = MessageAnnotations(annotations).encode()
    if wide and section[3] == 0xC1:
        content = section[6:]
        sizes = (len(content) + 4).to_bytes(4, "big") + (4).to_bytes(4, "big")
        section = section[:3] + b"\xd1" + sizes + content
    wanted = {**annotations, "x-exchange": "amq.topic", "x-routing-key": "a.b"}
    once = delivered(read_head(section))
    assert annotations_of(once) == wanted
    again = delivered(read_head(once.octets(MESSAGE_ANNOTATIONS)))
    assert annotations_of(again) == wanted


def test_an_address_that_is_no_utf8_is_delivered_all_the_same() -> None:
    address = Address("x", "\udcff", b"")
    sections = Sections(composed_head(head_of(), address, 0, False) + BODY)
    assert annotations_of(sections)["x-routing-key"] == "?"


def test_dead_lettering_tells_its_story_in_annotations() -> None:
    bare = encoded(PROPERTIES_SECTION, ApplicationProperties({"k": Byte(1)}))
    properties = read_head(Header(durable=True, ttl=100).encode() + bare)
    message = Message(ADDRESS, properties, BODY, NOBODY)
    for count in (1, 2):
        headers = dict(message.properties.headers())
        record_death(headers, "q", DeathReason.EXPIRED, message, 5000)
        dead = message.properties.rewritten(headers, drop_expiration=True)
        assert isinstance(dead, TransferProperties)
        assert dead.bare() == bare
        assert dead.persistent
        assert dead.expiration_ms == NO_EXPIRATION
        deaths = dead.headers()["x-death"]
        assert deaths == [
            {
                "count": count,
                "reason": "expired",
                "queue": "q",
                "time": Moment(5),
                "exchange": "amq.topic",
                "routing-keys": ["a.b"],
                "original-expiration": "100",
            }
        ]
        annotations = dead.annotations()
        assert annotations["x-first-death-queue"] == "q"
        assert "x-death" not in annotations
        story = annotations["x-opt-deaths"]
        assert isinstance(story, Array)
        assert isinstance(story.items[0], dict)
        assert story.items[0]["ttl"] == UInt(100)
        assert type(story.items[0]["reason"]) is Symbol
        message = Message(ADDRESS, dead, BODY, NOBODY)


def test_rewriting_changes_only_what_was_changed() -> None:
    annotations: dict[object, object] = {
        Symbol("x-kept"): Byte(1),
        Symbol("x-gone"): 1,
        Symbol("x-cc"): ["k"],
        Symbol("other"): Byte(2),
    }
    properties = head_of(Header(priority=2, ttl=7), MessageAnnotations(annotations))
    headers = dict(properties.headers())
    del headers["x-gone"]
    del headers["CC"]
    headers["x-delay"] = -5
    rewritten = properties.rewritten(headers, drop_expiration=False)
    assert isinstance(rewritten, TransferProperties)
    assert rewritten.annotations() == {"x-kept": 1, "other": 2, "x-delay": -5}
    assert type(rewritten.annotations()["x-kept"]) is Byte
    assert (rewritten.priority, rewritten.expiration_ms) == (2, 7)
    assert rewritten.extra_keys() == []


def test_annotations_can_be_added() -> None:
    properties = head_of(MessageAnnotations({Symbol("x-a"): 1}), PROPERTIES_SECTION)
    more = properties.with_annotations({"x-stream-offset": ULong(5), "x-a": 2})
    assert more.annotations() == {"x-a": 2, "x-stream-offset": 5}
    assert more.bare() == PROPERTIES_SECTION.encode()


def test_sections_that_are_absent_are_empty() -> None:
    sections = delivered(head_of())
    assert sections.octets(PROPERTIES) == b""
    assert sections.octets(APPLICATION_PROPERTIES) == b""
    assert head_of().headers() == {}


def told(count: object) -> Array:
    """The annotation of a message that died in `q`, as a publisher may write it."""
    death: dict[object, object] = {
        Symbol("queue"): "q",
        Symbol("reason"): Symbol("rejected"),
        Symbol("count"): count,
        Symbol("first-time"): Timestamp(-1000),
        Symbol("exchange"): "",
        Symbol("routing-keys"): Array(0xB1, ["k"]),
    }
    return Array(0xD1, [death])


@pytest.mark.parametrize(
    "annotations",
    [
        {Symbol("x-opt-deaths"): told(ULong(2**63 - 1))},
        {Symbol("x-opt-deaths"): told(ULong(2**64 - 1))},
        {Symbol("x-death"): [{"queue": "q", "reason": "rejected", "count": ULong(2**64 - 1)}]},
        {Symbol("x-death"): [{"queue": "q", "reason": "rejected", "count": -(2**63)}]},
        {Symbol("x-death"): [{"queue": "other", "when": ULong(2**64 - 1), "if": Timestamp(-1)}]},
        {Symbol("x-other"): [ULong(2**64 - 1)]},
    ],
)
def test_whatever_annotations_say_a_message_can_die(annotations: dict[object, object]) -> None:
    properties: NeutralProperties = read_head(MessageAnnotations(annotations).encode())
    message = Message(Address("", "q", b""), properties, b"", 1)
    for _ in range(2):
        headers = dict(properties.headers())
        record_death(headers, "q", DeathReason.REJECTED, message, 1000)
        properties = properties.rewritten(headers, drop_expiration=True)
    deaths = properties.headers()["x-death"]
    assert isinstance(deaths, list)
    assert deaths[0]["queue"] == "q"
