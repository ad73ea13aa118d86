"""AMQPStorm's management client: what it reads."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.management import Traffic, traffic

management = pytest.importorskip("amqpstorm.management")


@pytest.fixture(scope="module")
def going() -> Iterator[Traffic]:
    with traffic() as running:
        yield running


@pytest.fixture
def api(going: Traffic) -> Any:
    return management.ManagementApi(f"http://{going.address}", "guest", "guest", timeout=60)


def test_the_broker(api: Any) -> None:
    assert api.whoami()["name"] == "guest"
    assert api.overview()["object_totals"]["queues"] == 1
    (node,) = api.nodes()
    assert api.node(node["name"])["name"] == node["name"]
    assert api.cluster_name()["name"] == node["name"]


def test_queues(api: Any) -> None:
    assert [queue["name"] for queue in api.queue.list()] == ["work"]
    assert api.queue.get("work")["messages"] == 3
    assert len(api.queue.bindings("work")) == 2
    (only,) = api.queue.list(name="wor", page_size=10)
    assert only["name"] == "work"


def test_exchanges(api: Any) -> None:
    assert api.exchange.get("events")["type"] == "topic"
    assert "events" in [exchange["name"] for exchange in api.exchange.list()]
    assert len(api.exchange.bindings("events")) == 1


def test_connections_and_channels(api: Any) -> None:
    (connection,) = api.connection.list()
    assert api.connection.get(connection["name"])["state"] == "running"
    (channel,) = api.channel.list()
    assert api.channel.get(channel["name"])["number"] == 1


def test_virtual_hosts(api: Any) -> None:
    assert [vhost["name"] for vhost in api.virtual_host.list()] == ["/"]
    assert api.virtual_host.get("/")["messages"] == 3


def test_what_is_not_there_raises_the_clients_own_error(api: Any) -> None:
    with pytest.raises(management.ApiError, match="NOT-FOUND") as refused:
        api.queue.get("nope")
    assert refused.value.error_code == 404
