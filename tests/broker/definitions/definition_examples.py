"""Definitions for tests, and a state to import them into.

`definitions_of_rabbitmq.json` is what RabbitMQ 3.10.8 exported over HTTP.
"""

import json
from pathlib import Path

import pytest

from penstock.broker.access.new_password import NewPasswords
from penstock.broker.definitions.importing import import_steps
from penstock.broker.definitions.parsing import DefinitionsRefused, parse
from penstock.broker.definitions.rehearsal import rehearse
from penstock.broker.state import BrokerState, put_defaults
from tests.broker.doubles import CountingEntropy

RABBITMQ = json.loads(
    (Path(__file__).parent / "definitions_of_rabbitmq.json").read_text(encoding="utf-8")
)


def make_state() -> BrokerState:
    state = BrokerState(CountingEntropy())
    put_defaults(state, 0)
    return state


def apply(state: BrokerState, definitions: object, vhost: str | None = None) -> list[str]:
    found = parse(definitions, vhost, NewPasswords(CountingEntropy()))
    import_steps(state, rehearse(found, state, 0), 0)
    return found.warnings


def mistakes_of(definitions: object, state: BrokerState | None = None) -> list[str]:
    with pytest.raises(DefinitionsRefused) as refused:
        apply(state or make_state(), definitions)
    return refused.value.mistakes


def logs_in(state: BrokerState, name: str, password: bytes) -> bool:
    verification = state.users.verifier(name, password)
    verification.run()
    return state.users.settle(verification)


def rows(definitions: dict[str, object], section: str) -> list[dict[str, object]]:
    found = definitions[section]
    assert isinstance(found, list)
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


def queue(name: str, **changed: object) -> dict[str, object]:
    row = {"vhost": "/", "name": name, "durable": True, "auto_delete": False, "arguments": {}}
    return {**row, **changed}


def exchange(name: str, **changed: object) -> dict[str, object]:
    row = {"vhost": "/", "name": name, "type": "topic", "durable": True}
    return {**row, **changed}


def binding(source: str, destination: str, **changed: object) -> dict[str, object]:
    row = {"vhost": "/", "source": source, "destination": destination, "routing_key": "k"}
    return {**row, "destination_type": "queue", "arguments": {}, **changed}


def policy(**changed: object) -> dict[str, object]:
    row = {"vhost": "/", "name": "p", "pattern": "^q", "definition": {"max-length": 1}}
    return {**row, **changed}
