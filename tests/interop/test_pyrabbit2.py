"""pyrabbit2, a client of RabbitMQ's management API: what it reads."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.management import Traffic, traffic

pyrabbit = pytest.importorskip("pyrabbit2.api")
pyrabbit_http = pytest.importorskip("pyrabbit2.http")


@pytest.fixture(scope="module")
def going() -> Iterator[Traffic]:
    with traffic() as running:
        yield running


@pytest.fixture
def client(going: Traffic) -> Any:
    return pyrabbit.Client(going.address, "guest", "guest", timeout=60)


def test_the_broker(client: Any) -> None:
    assert client.get_whoami()["name"] == "guest"
    assert client.get_overview()["object_totals"]["queues"] == 1
    (node,) = client.get_nodes()
    assert node["running"]
    assert client.get_cluster_name()["name"] == node["name"]
    assert client.get_extensions() == []
    assert client.get_vhost_names() == ["/"]


def test_queues_and_their_depths(client: Any) -> None:
    assert [queue["name"] for queue in client.get_queues()] == ["work"]
    assert [queue["name"] for queue in client.get_queues("/", "wo")] == ["work"]
    assert client.get_queue("/", "work")["consumers"] == 1
    assert client.get_queue_depth("/", "work") == 3


def test_exchanges_and_bindings(client: Any) -> None:
    assert client.get_exchange("/", "events")["type"] == "topic"
    assert "events" in [exchange["name"] for exchange in client.get_exchanges("/")]
    assert len(client.get_bindings()) == 2
    assert len(client.get_queue_bindings("/", "work")) == 2


def test_connections_and_channels(client: Any) -> None:
    (connection,) = client.get_connections()
    assert client.get_connection(connection["name"])["user"] == "guest"
    (channel,) = client.get_channels()
    assert client.get_channel(channel["name"])["consumer_count"] == 1


def test_what_is_not_there_raises_the_clients_own_error(client: Any) -> None:
    with pytest.raises(pyrabbit_http.HTTPError, match="404"):
        client.get_queue("/", "nope")
