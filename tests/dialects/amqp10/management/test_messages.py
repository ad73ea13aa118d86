"""Requests and responses as octets."""

import pytest

from penstock.dialects.amqp10.management.messages import (
    TEXT_MAX,
    ManagementRequest,
    ManagementResponse,
    encode_response,
    read_request,
)
from penstock.formats.octets import Malformed
from penstock.wire.amqp10.performatives_generated import AmqpValue, Data, Properties
from penstock.wire.amqp10.values import ULong, Uuid
from tests.dialects.amqp10.management.conversation import Conversation, request_octets

# What rabbitmq-amqp-python-client 1.0.1 sends: an empty header, and no body section for None.
PYTHON_WITHOUT_BODY = bytes.fromhex(
    "00537045005373c02005a10361626340a10d2f7175657565732f7125323078a103505554a103246d65"
)
PYTHON_DECLARES = PYTHON_WITHOUT_BODY + bytes.fromhex(
    "005377d10000003200000004a10764757261626c6541a109617267756d656e7473"
    "d10000001400000002a10c782d6d61782d6c656e6774685505"
)
PYTHON_RENEWS_A_TOKEN = PYTHON_WITHOUT_BODY + bytes.fromhex("005377a003746f6b")


def test_a_request_of_the_python_client_is_read() -> None:
    request = read_request(PYTHON_DECLARES)
    assert (request.message_id, request.to, request.method) == ("abc", "/queues/q%20x", "PUT")
    assert request.body == {"durable": True, "arguments": {"x-max-length": 5}}
    assert not request.fault


def test_a_request_without_a_body_section_has_the_body_null() -> None:
    request = read_request(PYTHON_WITHOUT_BODY)
    assert request.body is None
    assert not request.fault
    assert read_request(PYTHON_RENEWS_A_TOKEN).body == b"tok"


def test_the_python_client_puts_the_body_null_in_front() -> None:
    request = read_request(
        b"\x00\x53\x77\x40" + Properties("1", None, "/queues/q", "GET", "$me").encode()
    )
    assert (request.method, request.to, request.body, request.fault) == (
        "GET",
        "/queues/q",
        None,
        "",
    )


def test_a_declaration_of_the_python_client_is_answered() -> None:
    conversation = Conversation()
    status, body, correlation = conversation.exchange(PYTHON_DECLARES)
    assert (status, correlation) == (201, "abc")
    assert isinstance(body, dict)
    assert body["name"] == "q x"
    assert conversation.vhost.queues["q x"].settings.max_length == 5


@pytest.mark.parametrize("message_id", [Uuid(bytes(range(16))), ULong(7), b"\x01", "text", None])
def test_the_correlation_id_is_the_message_id_type_for_type(message_id: object) -> None:
    _, _, correlation = Conversation().exchange(
        request_octets("DELETE", "/queues/q", None, message_id)
    )
    assert correlation == message_id
    assert type(correlation) is type(message_id)


def test_the_octets_of_a_response_are_those_that_rabbitmq_sends() -> None:
    head, body = encode_response(ManagementRequest("m", "/", "PUT"), ManagementResponse(204))
    subject_and_correlation = b"\x00\x53\x73\xc0\x0d\x06\x40\x40\x40\xa1\x03204\x40\xa1\x01m"
    http = b"\x00\x53\x74\xc1\x15\x02\xa1\x0dhttp:response\xa1\x031.1"
    assert head == subject_and_correlation + http
    assert body == b"\x00\x53\x77\x40"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (AmqpValue(None).encode(), "request without properties"),
        (
            Properties(None, None, None, "GET", "$me").encode(),
            "request without 'to', which names the resource",
        ),
        (
            Properties(None, None, "/queues/q", None, "$me").encode(),
            "request without 'subject', which names the method",
        ),
        (
            request_octets("GET", "/queues/q", None, "m", "elsewhere"),
            "'reply-to' of a request must be '$me'",
        ),
        (
            Properties(None, None, "/queues/q", "PUT", "$me").encode() + Data(b"{}").encode(),
            "the body of a request must be an amqp-value",
        ),
    ],
)
def test_a_message_that_is_no_request_is_answered_with_400(payload: bytes, text: str) -> None:
    assert Conversation().send(payload) == (400, text)


@pytest.mark.parametrize("payload", [b"\x00", b"\x00\x53\x73\xc0\xff\x01", PYTHON_DECLARES[:-3]])
def test_octets_that_are_no_message_are_malformed(payload: bytes) -> None:
    with pytest.raises(Malformed):
        read_request(payload)


def test_a_refusal_never_fails_to_be_said() -> None:
    text = "no queue '\udcff'" + "x" * TEXT_MAX
    _, body = encode_response(ManagementRequest("m", "/", "PUT"), ManagementResponse(400, text))
    assert len(body) < TEXT_MAX + 16
    assert b"no queue '?'" in body
