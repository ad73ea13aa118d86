from decimal import Decimal

import pytest

from penstock.broker.header_values import Long, Timestamp
from penstock.broker.message import NO_EXPIRATION, Address, Message, Properties
from penstock.broker.selectors.message_subject import MessageSubject
from penstock.broker.selectors.selector import Selector


class TextProperties(Properties):
    """Counts how often its headers are decoded."""

    def __init__(
        self,
        headers: dict[str, object],
        texts: dict[str, str],
        *,
        persistent: bool = False,
        expiration_ms: int = NO_EXPIRATION,
    ) -> None:
        super().__init__(persistent, 4, expiration_ms)
        self._headers = headers
        self._texts = texts
        self.decoded = 0

    def headers(self) -> dict[str, object]:
        self.decoded += 1
        return self._headers

    def text_of(self, name: str) -> str:
        return self._texts.get(name, "")


def subject(
    headers: dict[str, object] | None = None, texts: dict[str, str] | None = None
) -> MessageSubject:
    properties = TextProperties(headers or {}, texts or {})
    return MessageSubject(Message(Address("orders", "eu.new", b""), properties, b"", -1))


@pytest.mark.parametrize("said", [0, 4, 9])
def test_a_message_without_a_priority_has_that_which_amqp_1_0_gives_it(said: int) -> None:
    properties = TextProperties({}, {})
    message = Message(Address("orders", "eu.new", b""), properties, b"", -1)
    assert MessageSubject(message).value_of("JMSPriority") == 4
    properties.priority = said
    properties.has_priority = True
    assert MessageSubject(message).value_of("JMSPriority") == said


PREFIXES = ["amqp.", "header.", "h.", "properties.", "p."]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_fact_has_the_same_name_under_every_prefix(prefix: str) -> None:
    known = subject(texts={"message_id": "m1", "user_id": "ann"})
    assert known.value_of(f"{prefix}message_id") == "m1"
    assert known.value_of(f"{prefix}user_id") == "ann"
    assert known.value_of(f"{prefix}priority") == 4
    assert known.value_of(f"{prefix}exchange") == "orders"
    assert known.value_of(f"{prefix}routing_key") == "eu.new"
    assert known.value_of(f"{prefix}delivery_count") == 0


@pytest.mark.parametrize(
    ("name", "property_name"),
    [
        ("JMSMessageID", "message_id"),
        ("JMSCorrelationID", "correlation_id"),
        ("JMSReplyTo", "reply_to"),
        ("JMSDestination", "to"),
        ("JMSType", "subject"),
        ("JMSType", "type"),
        ("JMSXUserID", "user_id"),
        ("JMSXGroupID", "group_id"),
    ],
)
def test_a_jms_name_leads_to_its_property(name: str, property_name: str) -> None:
    assert subject(texts={property_name: "text"}).value_of(name) == "text"
    assert subject().value_of(name) is None


def test_the_subject_goes_before_the_type() -> None:
    assert subject(texts={"subject": "s", "type": "t"}).value_of("JMSType") == "s"
    assert subject(texts={"subject": "s", "type": "t"}).value_of("amqp.type") == "t"


def test_times_are_milliseconds_whichever_protocol_gave_them() -> None:
    assert subject(texts={"timestamp": "1700000000"}).value_of("JMSTimestamp") == 1700000000000
    both = {"timestamp": "1700000000", "creation_time": "1700000000123"}
    assert subject(texts=both).value_of("amqp.creation_time") == 1700000000123
    assert subject(texts={"absolute_expiry_time": "5"}).value_of("JMSExpiration") == 5
    assert subject().value_of("JMSTimestamp") is None


@pytest.mark.parametrize("text", ["soon", "-1", "1" * 5000, "²"])
def test_a_property_that_is_no_number_where_one_belongs_is_absent(text: str) -> None:
    assert subject(texts={"timestamp": text}).value_of("JMSTimestamp") is None


def test_delivery_mode_and_lifetime_are_told() -> None:
    address = Address("", "", b"")
    durable = TextProperties({}, {}, persistent=True, expiration_ms=60)
    told = MessageSubject(Message(address, durable, b"", -1), 2, True)
    assert told.value_of("JMSDeliveryMode") == "PERSISTENT"
    assert told.value_of("amqp.durable") is True
    assert told.value_of("header.ttl") == 60
    assert told.value_of("header.delivery_count") == 2
    assert told.value_of("JMSRedelivered") is True
    assert subject().value_of("JMSDeliveryMode") == "NON_PERSISTENT"
    assert subject().value_of("amqp.durable") is False
    assert subject().value_of("amqp.ttl") is None
    assert subject().value_of("JMSRedelivered") is False


def test_every_other_name_is_a_header() -> None:
    known = subject({"color": "red", "p.color": "blue", "JMSOther": 1, "priority": 9, "a.b": None})
    assert known.value_of("color") == "red"
    assert known.value_of("p.color") == "blue"
    assert known.value_of("JMSOther") == 1
    assert known.value_of("priority") == 9
    assert known.value_of("a.b") is None
    assert known.value_of("missing") is None


def test_a_fact_hides_a_header_of_its_name() -> None:
    assert subject({"JMSPriority": 9}).value_of("JMSPriority") == 4


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (Timestamp(5), 5000),
        (Long(7), 7),
        (Decimal("1.5"), 1.5),
        (True, True),
        (1.25, 1.25),
        (b"x", b"x"),
    ],
)
def test_a_header_is_told_as_a_plain_value(header: object, value: object) -> None:
    told = subject({"it": header}).value_of("it")
    assert told == value
    assert type(told) is type(value)


def test_headers_are_decoded_once_and_only_when_asked_for() -> None:
    properties = TextProperties({"color": "red", "weight": 12}, {})
    message = Message(Address("", "", b""), properties, b"", -1)
    known = MessageSubject(message)
    assert Selector.parse("JMSPriority = 4").matches(known)
    assert properties.decoded == 0
    assert Selector.parse("color = 'red' AND weight > 10 AND missing IS NULL").matches(known)
    assert properties.decoded == 1
