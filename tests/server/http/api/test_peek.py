"""GET /api/queues/{vhost}/{name}/peek."""

import base64
import json

import pika
import pytest
from proton import Message as ProtonMessage
from proton.utils import BlockingConnection

from penstock import Broker
from penstock.server.http.api.peek import HELD_COUNT
from tests.server.http.asking import STREAM, Pages, declared, problem, publish
from tests.server.opened import pika_connection


def peek(pages: Pages, queue: str, query: str = "") -> list[dict[str, object]]:
    found = pages.facts(f"/api/queues/%2F/{queue}/peek?{query}")["messages"]
    assert isinstance(found, list)
    return found


def test_a_message_has_the_fields_of_get_and_more(broker: Broker, pages: Pages) -> None:
    channel = declared(broker, "q", {})
    properties = pika.BasicProperties(
        content_type="text/plain",
        headers={"a": 1, "b": [True, None], "c": b"\xff"},
        delivery_mode=2,
        priority=3,
        message_id="m",
        timestamp=5,
        type="t",
        expiration="600000",
    )
    channel.basic_publish("", "q", b"hello", properties)
    (found,) = peek(pages, "q")
    assert 0 <= found.pop("age_ms") < 60_000  # type: ignore[operator]
    assert found.pop("expires_at") > 1_700_000_000_000  # type: ignore[operator]
    assert found == {
        "position": 1,
        "state": "ready",
        "redelivered": False,
        "delivery_count": 0,
        "exchange": "",
        "routing_key": "q",
        "payload": "hello",
        "payload_encoding": "string",
        "payload_bytes": 5,
        "properties": {
            "content_type": "text/plain",
            "headers": {"a": 1, "b": [True, None], "c": "/w=="},
            "delivery_mode": 2,
            "priority": 3,
            "message_id": "m",
            "timestamp": 5,
            "type": "t",
            "expiration": "600000",
        },
    }
    # A consumer does not notice.
    frame, _, _ = channel.basic_get("q")
    assert not frame.redelivered


@pytest.mark.parametrize(
    ("form", "body", "payload", "encoding"),
    [
        ("text", b"caf\xc3\xa9", "café", "string"),
        ("text", b"\xff", "/w==", "base64"),
        ("json", b'{"a": [1]}', {"a": [1]}, "json"),
        ("json", b"[NaN]", "[NaN]", "string"),
        ("json", b"[" * 5_000 + b"]" * 5_000, "[" * 5_000 + "]" * 5_000, "string"),
        ("json", b"no json", "no json", "string"),
        ("json", b"\xff", "/w==", "base64"),
        ("base64", b"text", base64.b64encode(b"text").decode(), "base64"),
        ("none", b"text", None, None),
    ],
)
def test_a_body_is_shown_in_the_form_that_was_asked_for(
    broker: Broker, pages: Pages, form: str, body: bytes, payload: object, encoding: object
) -> None:
    publish(declared(broker, "q", {}), "q", [body])
    (found,) = peek(pages, "q", f"body={form}")
    assert (found.get("payload"), found.get("payload_encoding")) == (payload, encoding)
    assert found["payload_bytes"] == len(body)


def test_a_body_is_cut_between_characters(broker: Broker, pages: Pages) -> None:
    publish(declared(broker, "q", {}), "q", ["aéé".encode()])
    (found,) = peek(pages, "q", "body_bytes=4")
    assert (found["payload"], found["payload_bytes"]) == ("aé", 5)


def test_pages_go_on_where_the_last_one_ended(kept: Pages) -> None:
    publish(declared(kept.broker, "q", {}), "q", [b"%d" % number for number in range(25)])
    seen: list[object] = []
    place = "0"
    while True:
        answer = kept.facts(f"/api/queues/%2F/q/peek?count=10&offset={place}")
        messages = answer["messages"]
        assert isinstance(messages, list)
        seen += [found["payload"] for found in messages]
        place = str(answer["next"])
        if answer["end"]:
            break
    assert seen == [str(number) for number in range(25)]


def test_a_selector_chooses(broker: Broker, pages: Pages) -> None:
    channel = declared(broker, "q", {})
    for number in range(5):
        headers = pika.BasicProperties(headers={"n": number})
        channel.basic_publish("", "q", b"%d" % number, headers)
    found = peek(pages, "q", "selector=n%20%3E%202")
    assert [one["payload"] for one in found] == ["3", "4"]


def test_unacknowledged_messages_are_shown_when_asked_for(broker: Broker, pages: Pages) -> None:
    channel = declared(broker, "q", {})
    publish(channel, "q", [b"1", b"2", b"3"])
    channel.basic_get("q")
    channel.basic_get("q")
    assert [one["payload"] for one in peek(pages, "q")] == ["3"]
    held = peek(pages, "q", "state=unacked")
    assert [(one["payload"], one["state"]) for one in held] == [("1", "unacked"), ("2", "unacked")]


def test_what_many_consumers_hold_of_several_queues_is_told_apart(
    broker: Broker, pages: Pages
) -> None:
    """One connection holds more than is looked through in one step."""
    each = HELD_COUNT // 2 + 1
    for queue in ("q", "other"):
        channel = pika_connection(broker.url).channel()
        channel.queue_declare(queue)
        for number in range(each + 1):
            channel.basic_publish("", queue, b"%d" % number)
        channel.queue_declare(queue, passive=True)
        # The first one is with a connection of its own.
        channel.basic_get(queue)
    consumer = pika_connection(broker.url).channel()
    for queue in ("other", "q"):
        consumer.basic_consume(queue, lambda *told: None)
    found: list[object] = []
    answer: dict[str, object] = {"next": "0", "end": False}
    while not answer["end"]:
        query = f"state=unacked&count=1000&offset={answer['next']}"
        answer = pages.facts(f"/api/queues/%2F/q/peek?{query}")
        assert isinstance(answer["messages"], list)
        found += [one["payload"] for one in answer["messages"]]
    assert found == [str(number) for number in range(each + 1)]


def test_streams_and_priority_queues_can_be_peeked_at(kept: Pages) -> None:
    publish(declared(kept.broker, "urgent", {"x-max-priority": 5}), "urgent", [b"1"])
    assert [one["payload"] for one in peek(kept, "urgent")] == ["1"]
    publish(declared(kept.broker, "log", STREAM), "log", [b"0", b"1", b"2"])
    found = peek(kept, "log", "offset=1")
    assert [(one["position"], one["payload"]) for one in found] == [(1, "1"), (2, "2")]
    problem(kept.get("/api/queues/%2F/log/peek?state=unacked"), 400)


def test_a_message_of_amqp_1_0_is_shown_as_a_consumer_of_0_9_1_gets_it(
    broker: Broker, pages: Pages
) -> None:
    channel = declared(broker, "q", {})
    connection = BlockingConnection(broker.url, user="guest", password="guest", timeout=20)
    sent = ProtonMessage(body=b"bytes", properties={"colour": "blue"}, inferred=True)
    connection.create_sender("/queues/q").send(sent)
    connection.close()
    (found,) = peek(pages, "q")
    frame, properties, body = channel.basic_get("q")
    assert frame is not None
    assert found["payload"] == body.decode()
    shown = found["properties"]
    assert isinstance(shown, dict)
    assert shown["headers"]["colour"] == properties.headers["colour"] == "blue"


def test_who_may_not_read_the_queue_may_not_peek_or_move_or_change(
    broker: Broker, pages: Pages
) -> None:
    declared(broker, "q", {})
    broker.add_user("blind", "secret", ("administrator",))
    broker.set_permissions("blind", "/", "^other$", ".*", "^other$")
    blind = Pages(broker, ("blind", "secret"))
    problem(blind.get("/api/queues/%2F/q/peek"), 403)
    problem(blind.get("/api/queues/%2F/q/moves"), 403)
    body = json.dumps({"exchange": "amq.fanout"}).encode()
    problem(blind.ask("POST", "/api/queues/%2F/q/move", body), 403)
    problem(blind.ask("PATCH", "/api/queues/%2F/q", b'{"arguments": {}}'), 403)
    broker.set_permissions("blind", "/", ".*", "^$", ".*")
    problem(blind.ask("POST", "/api/queues/%2F/q/move", body), 403)


@pytest.mark.parametrize(
    "query",
    [
        "offset=-1",
        "offset=x",
        "offset=99999999999999999999",
        "count=1001",
        "count=x",
        "selector=a%20=",
        "state=gone",
        "body=xml",
        "body_bytes=99999999",
    ],
)
def test_a_query_that_makes_no_sense_is_refused(broker: Broker, pages: Pages, query: str) -> None:
    declared(broker, "q", {})
    problem(pages.get(f"/api/queues/%2F/q/peek?{query}"), 400)


def test_queues_of_others_and_unknown_ones_are_refused(broker: Broker, pages: Pages) -> None:
    problem(pages.get("/api/queues/%2F/none/peek"), 404)
    channel = pika_connection(broker.url).channel()
    channel.queue_declare("mine", exclusive=True)
    problem(pages.get("/api/queues/%2F/mine/peek"), 409)
