"""Moves over HTTP: begun, observed, cancelled, refused."""

import json
import time

from penstock import Broker
from penstock.broker.topology import SetTopicPermissions
from tests.server.http.asking import Pages, declared, problem, publish
from tests.server.opened import pika_connection


def move(pages: Pages, queue: str, **body: object) -> dict[str, object]:
    response = pages.ask("POST", f"/api/queues/%2F/{queue}/move", json.dumps(body).encode())
    assert response.status_code == 200, response.text
    found = response.json()
    assert isinstance(found, dict)
    return found


def bodies(broker: Broker, queue: str) -> list[bytes]:
    channel = pika_connection(broker.url).channel()
    found: list[bytes] = []
    while True:
        frame, _, body = channel.basic_get(queue, auto_ack=True)
        if frame is None:
            return found
        found.append(body)


def test_a_move_is_answered_with_its_count_when_it_is_over(kept: Pages) -> None:
    broker = kept.broker
    channel = declared(broker, "from", {})
    declared(broker, "to", {})
    publish(channel, "from", [b"%d" % number for number in range(700)])
    told = move(kept, "from", destination="to")
    assert (told["state"], told["messages"]) == ("done", 700)
    assert bodies(broker, "to") == [b"%d" % number for number in range(700)]
    assert bodies(broker, "from") == []


def test_a_move_that_is_stopped_says_why(broker: Broker, pages: Pages) -> None:
    channel = declared(broker, "from", {})
    declared(broker, "small", {"x-max-length": 2, "x-overflow": "reject-publish"})
    publish(channel, "from", [b"1", b"2", b"3"])
    told = move(pages, "from", destination="small")
    assert (told["state"], told["messages"]) == ("stopped", 2)
    assert "is full" in str(told["reason"])
    listed = pages.get("/api/queues/%2F/from/moves").json()
    assert listed == [told]
    assert pages.facts(f"/api/queues/%2F/from/moves/{told['number']}") == told


def test_a_move_in_progress_is_observed_and_cancelled(broker: Broker, pages: Pages) -> None:
    channel = pika_connection(broker.url).channel()
    channel.queue_declare("from", durable=True)
    channel.queue_declare("to", durable=True)
    for _ in range(30_000):
        channel.basic_publish("", "from", b"x")
    channel.queue_declare("from", passive=True)
    told = move(pages, "from", destination="to", wait_ms=0)
    path = f"/api/queues/%2F/from/moves/{told['number']}"
    assert pages.ask("DELETE", path).status_code == 204
    after = pages.facts(path)
    assert after["state"] in {"cancelled", "done"}
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        counts = [
            channel.queue_declare(name, passive=True).method.message_count
            for name in ("from", "to")
        ]
        if sum(counts) == 30_000:
            break
    assert counts[1] == after["messages"]


def test_a_copy_with_a_selector_leaves_the_source_alone(broker: Broker, pages: Pages) -> None:
    channel = declared(broker, "from", {})
    declared(broker, "to", {})
    publish(channel, "from", [b"1", b"2"])
    told = move(pages, "from", destination="to", copy=True, selector="amqp.routing_key = 'from'")
    assert told["messages"] == 2
    assert bodies(broker, "from") == bodies(broker, "to") == [b"1", b"2"]


def test_what_makes_no_sense_is_refused(broker: Broker, pages: Pages) -> None:
    declared(broker, "from", {})
    path = "/api/queues/%2F/from/move"
    for body, status in (
        (b"{}", 400),
        (b"[]", 400),
        (b'{"destination": 5}', 400),
        (b'{"destination": "from"}', 400),
        (b'{"destination": "none"}', 404),
        (b'{"exchange": "none"}', 404),
        (b'{"exchange": "amq.direct", "selector": "a ="}', 400),
        (b'{"exchange": "amq.direct", "count": -1}', 400),
        (b'{"exchange": "amq.direct", "count": 99999999999999999999}', 400),
        (b'{"exchange": "\\ud800"}', 400),
    ):
        problem(pages.ask("POST", path, body), status)
    problem(pages.ask("POST", "/api/queues/%2F/none/move", b'{"destination": "from"}'), 404)
    problem(pages.get("/api/queues/%2F/none/moves"), 404)
    problem(pages.get("/api/queues/%2F/from/moves/7"), 404)
    problem(pages.ask("DELETE", "/api/queues/%2F/from/moves/x"), 400)


def test_topic_permissions_hold_for_moves_too(broker: Broker, pages: Pages) -> None:
    declared(broker, "from", {})
    broker.add_user("ann", "p", ("management",))
    broker.set_permissions("ann", "/")
    broker.apply(SetTopicPermissions("ann", "/", "amq.topic", "^ann", ".*"))
    ann = Pages(broker, ("ann", "p"))
    for body in ({"exchange": "amq.topic"}, {"exchange": "amq.topic", "routing_key": "bob"}):
        problem(ann.ask("POST", "/api/queues/%2F/from/move", json.dumps(body).encode()), 403)
    move(ann, "from", exchange="amq.topic", routing_key="ann.x")
    move(pages, "from", exchange="amq.topic")


def test_a_move_may_not_publish_to_an_internal_exchange(broker: Broker, pages: Pages) -> None:
    channel = declared(broker, "from", {})
    channel.exchange_declare("inside", "fanout", internal=True)
    body = json.dumps({"exchange": "inside", "copy": True}).encode()
    problem(pages.ask("POST", "/api/queues/%2F/from/move", body), 403)
