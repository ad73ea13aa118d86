"""Bindings over the management node."""

import pytest

from penstock.broker.message import Properties
from penstock.wire.amqp10.values import UInt
from tests.broker.doubles import PlainProperties, routed
from tests.dialects.amqp10.management.conversation import Conversation

DONE = (204, None)
PLAIN = PlainProperties()


@pytest.fixture
def conversation() -> Conversation:
    made = Conversation()
    made.ask("PUT", "/queues/q%201", {})
    made.ask("PUT", "/exchanges/e", {"type": "fanout"})
    return made


def post(conversation: Conversation, **fields: object) -> tuple[int, object]:
    return conversation.ask("POST", "/bindings", dict(fields))


def listed(conversation: Conversation, query: str) -> list[dict[str, object]]:
    status, found = conversation.ask("GET", f"/bindings?{query}")
    assert status == 200
    assert isinstance(found, list)
    return found


def test_a_queue_is_bound_and_unbound_by_the_path_that_clients_make(
    conversation: Conversation,
) -> None:
    fields = {"source": "amq.direct", "destination_queue": "q 1", "binding_key": "k/1"}
    assert post(conversation, **fields, arguments={}) == DONE
    assert post(conversation, **fields, arguments={}) == DONE
    assert routed(conversation.vhost, "amq.direct", "k/1", PLAIN) == ["q 1"]
    path = "/bindings/src=amq.direct;dstq=q%201;key=k%2F1;args="
    assert conversation.ask("DELETE", path) == DONE
    assert routed(conversation.vhost, "amq.direct", "k/1", PLAIN) == []
    assert conversation.ask("DELETE", path) == DONE


def test_an_exchange_is_bound_and_unbound(conversation: Conversation) -> None:
    post(conversation, source="e", destination_queue="q 1")
    fields = {"source": "amq.topic", "destination_exchange": "e", "binding_key": "a.#"}
    assert post(conversation, **fields) == DONE
    assert routed(conversation.vhost, "amq.topic", "a.b", PLAIN) == ["q 1"]
    assert conversation.ask("DELETE", "/bindings/src=amq.topic;dste=e;key=a.%23;args=") == DONE
    assert routed(conversation.vhost, "amq.topic", "a.b", PLAIN) == []


def test_a_binding_with_arguments_is_found_in_the_list_and_deleted_by_its_location(
    conversation: Conversation,
) -> None:
    arguments = {"key 1": "👏", "key 2": UInt(3), "key 3": True, "x-match": "all"}
    fields = {"source": "amq.headers", "destination_queue": "q 1", "binding_key": ""}
    assert post(conversation, **fields, arguments=arguments) == DONE
    assert post(conversation, **fields, arguments={**arguments, "key 2": UInt(4)}) == DONE
    headers: Properties = PlainProperties({"key 1": "👏", "key 2": 3, "key 3": True})
    assert routed(conversation.vhost, "amq.headers", "", headers) == ["q 1"]

    found = listed(conversation, "src=amq.headers&dstq=q+1&key=")
    assert len(found) == 2
    told = found[0]
    location = told.pop("location")
    assert told == {
        "source": "amq.headers",
        "destination_queue": "q 1",
        "binding_key": "",
        "arguments": arguments,
    }
    assert isinstance(location, str)
    assert location.startswith("/bindings/src=amq.headers;dstq=q%201;key=;args=")
    assert conversation.ask("DELETE", location) == DONE
    assert routed(conversation.vhost, "amq.headers", "", headers) == []
    assert len(listed(conversation, "src=amq.headers&dstq=q+1&key=")) == 1


def test_only_bindings_of_that_key_are_listed(conversation: Conversation) -> None:
    for key in ("a", "b"):
        post(conversation, source="amq.direct", destination_queue="q 1", binding_key=key)
    post(conversation, source="amq.direct", destination_exchange="e", binding_key="a")
    found = listed(conversation, "src=amq.direct&dstq=q%201&key=b")
    assert [row["binding_key"] for row in found] == ["b"]
    found = listed(conversation, "src=amq.direct&dste=e&key=a")
    assert [row["destination_exchange"] for row in found] == ["e"]
    assert listed(conversation, "src=amq.direct&dstq=missing&key=a") == []
    assert listed(conversation, "src=amq.direct&dste=missing&key=a") == []


def test_every_queue_is_bound_to_the_default_exchange_by_its_name(
    conversation: Conversation,
) -> None:
    found = listed(conversation, "src=&dstq=q+1&key=q+1")
    assert [(row["source"], row["destination_queue"]) for row in found] == [("", "q 1")]
    assert listed(conversation, "src=&dstq=q+1&key=other") == []


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        (
            {"source": "", "destination_queue": "q 1"},
            403,
            "operation not permitted on the default exchange",
        ),
        (
            {"source": "e", "destination_exchange": ""},
            403,
            "operation not permitted on the default exchange",
        ),
        (
            {"source": "a\nb", "destination_queue": "q 1"},
            400,
            "Bad name 'a\nb': line feed and carriage return characters not allowed",
        ),
        (
            {"source": "e", "destination_exchange": "a\nb"},
            400,
            "Bad name 'a\nb': line feed and carriage return characters not allowed",
        ),
        ({"source": "e", "destination_queue": "no"}, 400, "no queue 'no' in vhost '/'"),
        ({"source": "no", "destination_queue": "q 1"}, 400, "no exchange 'no' in vhost '/'"),
        ({"destination_queue": "q 1"}, 400, "missing 'source' in binding"),
        (
            {"source": "e"},
            400,
            "a binding needs either 'destination_queue' or 'destination_exchange'",
        ),
        (
            {"source": "e", "destination_queue": "q 1", "destination_exchange": "e"},
            400,
            "a binding needs either 'destination_queue' or 'destination_exchange'",
        ),
        (
            {"source": 1, "destination_queue": "q 1"},
            400,
            "bad binding field 'source': string expected, got long",
        ),
        (
            {"key": "k"},
            400,
            (
                "bad binding field 'key': supported are source, destination_queue, "
                "destination_exchange, "
                "binding_key, arguments"
            ),
        ),
        (
            {"source": "e", "destination_queue": "q 1", "binding_key": "k" * 256},
            400,
            f"binding key is longer than 255 bytes: '{'k' * 40}...'",
        ),
        (
            {"source": "amq.headers", "destination_queue": "q 1", "arguments": {"x-match": 1}},
            400,
            None,
        ),
    ],
)
def test_bindings_that_are_refused(
    conversation: Conversation, fields: dict[str, object], status: int, text: str | None
) -> None:
    answered = post(conversation, **fields)
    assert answered[0] == status
    assert answered[1] == text if text is not None else "x-match" in str(answered[1])


@pytest.mark.parametrize(
    "segment",
    [
        "src=e1;dstq=q1;invalidkey=k1;args=",
        "src=;dstq=q1;key=k1;args=",
        "src=e1;dstx=q1;key=k1;args=",
        "src=e1;dstq=q1;key=k1;args=$",
        "e1",
    ],
)
def test_a_path_that_names_no_binding(conversation: Conversation, segment: str) -> None:
    assert conversation.ask("DELETE", f"/bindings/{segment}") == (
        400,
        f"bad binding path segment '{segment}'",
    )


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "missing 'src' in query"),
        ("?src=e&dstq=q", "missing 'key' in query"),
        ("?src=e&key=", "a query needs either 'dstq' or 'dste'"),
        ("?src=e&key=&dste=e&dstq=q", "a query needs either 'dstq' or 'dste'"),
        ("?src", "failed to dissect query 'src': bad query field: 'src'"),
    ],
)
def test_queries_that_are_refused(conversation: Conversation, query: str, text: str) -> None:
    assert conversation.ask("GET", f"/bindings{query}") == (400, text)


def test_an_exclusive_queue_is_bound_by_its_owner_only(conversation: Conversation) -> None:
    conversation.ask("PUT", "/queues/mine", {"exclusive": True})
    other = Conversation(conversation.vhost, 2)
    status, text = post(other, source="amq.fanout", destination_queue="mine")
    assert status == 400
    assert str(text).startswith("cannot obtain exclusive access to locked queue 'mine'")
    assert post(conversation, source="amq.fanout", destination_queue="mine") == DONE
    path = "/bindings/src=amq.fanout;dstq=mine;key=;args="
    assert other.ask("DELETE", path)[0] == 400
    assert routed(conversation.vhost, "amq.fanout", "", PLAIN) == ["mine"]
    assert conversation.ask("DELETE", path) == DONE


def test_permissions_are_asked_for_even_where_there_is_nothing_to_unbind(
    conversation: Conversation,
) -> None:
    conversation.principal.access.grant(".*", ".*", "^$")
    refused = (403, "access to exchange 'e' in vhost '/' refused for user 'ada'")
    assert post(conversation, source="e", destination_queue="q 1") == refused
    assert conversation.ask("DELETE", "/bindings/src=e;dstq=q%201;key=;args=") == refused
