"""PATCH /api/queues/{vhost}/{name}."""

import json

from penstock import Broker
from tests.server.http.asking import Pages, declared, problem


def test_arguments_change_and_a_declaration_with_them_is_equivalent(
    broker: Broker, pages: Pages
) -> None:
    declared(broker, "q", {"x-max-length": 5, "x-expires": 100_000})
    changes = {"arguments": {"x-max-length": 9, "x-expires": None}}
    response = pages.ask("PATCH", "/api/queues/%2F/q", json.dumps(changes).encode())
    assert response.status_code == 204, response.text
    declared(broker, "q", {"x-max-length": 9})


def test_what_cannot_be_changed_is_answered_with_what_to_do(broker: Broker, pages: Pages) -> None:
    declared(broker, "q", {})
    body = json.dumps({"arguments": {"x-max-priority": 3}}).encode()
    told = problem(pages.ask("PATCH", "/api/queues/%2F/q", body), 400)
    assert "declare another queue" in str(told["reason"])


def test_bad_bodies_and_unknown_queues_are_refused(pages: Pages) -> None:
    problem(pages.ask("PATCH", "/api/queues/%2F/q", b'{"arguments": 5}'), 400)
    problem(pages.ask("PATCH", "/api/queues/%2F/q", b"{}"), 400)
    problem(pages.ask("PATCH", "/api/queues/%2F/none", b'{"arguments": {}}'), 404)
    problem(pages.ask("PATCH", "/api/queues/elsewhere/q", b'{"arguments": {}}'), 404)
