"""The broker, its node and its virtual hosts as the API shows them."""

import os
import re
from pathlib import Path

import pytest

from penstock import Broker
from tests.server.http.api.administering import done, sent
from tests.server.http.api.lists import Scene, quoted, row, rows
from tests.server.http.asking import Pages, problem, serving
from tests.server.opened import pika_connection


def test_the_overview_counts_everything(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    shown = row(pages, "/api/overview")
    assert shown["object_totals"] == {
        "channels": 2,
        "connections": 1,
        "consumers": 1,
        "exchanges": 9,
        "queues": 1,
    }
    totals = shown["queue_totals"]
    assert (totals["messages"], totals["messages_ready"]) == (5, 3)
    assert totals["messages_unacknowledged"] == 2
    stats = shown["message_stats"]
    assert (stats["publish"], stats["confirm"], stats["deliver_get"]) == (5, 5, 2)
    churn = shown["churn_rates"]
    assert (churn["connection_created"], churn["channel_created"]) == (1, 2)
    assert (churn["queue_declared"], churn["channel_closed"]) == (1, 0)


def test_the_overview_says_what_listens_where(broker: Broker, pages: Pages) -> None:
    shown = row(pages, "/api/overview")
    ports = {one["protocol"]: one["port"] for one in shown["listeners"]}
    assert ports == {"amqp": broker.port, "http": broker.http_port}
    assert shown["product_name"] == "Penstock"
    assert "topic" in [one["name"] for one in shown["exchange_types"]]


def test_what_was_confirmed_is_still_counted_when_its_channel_has_ended(
    broker: Broker, pages: Pages
) -> None:
    scene = Scene(broker)
    scene.publisher.close()
    shown = row(pages, "/api/overview")
    assert shown["message_stats"]["confirm"] == 5
    assert shown["churn_rates"]["channel_closed"] == 1


def test_the_name_of_the_broker(pages: Pages) -> None:
    assert row(pages, "/api/cluster-name") == {"name": row(pages, "/api/overview")["cluster_name"]}


def names(pages: Pages) -> list[object]:
    """What the pages and a new connection call the broker."""
    told = pika_connection(pages.broker.url)._impl.server_properties["cluster_name"]
    metrics = pages.get("/metrics").text
    (label,) = re.findall(r'rabbitmq_identity_info.*rabbitmq_cluster="([^"]*)"', metrics)
    return [
        row(pages, "/api/cluster-name")["name"],
        row(pages, "/api/overview")["cluster_name"],
        told,
        label,
    ]


def test_a_new_name_is_told_everywhere_and_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        pages = Pages(broker)
        node = row(pages, "/api/overview")["node"]
        assert names(pages) == [node] * 4
        done(pages, "PUT", "/api/cluster-name", {"name": "waterworks"})
        assert names(pages) == ["waterworks"] * 4
        # The node keeps its own.
        assert row(pages, "/api/overview")["node"] == node
    with serving(tmp_path) as broker:
        pages = Pages(broker)
        assert names(pages) == ["waterworks"] * 4
        done(pages, "DELETE", "/api/global-parameters/cluster_name")
        assert names(pages) == [node] * 4


@pytest.mark.parametrize("name", ["", "x" * 256, "\ud800"])
def test_a_name_that_no_peer_can_be_told_is_not_taken(pages: Pages, name: str) -> None:
    before = names(pages)
    problem(sent(pages, "PUT", "/api/cluster-name", {"name": name}), 400)
    # As a global parameter it may be anything that JSON has, but is not used.
    for value in (5, "x" * 256):
        done(pages, "PUT", "/api/global-parameters/cluster_name", {"value": value})
        assert names(pages) == before


@pytest.mark.parametrize(
    "path",
    [
        "/api/extensions",
        "/api/federation-links",
        "/api/feature-flags",
        "/api/deprecated-features",
        "/api/deprecated-features/used",
    ],
)
def test_what_there_is_nothing_of_is_an_empty_list(pages: Pages, path: str) -> None:
    assert rows(pages, path) == []


def test_there_is_one_node(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    (node,) = rows(pages, "/api/nodes")
    assert (node["running"], node["type"], node["os_pid"]) == (True, "ram", str(os.getpid()))
    assert node["mem_used"] > 0 and node["mem_limit"] > 0 and node["uptime"] >= 0
    assert node["fd_used"] > 0 and node["disk_free"] > 0
    assert (node["sockets_used"], node["mem_alarm"]) == (1, False)
    path = f"/api/nodes/{quoted(node['name'])}"
    assert row(pages, path)["name"] == node["name"]
    assert row(pages, f"{path}/memory")["memory"]["total"]["rss"] > 0
    problem(pages.get("/api/nodes/nope"), 404)
    problem(pages.get("/api/nodes/nope/memory"), 404)


def test_a_node_with_a_data_directory_names_it(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as running:
        (node,) = rows(Pages(running), "/api/nodes")
    assert (node["type"], node["db_dir"]) == ("disc", str(tmp_path / "data"))
    assert node["disk_free_limit"] > 0


def test_a_virtual_host_shows_the_sums_of_its_queues(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    broker.add_vhost("other")
    shown = {one["name"]: one for one in rows(pages, "/api/vhosts")}
    assert set(shown) == {"/", "other"}
    assert (shown["/"]["messages"], shown["other"]["messages"]) == (5, 0)
    assert shown["/"]["recv_oct"] > 0 and shown["other"]["recv_oct"] == 0
    assert shown["/"]["message_stats"]["publish"] == 5
    one = row(pages, "/api/vhosts/other")
    assert (one["name"], one["tracing"], one["tags"]) == ("other", False, [])
    assert one["default_queue_type"] == "undefined"
    problem(pages.get("/api/vhosts/nope"), 404)
