"""Queues over the management node."""

import pytest

from penstock.broker.topology import DeclareQueue
from penstock.wire.amqp10.values import Array, Int, Symbol, UInt, ULong
from tests.broker.doubles import message
from tests.dialects.amqp10.management.conversation import NODE, Conversation

LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the "
    "original declaration."
)


def test_a_queue_is_declared_once_and_told_three_times_the_same() -> None:
    conversation = Conversation()
    body = {"durable": True, "arguments": {"x-queue-type": "quorum", "x-max-length": 9}}
    status, told = conversation.ask("PUT", "/queues/my%20%F0%9F%90%87%2F1", body)
    assert status == 201
    assert told == {
        "leader": NODE,
        "replicas": Array(0xB1, [NODE]),
        "message_count": 0,
        "consumer_count": 0,
        "name": "my 🐇/1",
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "type": "quorum",
        "arguments": {"x-queue-type": "quorum", "x-max-length": 9},
    }
    assert conversation.ask("PUT", "/queues/my%20%F0%9F%90%87%2F1", body) == (200, told)
    assert conversation.ask("GET", "/queues/my%20%F0%9F%90%87%2F1") == (200, told)


def test_the_types_are_those_that_clients_cast_to() -> None:
    conversation = Conversation()
    _, told = conversation.ask("PUT", "/queues/q", {"arguments": {"x-max-length": ULong(9)}})
    assert isinstance(told, dict)
    assert isinstance(told["message_count"], ULong)
    assert isinstance(told["consumer_count"], UInt)
    arguments = told["arguments"]
    assert isinstance(arguments, dict)
    assert isinstance(arguments["x-max-length"], Int)


def test_a_queue_is_durable_shared_and_classic_unless_said_otherwise() -> None:
    conversation = Conversation()
    _, told = conversation.ask("PUT", "/queues/q", {})
    assert isinstance(told, dict)
    told_flags = [told[name] for name in ("durable", "exclusive", "auto_delete", "type")]
    assert told_flags == [True, False, False, "classic"]
    _, told = conversation.ask(
        "PUT", "/queues/r", {"durable": False, "exclusive": True, "auto_delete": True}
    )
    assert isinstance(told, dict)
    told_flags = [told[name] for name in ("durable", "exclusive", "auto_delete")]
    assert told_flags == [False, True, True]


def test_null_counts_as_not_said() -> None:
    status, _ = Conversation().ask("PUT", "/queues/q", {"durable": None, "arguments": None})
    assert status == 201


def test_an_argument_means_the_same_in_whatever_width_it_comes() -> None:
    conversation = Conversation()
    conversation.vhost.apply(
        DeclareQueue("q", True, arguments={"x-max-length": 9, "x-overflow": "drop-head"}), 0
    )
    for number in (9, UInt(9), ULong(9), Int(9)):
        arguments = {Symbol("x-max-length"): number, "x-overflow": Symbol("drop-head")}
        assert conversation.ask("PUT", "/queues/q", {"arguments": arguments})[0] == 200


def test_deleting_and_purging_tell_how_many_messages_went() -> None:
    conversation = Conversation()
    conversation.ask("PUT", "/queues/q", {})
    conversation.vhost.queues["q"].enqueue(message(), 0)
    status, told = conversation.ask("DELETE", "/queues/q/messages")
    assert (status, told) == (200, {"message_count": 1})
    assert isinstance(told, dict)
    assert isinstance(told["message_count"], ULong)
    conversation.vhost.queues["q"].enqueue(message(), 0)
    assert conversation.ask("DELETE", "/queues/q") == (200, {"message_count": 1})
    assert "q" not in conversation.vhost.queues
    assert conversation.ask("DELETE", "/queues/q") == (200, {"message_count": 0})


def test_a_queue_that_is_not_there() -> None:
    conversation = Conversation()
    missing = (404, "queue 'q' in vhost '/' not found")
    assert conversation.ask("GET", "/queues/q") == missing
    assert conversation.ask("DELETE", "/queues/q/messages") == (400, "no queue 'q' in vhost '/'")


def test_an_exclusive_queue_is_locked_for_other_connections() -> None:
    owner = Conversation()
    other = Conversation(owner.vhost, 2)
    assert owner.ask("PUT", "/queues/q", {"exclusive": True})[0] == 201
    assert other.ask("PUT", "/queues/q", {"exclusive": True}) == (400, LOCKED)
    assert owner.ask("PUT", "/queues/q", {"exclusive": False}) == (400, LOCKED)
    assert other.ask("DELETE", "/queues/q/messages") == (400, LOCKED)
    assert other.ask("DELETE", "/queues/q") == (400, LOCKED)
    assert other.ask("GET", "/queues/q")[0] == 200
    owner.vhost.connection_ended(1, 0)
    assert other.ask("GET", "/queues/q")[0] == 404


def test_an_inequivalent_declaration_is_a_conflict() -> None:
    conversation = Conversation()
    conversation.ask("PUT", "/queues/q", {})
    assert conversation.ask("PUT", "/queues/q", {"auto_delete": True}) == (
        409,
        (
            "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': "
            "received 'true' but current is 'false'"
        ),
    )


def test_an_argument_that_the_broker_refuses_is_a_conflict() -> None:
    arguments = {"x-queue-type": "stream", "x-dead-letter-exchange": "d"}
    assert Conversation().ask("PUT", "/queues/q", {"arguments": arguments}) == (
        409,
        (
            "invalid arg 'x-dead-letter-exchange' for queue 'q' in vhost '/' of queue type "
            "rabbit_stream_queue"
        ),
    )


def test_a_stream_is_not_purged() -> None:
    conversation = Conversation()
    conversation.ask("PUT", "/queues/q", {"arguments": {"x-queue-type": "stream"}})
    assert conversation.ask("DELETE", "/queues/q/messages") == (
        400,
        "purge not supported by queue 'q' in vhost '/'",
    )


@pytest.mark.parametrize(
    ("to", "status", "text"),
    [
        ("/queues/", 400, "declare queue with empty name not allowed"),
        (
            "/queues/a%0Ab",
            400,
            "Bad name 'a\nb': line feed and carriage return characters not allowed",
        ),
        ("/queues/" + "x" * 256, 400, f"queue name is longer than 255 bytes: '{'x' * 40}...'"),
        ("/queues/amq.x", 403, "queue 'amq.x' in vhost '/' starts with reserved prefix 'amq.'"),
        ("/queues/%FF", 400, "'%FF' is not valid UTF-8 after percent-decoding"),
    ],
)
def test_names_that_a_queue_cannot_have(to: str, status: int, text: str) -> None:
    assert Conversation().ask("PUT", to, {}) == (status, text)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, "the body must be a map, not null"),
        ("{}", "the body must be a map, not string"),
        (
            {"unknown": "bla"},
            (
                "bad queue property 'unknown': supported are durable, exclusive, auto_delete, "
                "arguments"
            ),
        ),
        ({"durable": "yes"}, "bad queue property 'durable': boolean expected, got string"),
        ({"exclusive": UInt(1)}, "bad queue property 'exclusive': boolean expected, got uint"),
        ({"arguments": []}, "arguments must be a map, not list"),
    ],
)
def test_a_body_that_is_wrong_is_told_what_is_wrong(body: object, text: str) -> None:
    assert Conversation().ask("PUT", "/queues/q", body) == (400, text)


def test_permissions_are_asked_for() -> None:
    conversation = Conversation(configure="^mine")
    refused = (403, "access to queue 'q' in vhost '/' refused for user 'ada'")
    assert conversation.ask("PUT", "/queues/q", {}) == refused
    assert conversation.ask("DELETE", "/queues/q") == refused
    assert conversation.ask("PUT", "/queues/mine", {})[0] == 201
    conversation.principal.access.grant(".*", ".*", "^$")
    assert conversation.ask("DELETE", "/queues/mine/messages") == (
        403,
        "access to queue 'mine' in vhost '/' refused for user 'ada'",
    )
