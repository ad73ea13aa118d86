"""Locations and methods that mean something, and those that do not."""

import pytest

from tests.dialects.amqp10.management.conversation import Conversation


@pytest.mark.parametrize(
    "to", ["/", "/foo", "/queues", "/queues/q/consumers", "/exchanges", "/bindings/a/b", "/auth"]
)
def test_there_is_nothing_elsewhere(to: str) -> None:
    assert Conversation().ask("GET", to) == (404, f"no resource at '{to}'")


@pytest.mark.parametrize(
    ("method", "to", "allowed"),
    [
        ("POST", "/queues/q", "DELETE, GET, PUT"),
        ("GET", "/queues/q/messages", "DELETE"),
        ("GET", "/exchanges/e", "DELETE, PUT"),
        ("PUT", "/bindings", "GET, POST"),
        ("GET", "/bindings/src=e;dstq=q;key=;args=", "DELETE"),
        ("GET", "/auth/tokens", "PUT"),
        ("put", "/queues/q", "DELETE, GET, PUT"),
    ],
)
def test_methods_that_a_location_does_not_have(method: str, to: str, allowed: str) -> None:
    assert Conversation().ask(method, to) == (
        405,
        f"'{method}' not allowed at '{to}', only {allowed}",
    )


@pytest.mark.parametrize(
    "to", ["👎", "", "queues/q", "/queues/a b", "/queues/a%2", "/queues/q#x", "/queues/a\nb"]
)
def test_a_location_that_is_no_uri(to: str) -> None:
    assert Conversation().ask("GET", to) == (
        400,
        f"failed to normalize URI '{to}': invalid_uri \"{to}\"",
    )


def test_letters_outside_ascii_may_be_left_unencoded() -> None:
    conversation = Conversation()
    assert conversation.ask("PUT", "/queues/größe", {})[0] == 201
    assert conversation.ask("GET", "/queues/gr%C3%B6%C3%9Fe")[0] == 200


def test_a_plus_in_a_path_is_a_plus() -> None:
    conversation = Conversation()
    conversation.ask("PUT", "/queues/a+b", {})
    assert list(conversation.vhost.queues) == ["a+b"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_body_where_none_belongs(method: str) -> None:
    assert Conversation().ask(method, "/queues/q", {}) == (400, f"{method} takes no body, got map")


def test_a_token_is_not_renewed_where_nobody_has_one() -> None:
    conversation = Conversation()
    assert conversation.ask("PUT", "/auth/tokens", b"tok") == (
        400,
        "this connection did not log in with a token",
    )
    assert conversation.ask("PUT", "/auth/tokens", "tok") == (
        400,
        "a token must be binary, not string",
    )


def test_a_refused_request_leaves_the_next_one_alone() -> None:
    conversation = Conversation()
    assert conversation.ask("PUT", "/queues/amq.x", {})[0] == 403
    assert conversation.ask("PUT", "/queues/q", {})[0] == 201
