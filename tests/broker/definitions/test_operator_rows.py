"""Rows about what only an operator sets: each mistake is named with its path."""

import pytest

from penstock.broker.definitions.exporting import export
from tests.broker.definitions.definition_examples import apply, make_state, mistakes_of


def topic(**changed: object) -> dict[str, object]:
    row = {"user": "guest", "vhost": "/", "exchange": "e", "write": "w", "read": "r"}
    return {**row, **changed}


def parameter(component: str, value: object, **changed: object) -> dict[str, object]:
    return {"vhost": "/", "component": component, "name": "n", "value": value, **changed}


LIMITING = {"pattern": "^q", "definition": {"max-length": 1}, "apply-to": "queues", "priority": 0}


@pytest.mark.parametrize(
    ("section", "row", "mistake"),
    [
        (
            "vhosts",
            {"name": "v", "default_queue_type": "frogs"},
            "vhosts[0]: 'frogs' is not a valid default queue type",
        ),
        (
            "vhosts",
            {"name": "v", "metadata": {"description": 3}},
            "vhosts[0].metadata.description: must be a string, not the number 3",
        ),
        (
            "vhosts",
            {"name": "v", "tags": 3},
            "vhosts[0].tags: must be a list of strings, or a comma-separated string",
        ),
        (
            "users",
            {"name": "u", "limits": {"max-channels": "7"}},
            "users[0].limits.max-channels: must be an integer, not a string",
        ),
        (
            "users",
            {"name": "u", "penstock_scram_keys": 3},
            "users[0].penstock_scram_keys: must be a string, not the number 3",
        ),
        ("topic_permissions", topic(user="nobody"), "topic_permissions[0]: no user 'nobody'"),
        ("topic_permissions", topic(vhost="v"), "topic_permissions[0]: no vhost 'v'"),
        (
            "topic_permissions",
            topic(write="("),
            (
                "topic_permissions[0].write: '(' is not a valid regular expression: missing ), "
                "unterminated subpattern at position 0"
            ),
        ),
        (
            "topic_permissions",
            {"user": "guest", "vhost": "/", "write": "", "read": ""},
            "topic_permissions[0].exchange: is missing (a string)",
        ),
        (
            "parameters",
            parameter("operator_policy", {**LIMITING, "definition": {"overflow": "drop-head"}}),
            (
                "parameters[0].value.definition.overflow: overflow are not recognised policy settings "
                "of an operator policy, which may set delivery-limit, expires, max-in-memory-bytes, "
                "max-in-memory-length, max-length, max-length-bytes, message-ttl"
            ),
        ),
        (
            "parameters",
            parameter("operator_policy", {**LIMITING, "definition": {"max-length": -1}}),
            "parameters[0].value.definition.max-length: -1 is not a valid maximum length",
        ),
        (
            "parameters",
            parameter("operator_policy", {"definition": {"max-length": 1}}),
            "parameters[0].value.pattern: is missing (a string)",
        ),
        (
            "parameters",
            parameter("policy", LIMITING),
            "parameters[0].component: policies belong into the list `policies`",
        ),
        (
            "parameters",
            {"vhost": "/", "component": "c", "name": "n"},
            "parameters[0].value: is missing",
        ),
        (
            "parameters",
            parameter("c", 2**64),
            "parameters[0].value: needs more than 64 bits",
        ),
        (
            "parameters",
            parameter("", 1),
            "parameters[0]: a component name must have 1 to 255 bytes",
        ),
        (
            "global_parameters",
            {"name": "g"},
            "global_parameters[0].value: is missing",
        ),
        (
            "global_parameters",
            {"name": "", "value": 1},
            "global_parameters[0]: a global parameter name must have 1 to 255 bytes",
        ),
    ],
)
def test_a_mistake_is_named_with_its_path(
    section: str, row: dict[str, object], mistake: str
) -> None:
    state = make_state()
    before = export(state)
    assert mistakes_of({section: [row]}, state) == [mistake]
    assert export(state) == before


def test_a_topic_permission_of_a_user_that_is_wrong_is_no_mistake_of_its_own() -> None:
    definitions = {
        "users": [{"name": "u", "limits": {"max-channels": "7"}}],
        "topic_permissions": [topic(user="u")],
    }
    assert mistakes_of(definitions) == [
        "users[0].limits.max-channels: must be an integer, not a string"
    ]


def test_an_operator_policy_may_be_written_in_pairs_as_rabbitmqctl_does() -> None:
    state = make_state()
    pairs = {**LIMITING, "definition": [["max-length", 1], ["expires", 2]]}
    apply(state, {"parameters": [parameter("operator_policy", pairs)]})
    [policy] = state.vhost("/").operator_policies.listed()
    assert policy.definition == {"max-length": 1, "expires": 2}


@pytest.mark.parametrize("definition", [[["max-length"]], [[1, 2]], ["max-length"]])
def test_a_list_that_is_not_of_pairs_is_no_definition(definition: list[object]) -> None:
    row = parameter("operator_policy", {**LIMITING, "definition": definition})
    [mistake] = mistakes_of({"parameters": [row]})
    assert mistake.startswith("parameters[0].value.definition: must be an object, not a list")
