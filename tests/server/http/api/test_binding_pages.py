"""Bindings and exchanges as the API shows them."""

from penstock import Broker
from penstock.server.http.api.binding_keys import properties_key
from tests.server.http.api.administering import done
from tests.server.http.api.lists import Row, Scene, quoted, row, rows
from tests.server.http.asking import Pages, problem


def brief(found: list[Row]) -> list[tuple[str, str, str]]:
    return sorted((one["source"], one["destination"], one["routing_key"]) for one in found)


def test_all_bindings_with_those_of_the_default_exchange(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    expected = [
        ("", "q", "q"),
        ("ex", "other", "far.#"),
        ("ex", "q", "near.*"),
        ("ex", "q", "near.*"),
    ]
    assert brief(rows(pages, "/api/bindings")) == expected
    assert brief(rows(pages, "/api/bindings/%2F")) == expected


def test_the_bindings_of_a_queue_and_of_an_exchange(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    near = ("ex", "q", "near.*")
    assert brief(rows(pages, "/api/queues/%2F/q/bindings")) == [("", "q", "q"), near, near]
    far = ("ex", "other", "far.#")
    assert brief(rows(pages, "/api/exchanges/%2F/ex/bindings/source")) == [far, near, near]
    assert brief(rows(pages, "/api/exchanges/%2F/other/bindings/destination")) == [far]
    assert brief(rows(pages, "/api/exchanges/%2F/amq.default/bindings/source")) == [("", "q", "q")]
    problem(pages.get("/api/queues/%2F/nope/bindings"), 404)
    problem(pages.get("/api/exchanges/%2F/nope/bindings/source"), 404)


def test_the_bindings_between_two(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    assert len(rows(pages, "/api/bindings/%2F/e/ex/q/q")) == 2
    assert brief(rows(pages, "/api/bindings/%2F/e/ex/e/other")) == [("ex", "other", "far.#")]
    assert brief(rows(pages, "/api/bindings/%2F/e/amq.default/q/q")) == [("", "q", "q")]
    assert rows(pages, "/api/bindings/%2F/e/ex/q/nope") == []
    assert rows(pages, "/api/bindings/%2F/e/ex/e/nope") == []


def test_one_binding_is_found_by_its_key(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    for one in rows(pages, "/api/bindings/%2F/e/ex/q/q"):
        path = f"/api/bindings/%2F/e/ex/q/q/{quoted(one['properties_key'])}"
        assert row(pages, path) == one
    # Some clients name the routing key itself.
    assert row(pages, "/api/bindings/%2F/e/ex/q/q/near.*")["arguments"] == {}
    assert row(pages, "/api/bindings/%2F/e/ex/e/other/far.%2523")["routing_key"] == "far.#"
    problem(pages.get("/api/bindings/%2F/e/ex/q/q/nope"), 404)


def test_keys_are_those_of_rabbitmq_where_there_are_no_arguments() -> None:
    assert properties_key("", {}) == "~"
    assert properties_key("k.*", {}) == "k.%2A"
    assert properties_key("a~b", {}) == "a%7Eb"
    assert properties_key("", {"a": 1}).startswith("~")
    assert properties_key("k", {"a": 1}) != properties_key("k", {"a": 1.0})


def test_exchanges_show_how_they_were_declared(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    found = {one["name"]: one for one in rows(pages, "/api/exchanges")}
    assert {"", "amq.direct", "amq.topic", "ex", "other"} <= set(found)
    assert found["ex"] == {
        "arguments": {},
        "auto_delete": False,
        "durable": True,
        "internal": False,
        "name": "ex",
        "replicate": "all",
        "type": "topic",
        "vhost": "/",
    }
    assert len(rows(pages, "/api/exchanges/%2F")) == len(found)
    assert row(pages, "/api/exchanges/%2F/amq.default")["name"] == ""
    assert row(pages, "/api/exchanges/%2F/ex") == {**found["ex"], "incoming": [], "outgoing": []}
    problem(pages.get("/api/exchanges/%2F/nope"), 404)


def test_an_exchange_names_its_policy(broker: Broker, pages: Pages) -> None:
    Scene(broker)
    broker.set_policy("/", "spare", "^ex$", {"alternate-exchange": "other"}, 0, "exchanges")
    assert row(pages, "/api/exchanges/%2F/ex")["policy"] == "spare"


def test_the_location_of_a_new_binding_has_the_key_that_lists_show(pages: Pages) -> None:
    done(pages, "PUT", "/api/queues/%2F/to", {})
    asked: list[dict[str, object]] = [
        {},
        {"routing_key": "a b~#"},
        {"routing_key": "k", "arguments": {"x": 1}},
        {"routing_key": "k", "arguments": {"x": 1.5, "y": ["z", {"w": True}]}},
    ]
    for body in asked:
        made = done(pages, "POST", "/api/bindings/%2F/e/amq.topic/q/to", body)
        place = made.headers["location"]
        # It is relative to the path of the request.
        one = row(pages, f"/api/bindings/%2F/e/amq.topic/q/{place}")
        assert (one["routing_key"], one["arguments"]) == (
            body.get("routing_key", ""),
            body.get("arguments", {}),
        )
        assert place == f"to/{quoted(one['properties_key'])}"
        assert one in rows(pages, "/api/bindings/%2F/e/amq.topic/q/to")


def test_a_key_means_its_own_binding_before_one_with_such_a_routing_key(pages: Pages) -> None:
    done(pages, "PUT", "/api/queues/%2F/to", {})
    path = "/api/bindings/%2F/e/amq.direct/q/to"
    for key in ("a+b", "a b"):
        done(pages, "POST", path, {"routing_key": key})
    assert row(pages, f"{path}/a%2Bb")["routing_key"] == "a b"
    done(pages, "DELETE", f"{path}/a%2Bb")
    assert [one["routing_key"] for one in rows(pages, path)] == ["a+b"]
