"""Answers are as the OpenAPI document describes them."""

from typing import Any

import pytest

from penstock import Broker
from penstock.server.http.api.schema import check
from tests.server.http.api.lists import Scene, quoted
from tests.server.http.asking import Pages, declared

SPANS = "?" + "&".join(
    f"{kind}_age=60&{kind}_incr=5" for kind in ("lengths", "msg_rates", "data_rates", "node_stats")
)
TO_QUEUE = "/api/bindings/{vhost}/e/{exchange}/q/{queue}"
TO_EXCHANGE = "/api/bindings/{vhost}/e/{exchange}/e/{destination}"
# What stands for the parts of each path; CONNECTION and NODE are replaced by their names.
PATHS: dict[str, dict[str, str]] = {
    "/api/overview": {},
    "/api/cluster-name": {},
    "/api/nodes": {},
    "/api/nodes/{name}": {"name": "NODE"},
    "/api/nodes/{name}/memory": {"name": "NODE"},
    "/api/extensions": {},
    "/api/feature-flags": {},
    "/api/deprecated-features": {},
    "/api/federation-links": {},
    "/api/connections": {},
    "/api/vhosts/{vhost}/connections": {"vhost": "/"},
    "/api/connections/{name}": {"name": "CONNECTION"},
    "/api/connections/{name}/channels": {"name": "CONNECTION"},
    "/api/connections/username/{user}": {"user": "guest"},
    "/api/channels": {},
    "/api/vhosts/{vhost}/channels": {"vhost": "/"},
    "/api/channels/{channel}": {"channel": "CONNECTION (2)"},
    "/api/consumers": {},
    "/api/consumers/{vhost}": {"vhost": "/"},
    "/api/exchanges": {},
    "/api/exchanges/{vhost}": {"vhost": "/"},
    "/api/exchanges/{vhost}/{name}": {"vhost": "/", "name": "ex"},
    "/api/exchanges/{vhost}/{name}/bindings/source": {"vhost": "/", "name": "ex"},
    "/api/exchanges/{vhost}/{name}/bindings/destination": {"vhost": "/", "name": "other"},
    "/api/queues": {},
    "/api/queues/{vhost}": {"vhost": "/"},
    "/api/queues/{vhost}/{name}": {"vhost": "/", "name": "q"},
    "/api/queues/{vhost}/{name}/bindings": {"vhost": "/", "name": "q"},
    "/api/bindings": {},
    "/api/bindings/{vhost}": {"vhost": "/"},
    TO_QUEUE: {"vhost": "/", "exchange": "ex", "queue": "q"},
    TO_EXCHANGE: {"vhost": "/", "exchange": "ex", "destination": "other"},
    f"{TO_QUEUE}/{{properties}}": {
        "vhost": "/",
        "exchange": "ex",
        "queue": "q",
        "properties": "near.%2A",
    },
    f"{TO_EXCHANGE}/{{properties}}": {
        "vhost": "/",
        "exchange": "ex",
        "destination": "other",
        "properties": "far.%23",
    },
    "/api/vhosts": {},
    "/api/vhosts/{name}": {"name": "/"},
}


@pytest.fixture
def document(pages: Pages) -> dict[str, Any]:
    return pages.facts("/api/openapi.json")


def test_every_answer_is_as_it_is_described(
    broker: Broker, pages: Pages, document: dict[str, Any]
) -> None:
    name = Scene(broker).name
    declared(broker, "s", {"x-queue-type": "stream"})
    declared(broker, "quorum", {"x-queue-type": "quorum"})
    node = str(pages.facts("/api/cluster-name")["name"])
    for path, parts in PATHS.items():
        schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
        asked = path
        for part, value in parts.items():
            filled = value.replace("CONNECTION", name).replace("NODE", node)
            asked = asked.replace(f"{{{part}}}", quoted(filled))
        response = pages.get(asked + SPANS)
        assert response.status_code == 200, (asked, response.text)
        answer = response.json()
        described = schema["schema"]
        if isinstance(answer, list):
            # An array, or a page of one.
            described = described["anyOf"][0]
        check(answer, described, path)


def test_every_path_names_its_parts_and_its_queries(document: dict[str, Any]) -> None:
    for path in PATHS:
        operation = document["paths"][path]["get"]
        named = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
        assert [f"{{{name}}}" in path for name in named] == [True] * len(named)
        assert operation["summary"] and operation["tags"]
        assert {"401", "403", "404"} <= set(operation["responses"])
    queries = [one["name"] for one in document["paths"]["/api/queues"]["get"]["parameters"]]
    assert {"columns", "sort", "page", "lengths_age", "msg_rates_incr"} <= set(queries)
