"""Publishing over HTTP: it is a publish with a confirm, and takes the rights of one."""

import threading
from pathlib import Path

import pytest

from tests.server.http.api.administering import done, publish, sent, user_of
from tests.server.http.asking import Pages, problem, serving


def routed(pages: Pages, exchange: str, key: str, **properties: object) -> object:
    response = publish(pages, exchange, key, properties=properties)
    assert response.status_code == 200, response.text
    return response.json()["routed"]


def test_a_confirmed_message_is_there_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker:
        pages = Pages(broker)
        done(pages, "PUT", "/api/queues/%2F/q", {"durable": True})
        assert routed(pages, "amq.default", "q", delivery_mode=2) is True
    with serving(tmp_path / "data") as broker:
        assert broker.queue_depths() == {"q": 1}


def test_a_message_for_a_stream_is_routed(kept: Pages) -> None:
    done(
        kept, "PUT", "/api/queues/%2F/s", {"durable": True, "arguments": {"x-queue-type": "stream"}}
    )
    assert routed(kept, "amq.default", "s") is True


def test_a_message_that_a_full_queue_refuses_is_not_routed(pages: Pages) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    done(pages, "PUT", "/api/queues/%2F/q", {"arguments": arguments})
    assert routed(pages, "amq.default", "q") is True
    assert routed(pages, "amq.default", "q") is False
    assert pages.broker.queue_depths() == {"q": 1}


def test_the_answer_waits_for_a_delayed_confirm(pages: Pages) -> None:
    done(pages, "PUT", "/api/queues/%2F/q")
    pages.broker.delay_confirms(0.3)
    answered = threading.Event()

    def ask() -> None:
        assert routed(pages, "amq.default", "q") is True
        answered.set()

    asking = threading.Thread(target=ask)
    asking.start()
    while pages.broker.queue_depths()["q"] == 0:
        assert asking.is_alive()
    assert not answered.is_set()
    asking.join(60)
    assert answered.is_set()


def test_nothing_is_published_while_publishers_are_blocked(pages: Pages) -> None:
    done(pages, "PUT", "/api/queues/%2F/q")
    pages.broker.block_publishers("low on memory")
    refused = publish(pages, "amq.default", "q")
    assert "low on memory" in str(problem(refused, 503)["reason"])
    assert pages.get("/api/health/checks/alarms").status_code == 503
    assert pages.get("/api/health/checks/local-alarms").json()["alarms"][0]["resource"]
    pages.broker.unblock_publishers()
    assert pages.broker.queue_depths() == {"q": 0}
    assert routed(pages, "amq.default", "q") is True


def test_it_takes_write_permission_and_the_topic_permission(pages: Pages) -> None:
    other = user_of(pages, "anna", "management", write="^amq.topic$")
    assert routed(other, "amq.topic", "a.b") is False
    problem(publish(other, "amq.direct", "a"), 403)
    topic = {"exchange": "amq.topic", "write": "^mine", "read": ""}
    done(pages, "PUT", "/api/topic-permissions/%2F/anna", topic)
    assert routed(other, "amq.topic", "mine.a") is False
    problem(publish(other, "amq.topic", "yours.a"), 403)
    copies: dict[str, object] = {"headers": {"CC": ["mine.b", "yours.a"]}}
    problem(publish(other, "amq.topic", "mine.a", properties=copies), 403)
    problem(publish(user_of(pages, "bert", "", write=".*"), "amq.topic", "a"), 403)
    problem(publish(user_of(pages, "carl", "management"), "amq.topic", "a"), 403)


@pytest.mark.parametrize(
    "properties",
    [
        {"user_id": "somebody"},
        {"reply_to": "amq.rabbitmq.reply-to"},
        {"expiration": "soon"},
        {"delivery_mode": 3},
        {"priority": -1},
        {"headers": {"CC": "no list"}},
        {"correlation_id": "c" * 256},
        {"headers": 5},
    ],
)
def test_properties_that_amqp_refuses_are_refused(
    pages: Pages, properties: dict[str, object]
) -> None:
    problem(publish(pages, "amq.default", "q", properties=properties), 400)


def test_an_internal_exchange_and_a_missing_one(pages: Pages) -> None:
    done(pages, "PUT", "/api/exchanges/%2F/inside", {"internal": True})
    problem(publish(pages, "inside", "k"), 403)
    problem(publish(pages, "missing", "k"), 404)
    problem(publish(pages, "amq.default", "k" * 256), 400)


def test_a_body_that_is_too_large_is_refused(pages: Pages) -> None:
    problem(pages.ask("PUT", "/api/queues/%2F/q", b" " * (65 * 1024)), 413)
    large = {"properties": {}, "routing_key": "q", "payload": "x" * 200_000}
    assert sent(
        pages,
        "POST",
        "/api/exchanges/%2F/amq.default/publish",
        {**large, "payload_encoding": "string"},
    ).json() == {"routed": False}
    too_large = pages.ask("POST", "/api/exchanges/%2F/amq.default/publish", b" " * (9 << 20))
    problem(too_large, 413)
