"""The management API has RabbitMQ's keys and types, but for those that are listed here."""

import json
from typing import Any

import pytest

from penstock import Broker
from tests.behaviour.conftest import MANAGEMENT_URL, URL
from tests.behaviour.management_shapes import RECORDED, missing, shapes

# Keys of RabbitMQ's that Penstock does not have; docs/HTTP.md says why.
ERLANG = {
    "backing_queue_status",
    "context_switches",
    "cowboy_opts",
    "erlang_full_version",
    "erlang_version",
    "garbage_collection",
    "gc_bytes_reclaimed",
    "gc_num",
    "metrics_gc_queue_length",
    "mnesia_disk_tx_count",
    "mnesia_ram_tx_count",
    "net_ticktime",
    "open_files",
    "pending_raft_commands",
    "ra_open_file_metrics",
    "recoverable_slaves",
    "reductions",
    "release_series_support_status",
}
NOT_COUNTED = {
    "consumer_capacity",
    "consumer_utilisation",
    "deliver_no_ack",
    "disk_reads",
    "disk_writes",
    "drop_unroutable",
    "get_empty",
    "get_no_ack",
    "idle_since",
    "message_bytes_dlx",
    "message_bytes_persistent",
    "message_bytes_unacknowledged",
    "messages_dlx",
    "messages_persistent",
    "msg_store_read_count",
    "msg_store_write_count",
    "queue_index_read_count",
    "queue_index_write_count",
    "user_who_performed_action",
    # Of a listener: options of Erlang's sockets.
    "backlog",
    "exit_on_close",
    "ip",
    "linger",
    "nodelay",
    "port",
}
PREFIXES = ("io_",)
# In these places only.
PLACES = {
    "exchange.message_stats",
    "exchanges[].message_stats",
    "nodes[].disk_free_details",
    "nodes[].fd_used_details",
    "nodes[].proc_used_details",
    "vhost.message_stats.confirm",
    "vhost.message_stats.return_unroutable",
    "vhosts[].message_stats.confirm",
    "vhosts[].message_stats.return_unroutable",
}


def is_known(place: str) -> bool:
    key = place.rpartition(".")[2].removesuffix("_details")
    return (
        place in PLACES
        or place.removesuffix("_details") in PLACES
        or key in ERLANG | NOT_COUNTED
        or key.startswith(PREFIXES)
    )


def recorded() -> dict[str, Any]:
    found = json.loads(RECORDED.read_text())
    assert isinstance(found, dict)
    return found


def all_missing(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    return [place for page in expected for place in missing(expected[page], found[page], page)]


@pytest.mark.penstock_only("its keys are compared with those of RabbitMQ")
@pytest.mark.timeout(300)
def test_every_key_of_rabbitmqs_is_there_with_its_type_unless_it_is_listed() -> None:
    with Broker(http=True) as broker:
        found = shapes(broker.url, broker.http_url)
    wrong = [place for place in all_missing(recorded(), found) if not is_known(place)]
    assert wrong == []


@pytest.mark.rabbitmq_310("what was recorded is what it answers")
@pytest.mark.timeout(300)
def test_the_record_is_what_rabbitmq_answers() -> None:
    if not MANAGEMENT_URL:
        pytest.skip("no PENSTOCK_BEHAVIOUR_MANAGEMENT_URL")
    # Its figures come late at times, and a queue that nobody uses says so.
    late = {"idle_since", "head_message_timestamp"}
    wrong = [
        place
        for place in all_missing(recorded(), shapes(URL, MANAGEMENT_URL))
        if place.rpartition(".")[2] not in late
    ]
    assert wrong == []


def test_a_missing_key_and_a_wrong_type_are_noticed() -> None:
    expected = {"a": "number", "b": [{"c": "string"}], "d": "null"}
    assert missing(expected, {"a": "number", "b": [{"c": "string"}], "d": "string"}, "page") == []
    assert missing(expected, {"a": "string", "b": [{"x": "string"}]}, "page") == [
        "page.a is string, not number",
        "page.b[].c",
        "page.d",
    ]
