"""Getting messages over HTTP, and what becomes of them."""

import pika
import pytest

from penstock.server.http.api.get_page import BODY_BYTES_MAX
from tests.server.http.api.administering import done, publish, sent, user_of
from tests.server.http.asking import Pages, problem
from tests.server.opened import pika_connection

REQUEUE = {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto"}


def got(pages: Pages, **wanted: object) -> list[dict[str, object]]:
    response = done(pages, "POST", "/api/queues/%2F/q/get", {**REQUEUE, **wanted})
    found = response.json()
    assert isinstance(found, list)
    return found


@pytest.fixture
def filled(kept: Pages) -> Pages:
    done(kept, "PUT", "/api/queues/%2F/q", {"durable": True})
    for payload in "abc":
        publish(kept, "amq.default", "q", payload, {"delivery_mode": 2})
    return kept


def test_what_is_requeued_keeps_its_order_and_is_flagged(filled: Pages) -> None:
    assert [(row["payload"], row["redelivered"]) for row in got(filled, count=2)] == [
        ("a", False),
        ("b", False),
    ]
    assert [(row["payload"], row["redelivered"]) for row in got(filled)] == [
        ("a", True),
        ("b", True),
        ("c", False),
    ]
    assert [row["message_count"] for row in got(filled)] == [2, 1, 0]


def test_what_is_acknowledged_is_gone(filled: Pages) -> None:
    assert len(got(filled, count=2, ackmode="ack_requeue_false")) == 2
    assert filled.broker.queue_depths() == {"q": 1}


def test_what_is_rejected_is_dead_lettered(pages: Pages) -> None:
    done(pages, "PUT", "/api/queues/%2F/dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    done(pages, "PUT", "/api/queues/%2F/q", {"arguments": arguments})
    publish(pages, "amq.default", "q")
    got(pages, ackmode="reject_requeue_false")
    assert pages.broker.queue_depths() == {"q": 0, "dead": 1}


def test_a_quorum_queue_counts_deliveries(pages: Pages) -> None:
    quorum = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
    done(pages, "PUT", "/api/queues/%2F/q", quorum)
    publish(pages, "amq.default", "q")
    assert got(pages)[0]["properties"] == {}
    assert got(pages)[0]["properties"] == {"headers": {"x-delivery-count": 1}}


def test_a_payload_that_is_not_text_comes_as_base64(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    channel.queue_declare("q")
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"\xff\x00")
    row = got(pages)[0]
    assert (row["payload"], row["payload_encoding"], row["payload_bytes"]) == ("/wA=", "base64", 2)


def test_the_messages_of_a_stream_are_not_gotten(pages: Pages) -> None:
    stream = {"durable": True, "arguments": {"x-queue-type": "stream"}}
    done(pages, "PUT", "/api/queues/%2F/q", stream)
    problem(sent(pages, "POST", "/api/queues/%2F/q/get", REQUEUE), 400)


def test_it_takes_read_permission(pages: Pages) -> None:
    done(pages, "PUT", "/api/queues/%2F/q")
    other = user_of(pages, "anna", "management", read="^mine")
    problem(sent(other, "POST", "/api/queues/%2F/q/get", REQUEUE), 403)
    problem(sent(other, "DELETE", "/api/queues/%2F/q/contents"), 403)
    problem(sent(other, "DELETE", "/api/queues/%2F/q"), 403)


def test_another_connections_exclusive_queue_is_locked(pages: Pages) -> None:
    pika_connection(pages.broker.url).channel().queue_declare("q", exclusive=True)
    problem(sent(pages, "POST", "/api/queues/%2F/q/get", REQUEUE), 409)
    problem(sent(pages, "DELETE", "/api/queues/%2F/q"), 409)


def test_headers_count_against_the_size_of_an_answer(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    channel.queue_declare("q")
    channel.confirm_delivery()
    large = pika.BasicProperties(headers={"a": "x" * 100_000})
    for _ in range(100):
        channel.basic_publish("", "q", b"", large)
    assert len(got(pages, count=100)) == BODY_BYTES_MAX // 100_000 + 1
