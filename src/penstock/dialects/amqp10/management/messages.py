"""Requests and responses as messages (HTTP over AMQP, working draft 6; Link Pair 1.0)."""

from typing import Final

from penstock.wire.amqp10.performatives_generated import (
    AMQP_VALUE,
    PROPERTIES,
    AmqpValue,
    ApplicationProperties,
    Properties,
)
from penstock.wire.amqp10.sections import Sections

# "Answer over the link that is paired with this one."
REPLY_TO: Final = "$me"
# A refusal quotes names and locations, which may be of any length; nobody reads more.
TEXT_MAX: Final = 4096

# RabbitMQ's Python client writes this over the header of a request that has no body, and so in front
# of the properties; RabbitMQ does not mind.
_NULL_BODY: Final = b"\x00\x53\x77\x40"
_HTTP_RESPONSE: Final[dict[object, object]] = {"http:response": "1.1"}


class ManagementRequest:
    """One request. Made by `read_request`, done with when it is answered."""

    def __init__(
        self, message_id: object, to: str, method: str, body: object = None, fault: str = ""
    ) -> None:
        # Any of the four types of message-id; None when the peer does not want to correlate.
        self.message_id: object = message_id
        self.to: str = to
        self.method: str = method
        # The decoded amqp-value; None for null and for no body, clients send either.
        self.body: object = body
        # What is wrong with the message as a request; empty when nothing is.
        self.fault: str = fault


class ManagementResponse:
    """A status and an amqp-value: a map, a list, a text that says what was wrong, or null."""

    def __init__(self, status: int, body: object = None) -> None:
        self.status: int = status
        self.body: object = body


def read_request(payload: bytes) -> ManagementRequest:
    """Raises `Malformed` for octets that are not a message; all other faults can be answered."""
    sections = Sections(payload.removeprefix(_NULL_BODY))
    properties = sections.decode(PROPERTIES)
    if not isinstance(properties, Properties):
        return ManagementRequest(None, "", "", None, "request without properties")
    to = properties.to
    method = properties.subject
    fault = ""
    if not isinstance(to, str):
        fault = "request without 'to', which names the resource"
    elif not method:
        fault = "request without 'subject', which names the method"
    elif properties.reply_to != REPLY_TO:
        fault = f"'reply-to' of a request must be '{REPLY_TO}'"
    body: object = None
    if sections.body_kind == AMQP_VALUE:
        value = sections.decode(AMQP_VALUE)
        assert isinstance(value, AmqpValue), "its kind says so"
        body = value.value
    elif sections.body_kind and not fault:
        fault = "the body of a request must be an amqp-value"
    return ManagementRequest(
        properties.message_id, to if isinstance(to, str) else "", method or "", body, fault
    )


def encode_response(
    request: ManagementRequest, response: ManagementResponse
) -> tuple[bytes, bytes]:
    """Everything in front of the body, and the body."""
    properties = Properties(
        subject=str(response.status), correlation_id=request.message_id
    ).encode()
    head = properties + ApplicationProperties(_HTTP_RESPONSE).encode()
    body = response.body
    if isinstance(body, str):
        body = _sayable(body)
    return head, AmqpValue(body).encode()


def _sayable(text: str) -> str:
    """Names that came over AMQP 0-9-1 can hold octets that are not UTF-8."""
    return text[:TEXT_MAX].encode(errors="replace").decode()
