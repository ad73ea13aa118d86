"""Parameters: JSON values that an operator keeps under a component and a name.

RabbitMQ keeps limits of virtual hosts and operator policies as parameters, and so do its tools and
its definitions. Here these have commands of their own; a parameter of such a component is turned
into its command before anything is done. Parameters of other components, such as
`federation-upstream`, are kept for whoever reads them.
"""

from typing import Final

from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.json_values import value_fault
from penstock.broker.names import check_operators_name
from penstock.broker.topology import (
    ClearGlobalParameter,
    ClearOperatorPolicy,
    ClearParameter,
    SetGlobalParameter,
    SetOperatorPolicy,
    SetParameter,
    SetVhostLimits,
    VhostCommand,
)

LIMITS_COMPONENT: Final = "vhost-limits"
LIMITS_NAME: Final = "limits"
MAX_QUEUES: Final = "max-queues"
MAX_CONNECTIONS: Final = "max-connections"
OPERATOR_POLICY_COMPONENT: Final = "operator_policy"
POLICY_COMPONENT: Final = "policy"
# The global parameter by which clients and tools know the broker.
CLUSTER_NAME: Final = "cluster_name"
# It stands in the first frame that clients get, of which many read at most 4,096 bytes.
CLUSTER_NAME_BYTES_MAX: Final = 255
# An operator keeps a few dozen; this many make a snapshot of definitions grow, but not unbearably.
# Further ones are refused.
PARAMETERS_MAX: Final = 10_000

ParameterKey = tuple[str, str]


def known_form(command: SetParameter | ClearParameter) -> VhostCommand:
    """The command that a parameter of a known component stands for; another one is itself."""
    if command.component == POLICY_COMPONENT:
        raise PreconditionFailed("policies may not be set using this method")
    if isinstance(command, SetParameter):
        if command.component == LIMITS_COMPONENT:
            return _limits(command)
        if command.component == OPERATOR_POLICY_COMPONENT:
            return _operator_policy(command)
    elif command.component == LIMITS_COMPONENT:
        return SetVhostLimits()
    elif command.component == OPERATOR_POLICY_COMPONENT:
        return ClearOperatorPolicy(command.name)
    return command


def change_parameter(
    parameters: dict[ParameterKey, object], command: SetParameter | ClearParameter, vhost: str
) -> None:
    """Of a component that is not known here."""
    key = (command.component, command.name)
    if isinstance(command, SetParameter):
        check_operators_name("a component name", command.component)
        check_operators_name("a parameter name", command.name)
        _check_value(command.value)
        if key not in parameters:
            _check_count(len(parameters))
        parameters[key] = command.value
    elif key in parameters:
        del parameters[key]
    else:
        raise NotFound(
            f"no parameter '{command.name}' of component '{command.component}' in vhost '{vhost}'"
        )


def change_global_parameter(
    parameters: dict[str, object], command: SetGlobalParameter | ClearGlobalParameter
) -> None:
    if isinstance(command, SetGlobalParameter):
        check_operators_name("a global parameter name", command.name)
        _check_value(command.value)
        if command.name not in parameters:
            _check_count(len(parameters))
        parameters[command.name] = command.value
    elif command.name in parameters:
        del parameters[command.name]
    else:
        raise NotFound(f"no global parameter '{command.name}'")


def is_cluster_name(value: object) -> bool:
    """Whether peers can be told it. A global parameter may be any value; one that is no name is
    kept, and the broker goes by the name that it was given at its start.
    """
    if not isinstance(value, str):
        return False
    try:
        return 0 < len(value.encode()) <= CLUSTER_NAME_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _check_count(count: int) -> None:
    """`count` are there already."""
    if count >= PARAMETERS_MAX:
        raise PreconditionFailed(f"limit of {PARAMETERS_MAX} parameters is reached")


def _check_value(value: object) -> None:
    fault = value_fault(value, 1)
    if fault:
        raise PreconditionFailed(f"the value of the parameter {fault}")


def _limits(command: SetParameter) -> SetVhostLimits:
    if command.name != LIMITS_NAME:
        raise PreconditionFailed(f"the name of the limits of a vhost must be '{LIMITS_NAME}'")
    value = _table(command)
    limits = {MAX_QUEUES: -1, MAX_CONNECTIONS: -1}
    for key, number in value.items():
        if key not in limits:
            raise PreconditionFailed(f'Unrecognised terms [{{<<"{key}">>,{number}}}] in limits')
        limits[key] = _integer(key, number)
    return SetVhostLimits(limits[MAX_QUEUES], limits[MAX_CONNECTIONS])


def _operator_policy(command: SetParameter) -> SetOperatorPolicy:
    value = _table(command)
    pattern = value.get("pattern")
    definition = value.get("definition")
    apply_to = value.get("apply-to", "all")
    if not isinstance(pattern, str):
        raise PreconditionFailed('Key "pattern" is missing or not a string')
    if not isinstance(definition, dict):
        raise PreconditionFailed('Key "definition" is missing or not an object')
    if not isinstance(apply_to, str):
        raise PreconditionFailed("apply-to should be a string")
    priority = _integer("priority", value.get("priority", 0))
    return SetOperatorPolicy(command.name, pattern, definition, apply_to, priority)


def _table(command: SetParameter) -> dict[str, object]:
    if not isinstance(command.value, dict):
        raise PreconditionFailed(
            f"the value of a parameter of component '{command.component}' must be an object"
        )
    return command.value


def _integer(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise PreconditionFailed(f"{name} should be an integer, actually was {value}")
    return value
