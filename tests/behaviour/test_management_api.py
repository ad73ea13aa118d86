"""The pages of the management API that change something: statuses, keys and texts as in RabbitMQ.

Missing rights are the one difference of status: RabbitMQ answers 401, Penstock 403, because a browser
takes 401 for a wrong password and asks for another.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import httpx
import pytest

from tests.behaviour.conftest import IS_RABBITMQ, MANAGEMENT_URL, URL

pytestmark = pytest.mark.timeout(120)

SECONDS = 60
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
OK = {"status": "ok"}


class Api:
    """Asks one broker as one user, in a virtual host of its own. Held by a test."""

    def __init__(self, url: str, login: tuple[str, str], vhost: str) -> None:
        self._url = url.rstrip("/")
        self._login = login
        self.vhost = vhost

    def as_user(self, name: str, password: str) -> Api:
        return Api(self._url, (name, password), self.vhost)

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        """`V` in a path is the virtual host."""
        place = "/".join(self.vhost if part == "V" else part for part in path.split("/"))
        return httpx.request(
            method, f"{self._url}/api/{place}", json=body, auth=self._login, timeout=SECONDS
        )

    def status(self, method: str, path: str, body: object = None) -> int:
        return self.ask(method, path, body).status_code

    def answer(self, path: str) -> object:
        response = self.ask("GET", path)
        assert response.status_code == 200, response.text
        return response.json()

    def reason(self, method: str, path: str, body: object = None) -> str:
        response = self.ask(method, path, body)
        assert response.status_code == 400, response.text
        found = response.json()
        assert found["error"] == "bad_request"
        return str(found["reason"])


@pytest.fixture(scope="module")
def management_url() -> Iterator[str]:
    if URL and not MANAGEMENT_URL:
        pytest.skip("no PENSTOCK_BEHAVIOUR_MANAGEMENT_URL")
    if URL:
        yield MANAGEMENT_URL
        return
    # Not at the top: RabbitMQ's behaviour can be asked without Penstock installed.
    from penstock import Broker

    with Broker(http=True) as broker:
        yield broker.http_url


@pytest.fixture
def api(management_url: str) -> Iterator[Api]:
    found = Api(management_url, ("guest", "guest"), f"api-{os.getpid()}-{uuid.uuid4().hex[:8]}")
    assert found.status("PUT", "vhosts/V", {}) == 201
    yield found
    found.ask("DELETE", "vhosts/V")


@pytest.fixture
def user(api: Api) -> Iterator[str]:
    name = f"user-{uuid.uuid4().hex[:8]}"
    assert api.status("PUT", f"users/{name}", {"password": "p", "tags": "management"}) == 201
    yield name
    api.ask("DELETE", f"users/{name}")


def refused(is_rabbitmq: bool = IS_RABBITMQ) -> int:
    return 401 if is_rabbitmq else 403


def test_whoever_adds_a_vhost_has_all_permissions_in_it(api: Api) -> None:
    assert api.status("PUT", "vhosts/V", {"description": "again"}) == 204
    assert api.answer("vhosts/V/permissions") == [
        {"user": "guest", "vhost": api.vhost, **EVERYTHING}
    ]
    assert api.answer("vhosts/V/topic-permissions") == []
    assert api.status("GET", "vhosts/no-such/permissions") == 404
    assert api.status("DELETE", "vhosts/no-such") == 404
    assert api.status("PUT", "vhosts/V", []) == 400
    assert api.status("DELETE", "vhosts/V") == 204
    assert api.status("DELETE", "vhosts/V") == 404


def test_users(api: Api, user: str) -> None:
    assert api.status("PUT", f"users/{user}", {"password": "q", "tags": ["management"]}) == 204
    shown = api.answer(f"users/{user}")
    assert isinstance(shown, dict)
    assert set(shown) == {"name", "password_hash", "hashing_algorithm", "tags", "limits"}
    assert (shown["name"], shown["tags"], shown["limits"]) == (user, ["management"], {})
    without = api.answer("users/without-permissions")
    assert isinstance(without, list) and user in [row["name"] for row in without]
    for body in (
        {"password": "x"},
        {"password_hash": "!!", "tags": ""},
        {"password": "x", "password_hash": "", "tags": ""},
    ):
        assert api.status("PUT", f"users/{user}", body) == 400
    assert api.status("PUT", f"users/{user}", {"password_hash": "", "tags": ""}) == 204
    assert api.answer(f"users/{user}")["password_hash"] == ""  # type: ignore[index]
    assert api.status("GET", "users/no-such") == 404
    assert api.status("DELETE", "users/no-such") == 404
    assert api.status("POST", "users/bulk-delete", {"users": ["no-such", user]}) == 400
    assert api.status("GET", f"users/{user}") == 200
    assert api.status("POST", "users/bulk-delete", {"users": [user]}) == 204
    assert api.status("GET", f"users/{user}") == 404


def test_permissions(api: Api, user: str) -> None:
    path = f"permissions/V/{user}"
    assert api.status("GET", path) == 404
    assert api.status("PUT", path, EVERYTHING) == 201
    assert api.status("PUT", path, EVERYTHING) == 204
    row = {"user": user, "vhost": api.vhost, **EVERYTHING}
    assert api.answer(path) == row
    assert api.answer(f"users/{user}/permissions") == [row]
    assert "key_missing" in api.reason("PUT", path, {"configure": "", "write": ""})
    assert api.status("PUT", path, {**EVERYTHING, "read": "("}) == 400
    for wrong in (f"permissions/no-such/{user}", "permissions/V/no-such"):
        assert "vhost_or_user_not_found" in api.reason("PUT", wrong, EVERYTHING)
    assert api.status("DELETE", path) == 204
    assert api.status("DELETE", path) == 404


def test_topic_permissions(api: Api, user: str) -> None:
    path = f"topic-permissions/V/{user}"
    first = {"exchange": "amq.topic", "write": "^a", "read": ".*"}
    assert api.status("GET", path) == 404
    assert api.status("PUT", path, first) == 201
    assert api.status("PUT", path, {**first, "exchange": "other"}) == 204
    rows = [
        {"user": user, "vhost": api.vhost, **first},
        {"user": user, "vhost": api.vhost, **first, "exchange": "other"},
    ]
    for place in (path, f"users/{user}/topic-permissions"):
        found = api.answer(place)
        # RabbitMQ has them in any order.
        assert isinstance(found, list)
        assert sorted(found, key=lambda row: str(row["exchange"])) == rows
    assert "key_missing" in api.reason("PUT", path, {"write": "", "read": ""})
    assert api.status("DELETE", path) == 204
    assert api.status("DELETE", path) == 404


def test_limits(api: Api, user: str) -> None:
    assert api.answer(f"user-limits/{user}") == []
    assert api.status("PUT", f"user-limits/{user}/max-connections", {"value": 5}) == 204
    assert api.status("PUT", f"user-limits/{user}/max-channels", {"value": 6}) == 204
    expected = {"max-channels": 6, "max-connections": 5}
    assert api.answer(f"user-limits/{user}") == [{"user": user, "value": expected}]
    assert api.answer(f"users/{user}")["limits"] == expected  # type: ignore[index]
    assert "Unrecognised terms" in api.reason("PUT", f"user-limits/{user}/no", {"value": 5})
    assert api.status("PUT", f"user-limits/{user}/max-channels", {"value": "x"}) == 400
    assert api.status("PUT", "user-limits/no-such/max-channels", {"value": 1}) == 400
    assert api.status("GET", "user-limits/no-such") == 404
    assert api.status("DELETE", f"user-limits/{user}/max-connections") == 204
    assert api.status("DELETE", f"user-limits/{user}/max-connections") == 204

    assert api.status("PUT", "vhost-limits/V/max-queues", {"value": 7}) == 204
    assert api.answer("vhost-limits/V") == [{"vhost": api.vhost, "value": {"max-queues": 7}}]
    assert "Unrecognised terms" in api.reason("PUT", "vhost-limits/V/no", {"value": 5})
    assert api.status("PUT", "vhost-limits/no-such/max-queues", {"value": 5}) == 404
    assert api.status("GET", "vhost-limits/no-such") == 404
    assert api.status("DELETE", "vhost-limits/V/max-queues") == 204
    assert api.answer("vhost-limits/V") == []


def test_parameters(api: Api) -> None:
    path = "parameters/vhost-limits/V/limits"
    row = {
        "value": {"max-queues": 7},
        "vhost": api.vhost,
        "component": "vhost-limits",
        "name": "limits",
    }
    # What the answer is to a new one differs: RabbitMQ takes the limits for there already.
    assert api.status("PUT", path, {"value": {"max-queues": 7}}) in {201, 204}
    assert api.answer(path) == row
    assert api.answer("parameters/vhost-limits/V") == [row]
    assert api.status("GET", "parameters/vhost-limits/no-such") == 404
    assert "Validation failed" in api.reason("PUT", path, {"value": {"max-zz": 7}})
    assert "key_missing" in api.reason("PUT", path, {})
    assert api.status("DELETE", path) == 204
    assert api.status("DELETE", path) == 404
    name = f"global-parameters/{api.vhost}"
    assert api.status("PUT", name, {"value": {"a": [1]}}) == 201
    assert api.status("PUT", name, {"value": 7}) == 204
    assert api.answer(name) == {"name": api.vhost, "value": 7}
    assert api.status("DELETE", name) == 204
    assert api.status("DELETE", name) == 404


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_policies(api: Api, kind: str) -> None:
    path = f"{kind}/V/p"
    body = {"pattern": "^a", "definition": {"max-length": 3}, "priority": 2, "apply-to": "queues"}
    assert api.status("PUT", path, body) == 201
    assert api.status("PUT", path, body) == 204
    row = {"vhost": api.vhost, "name": "p", **body}
    assert api.answer(path) == row
    assert api.answer(f"{kind}/V") == [row]
    for missing in ("pattern", "definition"):
        partial = {key: body[key] for key in body if key != missing}
        assert "key_missing" in api.reason("PUT", path, partial)
    for wrong in (
        {"definition": {"no-such": 3}},
        {"definition": {"max-length": -3}},
        {"pattern": "("},
        {"apply-to": "zz"},
    ):
        assert api.reason("PUT", path, {**body, **wrong}).startswith("Validation failed\n\n")
    assert "-3 is not a valid maximum length" in api.reason(
        "PUT", path, {**body, "definition": {"max-length": -3}}
    )
    assert api.status("PUT", path, {**body, "priority": "zz"}) == 400
    assert api.status("PUT", f"{kind}/no-such/p", body) == 404
    assert api.status("GET", f"{kind}/no-such") == 404
    assert api.status("DELETE", path) == 204
    assert api.status("DELETE", path) == 404


def test_queues(api: Api) -> None:
    path = "queues/V/q"
    assert api.status("PUT", path, {"durable": True}) == 201
    assert api.status("PUT", path, {"durable": "true", "arguments": []}) == 204
    assert api.reason("PUT", path, {"durable": False}) == (
        f"inequivalent arg 'durable' for queue 'q' in vhost '{api.vhost}': received 'false' but "
        "current is 'true'"
    )
    assert api.status("PUT", path, {"durable": "yes"}) == 400
    assert "x-max-length" in api.reason("PUT", "queues/V/r", {"arguments": {"x-max-length": -1}})
    assert api.status("PUT", "queues/V/amq.x", {}) == refused()
    assert api.status("PUT", "queues/no-such/q", {}) == 404
    assert api.status("PUT", "queues/V/empty") == 201
    assert api.status("DELETE", "queues/V/no-such") == 404
    assert api.status("DELETE", "queues/V/no-such/contents") == 404
    assert api.status("POST", f"{path}/actions", {"action": "sync"}) == 204
    assert api.status("POST", f"{path}/actions", {"action": "zz"}) == 400
    assert api.status("POST", f"{path}/actions", {}) == 400
    published(api, "q", "hello")
    assert "not empty" in api.reason("DELETE", f"{path}?if-empty=true")
    assert api.status("DELETE", f"{path}/contents") == 204
    assert api.status("DELETE", f"{path}?if-empty=true&if-unused=true") == 204
    assert api.status("DELETE", path) == 404
    assert api.status("POST", path, {}) == 405
    assert api.status("GET", f"{path}/contents") == 405


def published(api: Api, routing_key: str, payload: str, **properties: object) -> bool:
    response = api.ask(
        "POST",
        "exchanges/V/amq.default/publish",
        {
            "properties": properties,
            "routing_key": routing_key,
            "payload": payload,
            "payload_encoding": "string",
        },
    )
    assert response.status_code == 200, response.text
    return bool(response.json()["routed"])


def gotten(api: Api, **wanted: object) -> list[dict[str, object]]:
    body = {"count": 10, "ackmode": "ack_requeue_true", "encoding": "auto", **wanted}
    response = api.ask("POST", "queues/V/q/get", body)
    assert response.status_code == 200, response.text
    found = response.json()
    assert isinstance(found, list)
    return found


def test_messages(api: Api) -> None:
    assert api.status("PUT", "queues/V/q", {}) == 201
    assert published(api, "q", "hello", content_type="text/plain", headers={"a": 1, "b": ["c"]})
    assert not published(api, "no-such", "hello")
    expected = {
        "payload_bytes": 5,
        "redelivered": False,
        "exchange": "",
        "routing_key": "q",
        "message_count": 0,
        "properties": {"content_type": "text/plain", "headers": {"a": 1, "b": ["c"]}},
        "payload": "hello",
        "payload_encoding": "string",
    }
    assert gotten(api) == [expected]
    again = {**expected, "redelivered": True, "payload": "aGVs", "payload_encoding": "base64"}
    assert gotten(api, encoding="base64", truncate=3) == [again]
    assert gotten(api, count="1", ackmode="reject_requeue_true")[0]["payload"] == "hello"
    assert gotten(api, ackmode="ack_requeue_false")[0]["payload"] == "hello"
    assert gotten(api) == []
    assert published(api, "q", "dropped")
    assert len(gotten(api, ackmode="reject_requeue_false")) == 1
    assert gotten(api) == []


def test_publish_and_get_refuse_what_makes_no_sense(api: Api) -> None:
    assert api.status("PUT", "queues/V/q", {}) == 201
    good: dict[str, object] = {
        "properties": {},
        "routing_key": "q",
        "payload": "x",
        "payload_encoding": "string",
    }
    path = "exchanges/V/amq.default/publish"
    for wrong in (
        {"properties": {"priority": "x"}},
        {"properties": {"content_type": 1}},
        {"payload": 5},
        {"payload": "!!", "payload_encoding": "base64"},
        {"payload_encoding": "zz"},
    ):
        assert api.status("POST", path, {**good, **wrong}) == 400
    for missing in good:
        partial = {key: good[key] for key in good if key != missing}
        assert "key_missing" in api.reason("POST", path, partial)
    asked: dict[str, object] = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for missing in asked:
        partial = {key: asked[key] for key in asked if key != missing}
        assert "key_missing" in api.reason("POST", "queues/V/q/get", partial)
    assert "encoding" in api.reason("POST", "queues/V/q/get", {**asked, "encoding": "zz"})
    assert api.status("POST", "queues/V/no-such/get", asked) == 404


def test_exchanges_and_bindings(api: Api) -> None:
    assert api.status("PUT", "exchanges/V/e", {"type": "topic", "durable": True}) == 201
    assert api.status("PUT", "exchanges/V/e", {"type": "topic", "durable": True}) == 204
    assert api.reason("PUT", "exchanges/V/e", {"type": "direct", "durable": True}) == (
        f"inequivalent arg 'type' for exchange 'e' in vhost '{api.vhost}': received 'direct' but "
        "current is 'topic'"
    )
    assert api.status("PUT", "exchanges/V/direct", {}) == 201
    assert "'zz'" in api.reason("PUT", "exchanges/V/f", {"type": "zz"})
    assert api.status("PUT", "exchanges/V/amq.zz", {"type": "fanout"}) == refused()
    assert api.status("PUT", "exchanges/V/amq.default", {"type": "direct"}) == refused()
    assert api.status("PUT", "exchanges/no-such/e", {"type": "direct"}) == 404
    assert api.status("PUT", "queues/V/q", {}) == 201

    bound = api.ask("POST", "bindings/V/e/e/q/q", {"routing_key": "a.b", "arguments": {}})
    assert (bound.status_code, bound.headers["location"]) == (201, "q/a.b")
    assert api.ask("POST", "bindings/V/e/e/q/q").headers["location"] == "q/~"
    other = api.ask("POST", "bindings/V/e/e/e/amq.direct", {"routing_key": "a"})
    assert (other.status_code, other.headers["location"]) == (201, "amq.direct/a")
    assert api.status("POST", "bindings/V/e/e/q/no-such", {}) == 404
    assert api.status("POST", "bindings/V/e/no-such/q/q", {}) == 404
    assert api.status("POST", "bindings/V/e/amq.default/q/q", {}) == refused()
    assert api.status("DELETE", "bindings/V/e/e/q/q/a.b") == 204
    assert api.status("DELETE", "bindings/V/e/e/q/q/a.b") == 404
    assert api.status("DELETE", "bindings/V/e/e/q/q/~") == 204
    assert "in use" in api.reason("DELETE", "exchanges/V/e?if-unused=true")
    assert api.status("DELETE", "bindings/V/e/e/e/amq.direct/a") == 204
    assert api.status("DELETE", "exchanges/V/e?if-unused=true") == 204
    assert api.status("DELETE", "exchanges/V/e") == 404
    assert api.status("DELETE", "exchanges/V/amq.direct") == refused()


def test_a_binding_with_arguments_is_named_by_its_location(api: Api) -> None:
    assert api.status("PUT", "queues/V/q", {}) == 201
    bodies = [{"arguments": {"x": 1}}, {"arguments": {"x": 2}}]
    places = [
        api.ask("POST", "bindings/V/e/amq.headers/q/q", body).headers["location"] for body in bodies
    ]
    assert len(set(places)) == 2
    for place in places:
        assert api.status("DELETE", f"bindings/V/e/amq.headers/q/{place}") == 204
        assert api.status("DELETE", f"bindings/V/e/amq.headers/q/{place}") == 404


def test_definitions(api: Api) -> None:
    queue = {"name": "q", "durable": True, "auto_delete": False, "arguments": {}}
    assert api.status("POST", "definitions/V", {"queues": [queue]}) == 204
    shown = api.answer("definitions/V")
    assert isinstance(shown, dict) and shown["queues"] == [queue]
    whole = {"queues": [{**queue, "name": "r", "vhost": api.vhost}]}
    assert api.status("POST", "definitions", whole) == 204
    assert api.status("POST", "definitions", {"queues": [{**queue, "vhost": "no-such"}]}) == 400
    assert api.status("POST", "definitions/no-such", {}) == 404
    assert api.status("POST", "definitions", [5]) == 400
    everything = api.answer("definitions")
    assert isinstance(everything, dict)
    assert {"users", "vhosts", "permissions", "topic_permissions", "parameters"} <= set(everything)


def test_health_checks_and_logins(api: Api) -> None:
    assert api.answer("aliveness-test/V") == OK
    assert api.status("GET", "aliveness-test/no-such") == 404
    for check in ("alarms", "local-alarms", "virtual-hosts", "certificate-expiration/1/days"):
        assert api.answer(f"health/checks/{check}") == OK
    for check in ("node-is-mirror-sync-critical", "node-is-quorum-critical"):
        assert api.answer(f"health/checks/{check}") == {**OK, "reason": "single node cluster"}
    assert api.answer("health/checks/protocol-listener/amqp091") == {**OK, "protocol": "amqp"}
    missing = api.ask("GET", "health/checks/port-listener/1")
    assert missing.status_code == 503
    assert missing.json()["status"] == "failed" and missing.json()["missing"] == 1
    assert api.reason("GET", "health/checks/port-listener/x") == "Invalid port"
    assert api.reason("GET", "health/checks/certificate-expiration/x/days") == (
        "Invalid expiration value."
    )
    assert api.status("GET", "health/checks/no-such") == 404
    assert api.answer("auth") == {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}
    assert api.status("DELETE", "connections/no-such") == 404
    assert api.status("DELETE", "connections/username/no-such") == 204
    assert api.status("PATCH", "users/guest") == 405
    assert api.status("GET", "login") == 405


def test_rights(api: Api, user: str) -> None:
    other = api.as_user(user, "p")
    assert other.status("GET", "users") == refused()
    assert other.status("PUT", "vhosts/other", {}) == refused()
    assert other.status("PUT", "queues/V/q", {}) == refused()
    body = {"pattern": "", "definition": {"max-length": 1}}
    assert other.status("PUT", "policies/V/p", body) == refused()
    assert other.answer("policies") == []
    assert other.status("GET", "parameters") == refused()
    assert other.status("GET", "definitions") == refused()
    assert api.status("PUT", f"permissions/V/{user}", {**EVERYTHING, "configure": "^mine"}) == 201
    assert other.status("PUT", "queues/V/mine", {}) == 201
    assert other.status("PUT", "queues/V/yours", {}) == refused()
    assert other.status("PUT", "policies/V/p", body) == refused()
    assert api.status("PUT", f"users/{user}", {"password": "p", "tags": "policymaker"}) == 204
    assert other.status("PUT", "policies/V/p", body) == 201
    assert api.as_user(user, "wrong").status("GET", "whoami") == 401
