"""Prometheus' pages say what the broker holds, and do not fall when a queue goes."""

import time
from collections.abc import Callable
from pathlib import Path

import pika.exceptions
import pytest
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
    """RabbitMQ's names unless the name says otherwise."""
    if not name.startswith("penstock_"):
        name = f"rabbitmq_{name}"
    return found[name, frozenset(labels.items())]


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
    assert total(found, "queue_messages_ready") == 4
    assert total(found, "queue_messages_unacked") == 1
    assert total(found, "global_messages_routed_total") == 5
    assert total(found, "global_messages_delivered_total") == 1
    assert total(found, "global_messages_acknowledged_total") == 0
    channel.basic_ack(method.delivery_tag)
    channel.queue_declare("q", passive=True)
    assert total(series(pages), "global_messages_acknowledged_total") == 1
    assert total(found, "penstock_process_cpu_seconds_total") > 0
    assert total(found, "process_resident_memory_bytes") > 1_000_000


def test_a_deleted_queue_takes_nothing_from_the_counters(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    assert total(series(pages), "global_messages_routed_total") == 1
    channel.basic_publish("", "q", b"x")
    channel.queue_delete("q")
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"x")
    found = series(pages)
    assert total(found, "global_messages_routed_total") == 3
    assert total(found, "queues") == 1


def test_an_alarm_is_seen(pages: Pages) -> None:
    assert total(series(pages), "penstock_publishers_blocked") == 0
    pages.broker.block_publishers()
    assert total(series(pages), "penstock_publishers_blocked") == 1


def test_series_per_queue_are_on_a_page_of_their_own(pages: Pages) -> None:
    pages.broker.add_vhost("other")
    pages.broker.set_permissions("guest", "other")
    for vhost in ("/", "other"):
        channel = pika_connection(pages.broker.url_for(vhost=vhost)).channel()
        for number in range(3):
            channel.queue_declare(f"q{number}")
    channel.queue_declare('odd \N{SNOWMAN} "quoted"')
    assert not [key for key in series(pages) if "queue" in dict(key[1])]
    found = series(pages, "/metrics/per-queue")
    assert total(found, "queue_messages_ready", vhost="/", queue="q2") == 0
    assert total(found, "queue_consumers", vhost="other", queue="q0") == 0
    assert total(found, "penstock_queue_messages_published_total", vhost="other", queue="q1") == 0
    of_one = series(pages, "/metrics/per-queue?vhost=other")
    assert {dict(key[1])["vhost"] for key in of_one if "queue" in dict(key[1])} == {"other"}
    assert total(of_one, "queues") == 7


def test_a_walk_over_many_queues_takes_several_steps(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    for number in range(1_100):
        channel.queue_declare(f"q{number}", auto_delete=True)
    found = series(pages, "/metrics/per-queue")
    assert total(found, "queues") == 1_100
    assert len([key for key in found if key[0] == "rabbitmq_queue_consumers"]) == 1_100


def test_streams_and_the_journal_show_how_far_they_are(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker:
        pages = Pages(broker)
        channel = declared(broker, "s", SHORT_SEGMENTS)
        publish(channel, "s", [b"x" * 100] * 10)
        pages.ask("PUT", "/api/streams/%2F/s/cursors/job", b'{"offset": 4}')
        found = series(pages)
        place = {"vhost": "/", "stream": "s"}
        assert total(found, "penstock_stream_first_offset", **place) == 0
        assert total(found, "penstock_stream_safe_end_offset", **place) == 10
        assert total(found, "penstock_stream_cursor_offset", cursor="job", **place) == 4
        assert total(found, "penstock_stream_cursor_lag", cursor="job", **place) == 6
        assert total(found, "penstock_journal_segments") == 1
        assert total(found, "penstock_journal_bytes") > 0
        assert total(found, "penstock_journal_written_bytes_total") > 0
        assert total(found, "queue_messages_ready") == 0


COUNTERS = (
    "global_messages_routed_total",
    "global_messages_delivered_total",
    "global_messages_acknowledged_total",
    "global_messages_redelivered_total",
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
        "global_messages_routed_total": 5,
        "global_messages_delivered_total": 6,
        "global_messages_acknowledged_total": 5,
        "global_messages_redelivered_total": 1,
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
    assert total(found, "global_messages_routed_total") == 1
    assert total(found, "queues_deleted_total") == 1
    assert total(found, "queues") == 0


def test_publishers_and_what_becomes_of_their_messages_are_counted(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    channel.queue_declare("q")
    channel.exchange_declare("both", "fanout")
    for queue in ("q", "r"):
        channel.queue_declare(queue)
        channel.queue_bind(queue, "both")
    channel.basic_publish("", "q", b"x")
    channel.basic_publish("", "nowhere", b"x")
    channel.confirm_delivery()
    channel.basic_publish("both", "", b"x")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"x", mandatory=True)
    for _ in range(2):
        # On a channel that ends as well as on one that is open.
        found = series(pages)
        assert total(found, "global_messages_received_total") == 4
        assert total(found, "global_messages_received_confirm_total") == 2
        assert total(found, "global_messages_confirmed_total") == 2
        assert total(found, "global_messages_routed_total") == 3
        assert total(found, "global_messages_unroutable_dropped_total") == 1
        assert total(found, "global_messages_unroutable_returned_total") == 1
        assert total(found, "penstock_publish_confirm_seconds_count") == 2
        assert total(found, "connection_incoming_bytes_total") > 0
        if channel.is_open:
            assert total(found, "global_publishers") == 1
            channel.connection.close()
            wait_for(lambda: pages.broker.connection_count == 0)


def test_deliveries_are_told_apart_by_how_they_are_acknowledged(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    for _ in range(4):
        channel.basic_publish("", "q", b"x")
    channel.basic_get("q")
    channel.basic_get("q", auto_ack=True)
    channel.queue_declare("empty")
    channel.basic_get("empty")
    for queue, is_automatic in (("automatic", True), ("manual", False)):
        other = pika_connection(pages.broker.url).channel()
        other.queue_declare(queue)
        for _ in range(2):
            other.basic_publish("", queue, b"x")
        for count, _ in enumerate(other.consume(queue, auto_ack=is_automatic), 1):
            if count == 2:
                break
        other.connection.close()
    wait_for(lambda: pages.broker.connection_count == 1)
    found = series(pages)
    assert total(found, "global_messages_delivered_consume_auto_ack_total") == 2
    assert total(found, "global_messages_delivered_consume_manual_ack_total") == 2
    assert total(found, "global_messages_delivered_get_manual_ack_total") == 1
    assert total(found, "global_messages_delivered_get_auto_ack_total") == 1
    assert total(found, "global_messages_get_empty_total") == 1
    assert total(found, "global_messages_delivered_total") == 6


def test_the_time_in_queue_is_kept_when_a_queue_goes(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    for _ in range(3):
        channel.basic_publish("", "q", b"x")
        channel.basic_get("q", auto_ack=True)
    for _ in range(2):
        found = series(pages)
        assert total(found, "penstock_queue_time_seconds_count") == 3
        assert total(found, "penstock_queue_time_seconds_bucket", le="+Inf") == 3
        channel.queue_delete("q")
    # Twice the same would be more.
    channel.queue_declare("q")
    assert total(series(pages), "penstock_queue_time_seconds_count") == 3


def test_a_confirm_that_is_kept_back_shows_in_the_histogram(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    pages.broker.delay_confirms(0.3)
    channel.basic_publish("", "q", b"x")
    found = series(pages)
    assert total(found, "penstock_publish_confirm_seconds_bucket", le="0.2") == 0
    assert total(found, "penstock_publish_confirm_seconds_count") == 1
    assert total(found, "penstock_publish_confirm_seconds_sum") >= 0.29


def test_the_page_per_object_has_connections_and_channels(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    channel.queue_declare("q")
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("q", lambda *told: None)
    found = series(pages, "/metrics/per-object")
    [name] = [
        dict(key[1])["connection"] for key in found if key[0] == "rabbitmq_connection_channels"
    ]
    assert name.endswith(f" -> 127.0.0.1:{pages.broker.port}")
    assert total(found, "connection_channels", connection=name) == 1
    assert total(found, "connection_incoming_bytes_total", connection=name) > 0
    assert total(found, "channel_consumers", channel=f"{name} (1)") == 1
    assert total(found, "consumer_prefetch", channel=f"{name} (1)") == 7
    assert total(found, "queue_consumers", vhost="/", queue="q") == 1
    # Sums of the same would be counted twice.
    assert ("rabbitmq_queue_messages", frozenset()) not in found
    assert ("rabbitmq_channel_consumers", frozenset()) not in found
    assert total(found, "connections") == 1


def test_the_page_of_details_has_the_families_that_were_asked_for(pages: Pages) -> None:
    pages.broker.add_vhost("other")
    pages.broker.set_permissions("guest", "other")
    for vhost in ("/", "other"):
        channel = pika_connection(pages.broker.url_for(vhost=vhost)).channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"x")
        channel.basic_get("q")
    place = {"vhost": "other", "queue": "q"}
    asked = "/metrics/detailed?vhost=other&family=queue_coarse_metrics&family=penstock_queue_times"
    found = series(pages, f"{asked}&family=vhost_status&family=exchange_names&family=alarm_metrics")
    assert total(found, "detailed_queue_messages_unacked", **place) == 1
    assert total(found, "penstock_detailed_queue_time_seconds_count", **place) == 1
    assert total(found, "cluster_vhost_status", vhost="other") == 1
    assert total(found, "cluster_exchange_name", vhost="other", exchange="amq.topic", type="topic")
    assert total(found, "detailed_alarms_memory_used_watermark") == 0
    assert {dict(key[1]).get("vhost", "other") for key in found} == {"other"}
    assert not [key for key in found if key[0] == "rabbitmq_connections"]
    unknown = series(pages, "/metrics/detailed?family=nonsense")
    assert {key[0] for key in unknown} == {"rabbitmq_identity_info", "rabbitmq_build_info"}


def wait_for(has_come: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not has_come():
        assert time.monotonic() < deadline
        time.sleep(0.005)
