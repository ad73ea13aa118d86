"""Prometheus' pages say what the broker holds, and do not fall when a queue goes."""

import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.server.http.asking import SHORT_SEGMENTS, Pages, declared, publish, serving
from tests.server.opened import pika_connection

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series(pages: Pages, path: str = "/metrics") -> Series:
    response = pages.get(path)
    assert response.status_code == 200, response.text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def total(found: Series, name: str, **labels: str) -> float:
    return found[f"penstock_{name}", frozenset(labels.items())]


def test_the_totals_follow_messages(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    for _ in range(5):
        channel.basic_publish("", "q", b"x")
    method, _, _ = channel.basic_get("q")
    found = series(pages)
    assert total(found, "connections") == 1
    assert total(found, "channels") == 1
    assert total(found, "queues") == 1
    assert total(found, "messages_ready") == 4
    assert total(found, "messages_unacknowledged") == 1
    assert total(found, "messages_published_total") == 5
    assert total(found, "messages_delivered_total") == 1
    assert total(found, "messages_acknowledged_total") == 0
    channel.basic_ack(method.delivery_tag)
    channel.queue_declare("q", passive=True)
    assert total(series(pages), "messages_acknowledged_total") == 1
    assert total(found, "process_cpu_seconds_total") > 0
    assert total(found, "process_resident_memory_bytes") > 1_000_000


def test_a_deleted_queue_takes_nothing_from_the_counters(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    assert total(series(pages), "messages_published_total") == 1
    channel.basic_publish("", "q", b"x")
    channel.queue_delete("q")
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    found = series(pages)
    assert total(found, "messages_published_total") == 3
    assert total(found, "queues") == 1


def test_an_alarm_is_seen(pages: Pages) -> None:
    assert total(series(pages), "publishers_blocked") == 0
    pages.broker.block_publishers()
    assert total(series(pages), "publishers_blocked") == 1


def test_series_per_queue_are_on_a_page_of_their_own(pages: Pages) -> None:
    pages.broker.add_vhost("other")
    pages.broker.set_permissions("guest", "other")
    for vhost in ("/", "other"):
        channel = pika_connection(pages.broker.url_for(vhost=vhost)).channel()
        for number in range(3):
            channel.queue_declare(f"q{number}")
    channel.queue_declare('odd \N{SNOWMAN} "quoted"')
    assert not [key for key in series(pages) if key[0].startswith("penstock_queue_")]
    found = series(pages, "/metrics/per-queue")
    assert total(found, "queue_messages_ready", vhost="/", queue="q2") == 0
    assert total(found, "queue_consumers", vhost="other", queue="q0") == 0
    assert total(found, "queue_messages_published_total", vhost="other", queue="q1") == 0
    of_one = series(pages, "/metrics/per-queue?vhost=other")
    assert {dict(key[1])["vhost"] for key in of_one if "queue" in dict(key[1])} == {"other"}
    assert total(of_one, "queues") == 7


def test_a_walk_over_many_queues_takes_several_steps(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    for number in range(1_100):
        channel.queue_declare(f"q{number}", auto_delete=True)
    found = series(pages, "/metrics/per-queue")
    assert total(found, "queues") == 1_100
    assert len([key for key in found if key[0] == "penstock_queue_consumers"]) == 1_100


def test_streams_and_the_journal_show_how_far_they_are(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker:
        pages = Pages(broker)
        channel = declared(broker, "s", SHORT_SEGMENTS)
        publish(channel, "s", [b"x" * 100] * 10)
        pages.ask("PUT", "/api/streams/%2F/s/cursors/job", b'{"offset": 4}')
        found = series(pages)
        place = {"vhost": "/", "stream": "s"}
        assert total(found, "stream_first_offset", **place) == 0
        assert total(found, "stream_safe_end_offset", **place) == 10
        assert total(found, "stream_cursor_offset", cursor="job", **place) == 4
        assert total(found, "stream_cursor_lag", cursor="job", **place) == 6
        assert total(found, "journal_segments") == 1
        assert total(found, "journal_bytes") > 0
        assert total(found, "journal_written_bytes_total") > 0
        assert total(found, "messages_ready") == 0


COUNTERS = (
    "messages_published_total",
    "messages_delivered_total",
    "messages_acknowledged_total",
    "messages_redelivered_total",
    "connections_opened_total",
    "connections_closed_total",
    "channels_opened_total",
    "queues_declared_total",
    "queues_deleted_total",
)


def test_what_came_and_went_between_two_questions_is_counted(pages: Pages) -> None:
    before = series(pages)
    assert {name: total(before, name) for name in COUNTERS} == dict.fromkeys(COUNTERS, 0)
    channel = pika_connection(pages.broker.url).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    for _ in range(5):
        channel.basic_publish("", "q", b"x")
    method, _, _ = channel.basic_get("q")
    channel.basic_nack(method.delivery_tag)
    for method, _, _ in channel.consume("q"):
        channel.basic_ack(method.delivery_tag)
        if method.delivery_tag == 6:
            break
    channel.cancel()
    channel.queue_delete("q")
    channel.connection.close()
    wait_for(lambda: pages.broker.connection_count == 0)
    after = series(pages)
    assert {name: total(after, name) for name in COUNTERS} == {
        "messages_published_total": 5,
        "messages_delivered_total": 6,
        "messages_acknowledged_total": 5,
        "messages_redelivered_total": 1,
        "connections_opened_total": 1,
        "connections_closed_total": 1,
        "channels_opened_total": 1,
        "queues_declared_total": 1,
        "queues_deleted_total": 1,
    }


def test_a_deleted_virtual_host_takes_nothing_from_the_counters(pages: Pages) -> None:
    pages.broker.add_vhost("other")
    pages.broker.set_permissions("guest", "other")
    channel = pika_connection(pages.broker.url_for(vhost="other")).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    pages.broker.delete_vhost("other")
    found = series(pages)
    assert total(found, "messages_published_total") == 1
    assert total(found, "queues_deleted_total") == 1
    assert total(found, "queues") == 0


def wait_for(has_come: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not has_come():
        assert time.monotonic() < deadline
        time.sleep(0.005)
