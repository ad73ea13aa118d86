"""Queues as the API shows them."""

import time

import pytest

from penstock import Broker
from tests.server.http.api.lists import Scene, row, rows
from tests.server.http.asking import Pages, declared, problem
from tests.server.opened import pika_connection

# A second sample is due after five seconds; a loaded machine takes longer.
SAMPLED_SECONDS = 60


def test_a_queue_shows_its_messages_and_what_happened_to_them(broker: Broker, pages: Pages) -> None:
    scene = Scene(broker)
    scene.publisher.basic_get("q", auto_ack=True)
    shown = row(pages, "/api/queues/%2F/q")
    assert (shown["messages"], shown["messages_ready"], shown["messages_unacknowledged"]) == (
        4,
        2,
        2,
    )
    assert shown["message_bytes"] == 20
    stats = shown["message_stats"]
    assert (stats["publish"], stats["deliver_get"], stats["ack"]) == (5, 3, 1)
    assert (stats["deliver"], stats["get"]) == (2, 1)
    assert shown["consumers"] == 1
    (consumer,) = shown["consumer_details"]
    assert consumer["consumer_tag"] == "tag"


def test_a_queue_shows_how_it_was_declared(broker: Broker, pages: Pages) -> None:
    scene = Scene(broker)
    (only,) = rows(pages, "/api/queues")
    assert only["arguments"] == {"x-max-length": 1000}
    assert (only["durable"], only["auto_delete"], only["exclusive"]) == (True, False, False)
    assert (only["type"], only["state"], only["vhost"]) == ("classic", "running", "/")
    assert only["replicate"] == "all"
    assert "message_stats" in only
    scene.publisher.queue_declare("mine", exclusive=True)
    mine = row(pages, "/api/queues/%2F/mine")
    assert mine["exclusive"] and mine["owner_pid_details"]["name"] == scene.name
    # Nothing was counted there.
    assert "message_stats" not in mine


def test_a_stream_and_a_quorum_queue_name_their_one_member(broker: Broker, pages: Pages) -> None:
    declared(broker, "s", {"x-queue-type": "stream"}).basic_publish("", "s", b"1")
    declared(broker, "quorum", {"x-queue-type": "quorum"})
    node = row(pages, "/api/overview")["node"]
    stream = row(pages, "/api/queues/%2F/s")
    assert (stream["type"], stream["messages"], stream["members"]) == ("stream", 1, [node])
    assert row(pages, "/api/queues/%2F/quorum")["leader"] == node


def test_the_policy_that_applies_is_named(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    assert row(pages, "/api/queues/%2F/q")["policy"] is None
    broker.set_policy("/", "short", "^q$", {"max-length": 5}, 0, "queues")
    shown = row(pages, "/api/queues/%2F/q")
    assert shown["policy"] == "short"
    assert shown["effective_policy_definition"] == {"max-length": 5}


def test_queues_are_listed_by_virtual_host(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    broker.add_vhost("other")
    assert [one["name"] for one in rows(pages, "/api/queues/%2F")] == ["q"]
    assert rows(pages, "/api/queues/other") == []
    problem(pages.get("/api/queues/unknown"), 404)
    problem(pages.get("/api/queues/%2F/unknown"), 404)
    problem(pages.get("/api/queues/unknown/q"), 404)


def test_a_list_can_be_cut_into_pages_and_columns(broker: Broker, pages: Pages) -> None:
    channel = pika_connection(broker.url).channel()
    for number in range(5):
        channel.queue_declare(f"q{number}")
    page = row(
        pages, "/api/queues?page=2&page_size=2&sort=name&sort_reverse=true&columns=name,vhost"
    )
    assert page["items"] == [{"name": "q2", "vhost": "/"}, {"name": "q1", "vhost": "/"}]
    assert (page["total_count"], page["page_count"]) == (5, 3)


def test_without_figures_a_queue_shows_how_it_was_declared_alone(
    broker: Broker, pages: Pages
) -> None:
    Scene(broker)
    (only,) = rows(pages, "/api/queues?disable_stats=true")
    assert "messages" not in only and only["name"] == "q"
    assert "messages" not in row(pages, "/api/queues/%2F/q?disable_stats=true")


def test_what_the_broker_declares_for_itself_is_not_listed(broker: Broker, pages: Pages) -> None:
    channel = declared(broker, "q", {})
    channel.basic_publish("", "q", b"1")
    taken = pages.ask("POST", "/api/leases/%2F/q", b'{"owner": "job", "number": 1}')
    assert taken.status_code == 200, taken.text
    assert [one["name"] for one in rows(pages, "/api/queues")] == ["q"]


@pytest.mark.timeout(SAMPLED_SECONDS + 60)
def test_rates_appear_with_the_second_sample(broker: Broker, pages: Pages) -> None:
    scene = Scene(broker)
    path = "/api/queues/%2F/q?msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5"
    deadline = time.monotonic() + SAMPLED_SECONDS
    while True:
        scene.publisher.basic_publish("ex", "near.by", b"x")
        shown = row(pages, path)
        details = shown["message_stats"]["publish_details"]
        if details["rate"] > 0:
            break
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)
    assert len(details["samples"]) >= 2
    newest, before = details["samples"][:2]
    assert newest["timestamp"] - before["timestamp"] == 5000
    assert newest["sample"] > before["sample"]
    assert details["avg_rate"] > 0 and details["avg"] > 0
    assert shown["messages_details"]["samples"]
    overview = row(pages, "/api/overview")
    assert overview["message_stats"]["publish_details"]["rate"] > 0


def test_a_span_that_is_not_a_number_is_refused(pages: Pages) -> None:
    problem(pages.get("/api/queues?lengths_age=x&lengths_incr=5"), 400)
