"""Rows of definitions about what only an operator sets: descriptions of virtual hosts, limits, topic
permissions, operator policies and parameters. Each becomes one command, of use only when its row is
not faulty afterwards.
"""

from typing import Final

from penstock.broker.definitions.rows import Row
from penstock.broker.effective_policy import check_operator_definition
from penstock.broker.errors import PreconditionFailed
from penstock.broker.json_values import value_fault
from penstock.broker.parameters import (
    LIMITS_COMPONENT,
    MAX_CONNECTIONS,
    MAX_QUEUES,
    OPERATOR_POLICY_COMPONENT,
    POLICY_COMPONENT,
)
from penstock.broker.policy import ApplyTo, check_definition
from penstock.broker.topology import (
    AddVhost,
    SetGlobalParameter,
    SetOperatorPolicy,
    SetParameter,
    SetPolicy,
    SetUserLimits,
    SetVhostLimits,
    VhostCommand,
)

MAX_CHANNELS: Final = "max-channels"
# How RabbitMQ says that a virtual host has no default queue type.
_NO_QUEUE_TYPE: Final = "undefined"


def vhost_command(row: Row) -> AddVhost:
    """RabbitMQ says it beside the name or in `metadata`, depending on its release."""
    name = row.name("name")
    metadata = Row(f"{row.path}.metadata", row.arguments("metadata"), row.mistakes)
    description = _said(row, metadata, "description")
    queue_type = _said(row, metadata, "default_queue_type")
    tags = row.words("tags") or metadata.words("tags")
    if metadata.faulty:
        row.faulty = True
    return AddVhost(name, description, tags, "" if queue_type == _NO_QUEUE_TYPE else queue_type)


def _said(row: Row, metadata: Row, key: str) -> str:
    for place in (metadata, row):
        if place.table.get(key) is not None:
            return place.text(key)
    return ""


def user_limits_command(row: Row, user: str) -> SetUserLimits | None:
    """None when the row says nothing of limits."""
    limits = Row(f"{row.path}.limits", row.arguments("limits"), row.mistakes)
    command = SetUserLimits(
        user, limits.integer_or(MAX_CONNECTIONS, -1), limits.integer_or(MAX_CHANNELS, -1)
    )
    if limits.faulty:
        row.faulty = True
    return command if limits.table else None


def policy_command(row: Row) -> SetPolicy:
    command = SetPolicy(
        row.text("name"),
        row.pattern("pattern"),
        row.arguments("definition"),
        row.text_or("apply-to", ApplyTo.ALL.value),
        row.integer_or("priority", 0),
    )
    # Key by key, so that each mistake is named with its own path.
    for key, value in command.definition.items():
        try:
            check_definition({key: value})
        except PreconditionFailed as refusal:
            row.complain(f"definition.{key}", refusal.text)
    return command


def parameter_command(row: Row) -> VhostCommand:
    """Limits and operator policies are parameters in definitions, and have commands here."""
    component = row.name("component")
    # The limits of a virtual host have one name, which says nothing.
    name = "" if component == LIMITS_COMPONENT else row.name("name")
    if component == POLICY_COMPONENT:
        row.complain("component", "policies belong into the list `policies`")
    if component not in {LIMITS_COMPONENT, OPERATOR_POLICY_COMPONENT}:
        return SetParameter(component, name, json_value(row))
    row.table["value"] = _without_pairs(row.table.get("value"))
    value = Row(f"{row.path}.value", row.arguments("value"), row.mistakes)
    if component == LIMITS_COMPONENT:
        command: VhostCommand = SetVhostLimits(
            value.integer_or(MAX_QUEUES, -1), value.integer_or(MAX_CONNECTIONS, -1)
        )
    else:
        command = _operator_policy_command(name, value)
    if value.faulty:
        row.faulty = True
    return command


def _operator_policy_command(name: str, value: Row) -> SetOperatorPolicy:
    value.table["name"] = name
    value.table["definition"] = _without_pairs(value.table.get("definition"))
    policy = policy_command(value)
    for key in policy.definition:
        try:
            check_operator_definition({key: 0})
        except PreconditionFailed as refusal:
            value.complain(f"definition.{key}", refusal.text)
    return SetOperatorPolicy(
        name, policy.pattern, policy.definition, policy.apply_to, policy.priority
    )


def _without_pairs(value: object) -> object:
    """`rabbitmqctl export_definitions` of RabbitMQ 3.10 writes some objects as a list of pairs."""
    if not isinstance(value, list) or not value:
        return value
    table: dict[str, object] = {}
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            return value
        table[pair[0]] = pair[1]
    return table


def global_parameter_command(row: Row) -> SetGlobalParameter:
    return SetGlobalParameter(row.name("name"), json_value(row))


def json_value(row: Row) -> object:
    value = row.table.get("value")
    if "value" not in row.table:
        row.complain("value", "is missing")
    fault = value_fault(value, 1)
    if fault:
        row.complain("value", fault)
    return value
