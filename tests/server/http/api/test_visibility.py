"""Who sees what: tags, permissions, own connections."""

import pytest

from penstock import Broker
from tests.server.http.api.lists import Scene, quoted, row, rows
from tests.server.http.asking import Pages, problem
from tests.server.opened import pika_connection


@pytest.fixture
def scene(broker: Broker) -> Scene:
    """With a second virtual host, and users of several kinds who may enter it alone."""
    broker.add_vhost("second")
    for name, tags in (
        ("worker", ()),
        ("looker", ("management",)),
        ("maker", ("policymaker",)),
        ("watcher", ("monitoring",)),
    ):
        broker.add_user(name, "secret", tags)
        broker.set_permissions(name, "second", ".*", ".*", ".*")
    return Scene(broker)


def as_user(broker: Broker, name: str) -> Pages:
    return Pages(broker, (name, "secret"))


def second(broker: Broker, user: str) -> None:
    """A connection of this user, with a queue."""
    url = broker.url_for(user, "secret", "second")
    pika_connection(url).channel().queue_declare(f"of-{user}")


PAGES = (
    "/api/overview",
    "/api/connections",
    "/api/channels",
    "/api/consumers",
    "/api/queues",
    "/api/exchanges",
    "/api/bindings",
    "/api/vhosts",
    "/api/extensions",
    "/api/cluster-name",
)


@pytest.mark.parametrize("path", [*PAGES, "/api/nodes", "/api/feature-flags"])
def test_a_user_without_a_tag_sees_nothing(scene: Scene, path: str) -> None:
    problem(as_user(scene.broker, "worker").get(path), 403)


@pytest.mark.parametrize("user", ["looker", "maker"])
def test_a_user_who_manages_sees_its_virtual_hosts_alone(scene: Scene, user: str) -> None:
    second(scene.broker, user)
    pages = as_user(scene.broker, user)
    assert [one["name"] for one in rows(pages, "/api/vhosts")] == ["second"]
    assert [one["name"] for one in rows(pages, "/api/queues")] == [f"of-{user}"]
    for path in ("/api/exchanges", "/api/bindings"):
        assert {one["vhost"] for one in rows(pages, path)} == {"second"}
    for path in ("/api/queues/%2F", "/api/queues/%2F/q", "/api/exchanges/%2F", "/api/bindings/%2F"):
        problem(pages.get(path), 403)
    problem(pages.get("/api/vhosts/%2F"), 403)
    problem(pages.get("/api/vhosts/%2F/connections"), 403)
    problem(pages.get("/api/nodes"), 403)


def test_a_user_who_manages_sees_its_own_connections_alone(scene: Scene) -> None:
    second(scene.broker, "looker")
    second(scene.broker, "worker")
    pages = as_user(scene.broker, "looker")
    assert [one["user"] for one in rows(pages, "/api/connections")] == ["looker"]
    assert [one["user"] for one in rows(pages, "/api/channels")] == ["looker"]
    assert rows(pages, "/api/consumers") == []
    assert rows(pages, "/api/connections/username/worker") == []
    (foreign,) = rows(Pages(scene.broker), "/api/connections/username/worker")
    problem(pages.get(f"/api/connections/{quoted(foreign['name'])}"), 404)


def test_the_overview_of_a_user_who_manages_is_of_what_it_sees(scene: Scene) -> None:
    second(scene.broker, "looker")
    shown = row(as_user(scene.broker, "looker"), "/api/overview")
    assert shown["object_totals"]["queues"] == 1
    assert shown["object_totals"]["connections"] == 1
    assert shown["queue_totals"]["messages"] == 0
    assert "listeners" not in shown and "contexts" not in shown


def test_a_user_who_monitors_sees_everything(scene: Scene) -> None:
    pages = as_user(scene.broker, "watcher")
    assert {one["name"] for one in rows(pages, "/api/vhosts")} == {"/", "second"}
    assert [one["name"] for one in rows(pages, "/api/queues")] == ["q"]
    assert [one["user"] for one in rows(pages, "/api/connections")] == ["guest"]
    assert row(pages, "/api/queues/%2F/q")["messages"] == 5
    assert rows(pages, "/api/nodes")
