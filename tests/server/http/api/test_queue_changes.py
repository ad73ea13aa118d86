"""Topology over HTTP takes the permissions that it takes over AMQP."""

from pathlib import Path

import pytest

from penstock.broker.events import EventKind
from tests.server.http.api.administering import done, listening, sent, user_of
from tests.server.http.asking import Pages, problem, serving


def test_a_declared_queue_is_there_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker:
        done(Pages(broker), "PUT", "/api/queues/%2F/q", {"durable": True})
        done(Pages(broker), "PUT", "/api/exchanges/%2F/e", {"durable": True})
        done(Pages(broker), "POST", "/api/bindings/%2F/e/e/q/q", {"routing_key": "k"})
    with serving(tmp_path / "data") as broker:
        done(Pages(broker), "DELETE", "/api/bindings/%2F/e/e/q/q/k")


def test_topology_takes_permissions_besides_the_tag(pages: Pages) -> None:
    done(pages, "PUT", "/api/queues/%2F/q")
    done(pages, "PUT", "/api/exchanges/%2F/e")
    other = user_of(pages, "anna", "management", configure="^mine", write="^mine", read="^mine")
    done(other, "PUT", "/api/queues/%2F/mine")
    done(other, "PUT", "/api/exchanges/%2F/mine")
    done(other, "POST", "/api/bindings/%2F/e/mine/q/mine", {"routing_key": "k"})
    for method, path in (
        ("PUT", "/api/queues/%2F/other"),
        ("DELETE", "/api/queues/%2F/q"),
        ("PUT", "/api/exchanges/%2F/other"),
        ("DELETE", "/api/exchanges/%2F/e"),
        ("POST", "/api/bindings/%2F/e/e/q/mine"),
        ("POST", "/api/bindings/%2F/e/mine/q/q"),
        ("POST", "/api/bindings/%2F/e/e/e/mine"),
        ("DELETE", "/api/queues/%2F/q/contents"),
        ("GET", "/api/aliveness-test/%2F"),
    ):
        problem(sent(other, method, path), 403)
    arguments = {"x-dead-letter-exchange": "e"}
    problem(sent(other, "PUT", "/api/queues/%2F/mine2", {"arguments": arguments}), 403)
    untagged = user_of(pages, "bert", "", configure=".*", write=".*", read=".*")
    problem(sent(untagged, "PUT", "/api/queues/%2F/bert"), 403)
    stranger = user_of(pages, "carl", "administrator")
    problem(sent(stranger, "PUT", "/api/queues/%2F/carl"), 403)


def test_a_policymaker_changes_policies_where_it_has_permissions(pages: Pages) -> None:
    done(pages, "PUT", "/api/vhosts/other")
    body = {"pattern": "^q", "definition": {"max-length": 3}}
    maker = user_of(pages, "anna", "policymaker", configure="^$")
    done(maker, "PUT", "/api/policies/%2F/p", body)
    done(maker, "PUT", "/api/parameters/c/%2F/p", {"value": [1]})
    problem(sent(maker, "PUT", "/api/policies/other/p", body), 403)
    problem(sent(maker, "PUT", "/api/parameters/c/other/p", {"value": 1}), 403)
    problem(sent(maker, "GET", "/api/policies/other"), 403)
    done(user_of(pages, "root", "administrator"), "PUT", "/api/policies/other/p", body)
    assert [row["vhost"] for row in maker.get("/api/policies").json()] == ["/"]
    done(maker, "DELETE", "/api/policies/%2F/p")
    done(maker, "DELETE", "/api/parameters/c/%2F/p")


def test_topology_that_is_changed_over_http_is_in_the_log(pages: Pages) -> None:
    events = listening(pages.broker)
    done(pages, "PUT", "/api/queues/%2F/q")
    event = events.of(EventKind.TOPOLOGY_CHANGED)
    assert event.facts["change"] == "DeclareQueue" and event.facts["name"] == "q"
    assert (event.facts["by"], event.facts["door"]) == ("guest", "HTTP")


@pytest.mark.parametrize("key", ["a.b", "a b", "a/b", "~", "ä", "%2F", "a+b", "100%", ""])
def test_a_binding_is_unbound_by_the_location_that_binding_it_gave(pages: Pages, key: str) -> None:
    done(pages, "PUT", "/api/queues/%2F/q%20%2Fx")
    start = "/api/bindings/%2F/e/amq.topic/q"
    bound = done(pages, "POST", f"{start}/q%20%2Fx", {"routing_key": key})
    place = bound.headers["location"]
    done(pages, "DELETE", f"{start}/{place}")
    problem(sent(pages, "DELETE", f"{start}/{place}"), 404)


def test_a_value_that_no_argument_can_have_is_refused(pages: Pages) -> None:
    deep: object = 1
    for _ in range(40):
        deep = [deep]
    for value in (2**70, deep, "\ud800"):
        problem(sent(pages, "PUT", "/api/queues/%2F/q", {"arguments": {"x-y": value}}), 400)
    assert pages.broker.queue_depths() == {}
