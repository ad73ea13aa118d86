"""/api/ha/replicas."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Broker
from tests.server.http.api.administering import done, sent, user_of
from tests.server.http.asking import Pages, problem

PATH = "/api/ha/replicas/%2F/q"
# Nobody listens there.
BODY = {"from": "amqp://me:secret@127.0.0.1:1/"}


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Pages]:
    with Broker(data=tmp_path, http=True) as broker:
        yield Pages(broker)


def test_a_replica_is_declared_shown_and_released(keeper: Pages) -> None:
    assert done(keeper, "PUT", PATH, BODY).status_code == 201
    assert done(keeper, "PUT", PATH, BODY).status_code == 204
    (row,) = done(keeper, "GET", "/api/ha/replicas").json()
    # It tries to connect meanwhile.
    changing = {name: row[name] for name in ("state", "reason", "since_ms")}
    assert row == done(keeper, "GET", PATH).json() | changing
    assert (row["name"], row["source"]) == ("q", "queue 'q' at amqp://127.0.0.1:1/")
    assert "secret" not in str(row)
    told = problem(sent(keeper, "DELETE", "/api/queues/%2F/q/contents"), 403)
    assert "is a replica of" in str(told["reason"])
    assert done(keeper, "DELETE", PATH).status_code == 204
    problem(sent(keeper, "GET", PATH), 404)
    problem(sent(keeper, "DELETE", PATH), 404)
    assert done(keeper, "DELETE", "/api/queues/%2F/q/contents").status_code == 204


def test_what_cannot_be_a_replica_changes_nothing(keeper: Pages) -> None:
    problem(sent(keeper, "PUT", PATH, {"from": "http://127.0.0.1/"}), 400)
    problem(sent(keeper, "PUT", PATH, {"from": "amqp://host:port/"}), 400)
    stream = {**BODY, "arguments": {"x-queue-type": "stream"}}
    assert "it is a stream" in str(problem(sent(keeper, "PUT", PATH, stream), 400)["reason"])
    done(keeper, "PUT", "/api/queues/%2F/q", {"durable": True})
    told = problem(sent(keeper, "PUT", PATH, BODY), 400)
    assert "exists and is not a replica" in str(told["reason"])
    assert done(keeper, "GET", "/api/parameters/queue-replica").json() == []


def test_it_is_for_administrators(keeper: Pages) -> None:
    other = user_of(keeper, "other", "policymaker", configure=".*", write=".*", read=".*")
    problem(sent(other, "PUT", PATH, BODY), 403)
    value = {"value": {"uri": "amqp://127.0.0.1:1/"}}
    problem(sent(other, "PUT", "/api/parameters/queue-replica/%2F/q", value), 403)


def test_a_server_without_a_data_directory_keeps_none(pages: Pages) -> None:
    assert "data directory" in str(problem(sent(pages, "PUT", PATH, BODY), 400)["reason"])


DEFINITIONS = {
    "queues": [{"name": "q", "vhost": "/", "durable": True}],
    "parameters": [
        {
            "vhost": "/",
            "component": "queue-replica",
            "name": "q",
            "value": {"uri": BODY["from"], "queue": "q"},
        }
    ],
}


def test_definitions_bring_replicas(keeper: Pages) -> None:
    assert done(keeper, "POST", "/api/definitions", DEFINITIONS).status_code == 204
    (row,) = done(keeper, "GET", "/api/ha/replicas").json()
    assert (row["name"], row["source"]) == ("q", "queue 'q' at amqp://127.0.0.1:1/")
    exported = keeper.facts("/api/definitions")
    assert done(keeper, "POST", "/api/definitions", exported).status_code == 204
    assert keeper.facts("/api/definitions") == exported


def test_a_server_without_a_data_directory_imports_none(pages: Pages) -> None:
    refused = problem(sent(pages, "POST", "/api/definitions", DEFINITIONS), 400)
    assert "without a data directory cannot keep replicas" in str(refused["mistakes"])
    assert pages.broker.queue_depths() == {}
