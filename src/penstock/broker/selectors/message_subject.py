"""A message as selectors see it: application headers by their own names, and facts by given ones.

A fact has the same name under each of the prefixes that clients use, and some have a JMS name:

    amqp.priority   header.priority   h.priority   properties.priority   p.priority   JMSPriority

A header of such a name is hidden by the fact; every other name, with dots or without, is a header.
"""

from decimal import Decimal
from typing import Final

from penstock.broker.header_values import Long, Timestamp
from penstock.broker.message import NO_EXPIRATION, Message
from penstock.broker.selectors.subject import Subject

# Qpid's prefix, then those of the AMQP 1.0 filter expressions as RabbitMQ spells them.
_PREFIXES: Final = ("amqp.", "header.", "h.", "properties.", "p.")
_JMS_NAMES: Final[dict[str, str]] = {
    "JMSCorrelationID": "correlation_id",
    "JMSDeliveryMode": "delivery_mode",
    "JMSDestination": "to",
    "JMSExpiration": "absolute_expiry_time",
    "JMSMessageID": "message_id",
    "JMSPriority": "priority",
    "JMSRedelivered": "redelivered",
    "JMSReplyTo": "reply_to",
    "JMSTimestamp": "creation_time",
    "JMSType": "subject",
    "JMSXGroupID": "group_id",
    "JMSXGroupSeq": "group_sequence",
    "JMSXUserID": "user_id",
}
# What AMQP 1.0, and JMS, say of a message without a priority (specification 3.2.1).
_PRIORITY_DEFAULT: Final = 4
# This is not a property, but it is known for every message.
_ENVELOPE: Final = (
    "delivery_count",
    "delivery_mode",
    "durable",
    "exchange",
    "priority",
    "redelivered",
    "routing_key",
    "ttl",
)
# Properties by both protocols' names; the dialect answers for those it has.
_TEXTS: Final = (
    "app_id",
    "content_encoding",
    "content_type",
    "correlation_id",
    "group_id",
    "message_id",
    "reply_to",
    "reply_to_group_id",
    "subject",
    "to",
    "type",
    "user_id",
)
_NUMBERS: Final = ("absolute_expiry_time", "creation_time", "group_sequence")


def _all_facts() -> dict[str, str]:
    facts = {prefix + fact: fact for prefix in _PREFIXES for fact in _ENVELOPE + _TEXTS + _NUMBERS}
    facts.update(_JMS_NAMES)
    return facts


_FACTS: Final[dict[str, str]] = _all_facts()


class MessageSubject(Subject):
    """Made for one message and asked by any number of selectors; headers are decoded once."""

    def __init__(
        self, message: Message, delivery_count: int = 0, is_redelivered: bool = False
    ) -> None:
        self._message: Message = message
        self._delivery_count: int = delivery_count
        self._is_redelivered: bool = is_redelivered
        self._headers: dict[str, object] | None = None

    def value_of(self, name: str) -> object | None:
        fact = _FACTS.get(name)
        if fact is not None:
            return self._fact(fact)
        headers = self._headers
        if headers is None:
            headers = self._message.properties.headers()
            self._headers = headers
        return _plain(headers.get(name))

    def _fact(self, fact: str) -> object | None:
        properties = self._message.properties
        if fact in _ENVELOPE:
            return self._envelope(fact)
        if fact == "creation_time":
            return self._creation_time()
        text = properties.text_of(fact)
        if fact in _NUMBERS:
            return _whole_number(text)
        if fact == "subject" and not text:
            # JMS keeps its type in AMQP 1.0's subject; AMQP 0-9-1 has a property for it.
            text = properties.text_of("type")
        return text or None

    def _envelope(self, fact: str) -> object | None:
        properties = self._message.properties
        if fact == "priority":
            return properties.priority if properties.has_priority else _PRIORITY_DEFAULT
        if fact == "durable":
            return properties.persistent
        if fact == "delivery_mode":
            return "PERSISTENT" if properties.persistent else "NON_PERSISTENT"
        if fact == "delivery_count":
            return self._delivery_count
        if fact == "redelivered":
            return self._is_redelivered
        if fact == "exchange":
            return self._message.address.exchange
        if fact == "routing_key":
            return self._message.address.routing_key
        assert fact == "ttl", "every fact of the envelope has an answer"
        lifetime = properties.expiration_ms
        return None if lifetime == NO_EXPIRATION else lifetime

    def _creation_time(self) -> int | None:
        """Milliseconds since 1970: AMQP 1.0's own, or AMQP 0-9-1's seconds."""
        properties = self._message.properties
        milliseconds = _whole_number(properties.text_of("creation_time"))
        if milliseconds is not None:
            return milliseconds
        seconds = _whole_number(properties.text_of("timestamp"))
        return None if seconds is None else seconds * 1000


def _whole_number(text: str) -> int | None:
    # Longer ones are not 64-bit numbers.
    return int(text) if len(text) <= 20 and text.isascii() and text.isdigit() else None


def _plain(value: object) -> object:
    # Nearly every header is one of these.
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, Timestamp):
        return value.seconds * 1000
    if isinstance(value, Long):
        return value.value
    if isinstance(value, Decimal):
        return float(value)
    return value
