"""What the client library pyrabbit2, unmodified, changes over the management API."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Broker

pyrabbit2 = pytest.importorskip("pyrabbit2", reason="pyrabbit2 is not installed")
pytestmark = pytest.mark.timeout(120)

SECONDS = 60


@pytest.fixture(scope="module")
def administered() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running


@pytest.fixture
def client(administered: Broker) -> Any:
    return pyrabbit2.api.Client(
        f"{administered.host}:{administered.http_port}", "guest", "guest", timeout=SECONDS
    )


def test_topology_and_messages(client: Any, administered: Broker) -> None:
    assert client.is_alive()
    client.create_exchange("/", "py.e", "direct", durable=True)
    client.create_queue("/", "py.q", durable=True)
    client.create_binding("/", "py.e", "py.q", rt_key="k")
    assert client.publish("/", "py.e", "k", "hello") is True
    assert client.publish("/", "py.e", "nowhere", "hello") is False
    got = client.get_messages("/", "py.q", requeue=True)
    assert got[0]["payload"] == "hello" and got[0]["redelivered"] is False
    assert client.get_messages("/", "py.q")[0]["redelivered"] is True
    assert client.get_messages("/", "py.q") == []
    client.publish("/", "py.e", "k", "again")
    client.purge_queue("/", "py.q")
    assert administered.queue_depths()["py.q"] == 0
    client.delete_binding("/", "py.e", "py.q", "k")
    client.delete_queue("/", "py.q")
    client.delete_exchange("/", "py.e")
    assert "py.q" not in administered.queue_depths()


def test_vhosts_users_permissions_and_policies(client: Any) -> None:
    client.create_vhost("py.v")
    client.create_user("py.u", "secret", tags="management")
    assert "py.u" in [user["name"] for user in client.get_users()]
    client.set_vhost_permissions("py.v", "py.u", ".*", "^r", "^w")
    assert client.get_permission("py.v", "py.u") == {
        "user": "py.u",
        "vhost": "py.v",
        "configure": ".*",
        "write": "^w",
        "read": "^r",
    }
    assert {row["user"] for row in client.get_vhost_permissions("py.v")} == {"guest", "py.u"}
    assert [row["vhost"] for row in client.get_user_permissions("py.u")] == ["py.v"]
    client.create_policy("py.v", "p", pattern="^a", definition={"max-length": 5}, priority=1)
    assert client.get_policy("py.v", "p")["definition"] == {"max-length": 5}
    client.delete_policy("py.v", "p")
    assert "py.v" in [vhost["name"] for vhost in client.get_definitions()["vhosts"]]
    client.delete_permission("py.v", "py.u")
    client.delete_user("py.u")
    client.delete_vhost("py.v")
    with pytest.raises(pyrabbit2.http.HTTPError) as caught:
        client.get_vhost_permissions("py.v")
    assert caught.value.status == 404
