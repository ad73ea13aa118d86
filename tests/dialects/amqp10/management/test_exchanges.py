"""Exchanges over the management node."""

import pytest

from tests.dialects.amqp10.management.conversation import Conversation

DONE = (204, None)
ON_DEFAULT = (403, "operation not permitted on the default exchange")


def test_an_exchange_is_declared_as_often_as_one_likes() -> None:
    conversation = Conversation()
    body = {
        "type": "fanout",
        "durable": False,
        "auto_delete": True,
        "internal": True,
        "arguments": {"x-📥": "📮"},
    }
    assert conversation.ask("PUT", "/exchanges/e", body) == DONE
    assert conversation.ask("PUT", "/exchanges/e", body) == DONE
    exchange = conversation.vhost.exchanges["e"]
    flags = (exchange.kind, exchange.durable, exchange.auto_delete, exchange.internal)
    assert flags == ("fanout", False, True, True)
    assert exchange.arguments == {"x-📥": "📮"}


def test_an_exchange_is_direct_and_durable_unless_said_otherwise() -> None:
    conversation = Conversation()
    assert conversation.ask("PUT", "/exchanges/e", {}) == DONE
    exchange = conversation.vhost.exchanges["e"]
    flags = (exchange.kind, exchange.durable, exchange.auto_delete, exchange.internal)
    assert flags == ("direct", True, False, False)


def test_a_predeclared_exchange_may_be_declared_as_it_is() -> None:
    assert Conversation().ask("PUT", "/exchanges/amq.topic", {"type": "topic"}) == DONE


def test_deleting_what_is_not_there_succeeds() -> None:
    conversation = Conversation()
    conversation.ask("PUT", "/exchanges/e", {})
    assert conversation.ask("DELETE", "/exchanges/e") == DONE
    assert "e" not in conversation.vhost.exchanges
    assert conversation.ask("DELETE", "/exchanges/e") == DONE


def test_an_inequivalent_declaration_is_a_conflict() -> None:
    conversation = Conversation()
    conversation.ask("PUT", "/exchanges/e", {})
    assert conversation.ask("PUT", "/exchanges/e", {"type": "fanout"}) == (
        409,
        (
            "inequivalent arg 'type' for exchange 'e' in vhost '/': "
            "received 'fanout' but current is 'direct'"
        ),
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"type": "🤷"}, "unknown exchange type '🤷'"),
        ({"type": True}, "bad exchange property 'type': string expected, got boolean"),
        (
            {"exclusive": True},
            (
                "bad exchange property 'exclusive': supported are durable, auto_delete, type, "
                "internal, "
                "arguments"
            ),
        ),
        (b"", "the body must be a map, not binary"),
    ],
)
def test_a_body_that_is_wrong_is_told_what_is_wrong(body: object, text: str) -> None:
    assert Conversation().ask("PUT", "/exchanges/e", body) == (400, text)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_names_that_cannot_be_used(method: str) -> None:
    conversation = Conversation()
    body: object = {} if method == "PUT" else None
    assert conversation.ask(method, "/exchanges/", body) == ON_DEFAULT
    assert conversation.ask(method, "/exchanges/amq.new", body) == (
        403,
        "exchange 'amq.new' in vhost '/' starts with reserved prefix 'amq.'",
    )
    assert conversation.ask(method, "/exchanges/x%0Dx", body) == (
        400,
        "Bad name 'x\rx': line feed and carriage return characters not allowed",
    )


def test_a_predeclared_exchange_is_not_deleted() -> None:
    conversation = Conversation()
    assert conversation.ask("DELETE", "/exchanges/amq.fanout") == (
        403,
        "exchange 'amq.fanout' in vhost '/' starts with reserved prefix 'amq.'",
    )
    assert "amq.fanout" in conversation.vhost.exchanges


def test_permissions_are_asked_for() -> None:
    conversation = Conversation(configure="^mine")
    refused = (403, "access to exchange 'e' in vhost '/' refused for user 'ada'")
    assert conversation.ask("PUT", "/exchanges/e", {}) == refused
    assert conversation.ask("DELETE", "/exchanges/e") == refused
    assert conversation.ask("PUT", "/exchanges/mine", {}) == DONE
