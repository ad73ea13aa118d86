"""The policies and operator policies of one virtual host, and what they amount to for a queue.

An operator policy is for limits that the users of a virtual host cannot raise: of a key that both
have, the smaller number is effective, and a key that only one has is taken from there. That is how
RabbitMQ merges them. At most one policy and one operator policy apply to a queue; exchanges have
none of the keys that an operator policy may set.
"""

from typing import Final

from penstock.broker.arguments import NO_POLICY, QueueType
from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.internal_queues import is_internal
from penstock.broker.policy import Policies, Policy, definition_of
from penstock.broker.topology import (
    ClearOperatorPolicy,
    ClearPolicy,
    SetOperatorPolicy,
    SetPolicy,
)

# What RabbitMQ takes in operator policies.
OPERATOR_KEYS: Final = (
    "delivery-limit",
    "expires",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "max-length",
    "max-length-bytes",
    "message-ttl",
)


class EffectivePolicies:
    """Held by the virtual host."""

    def __init__(self, vhost: str) -> None:
        self._vhost: str = vhost
        self.policies: Policies = Policies()
        self.operator_policies: Policies = Policies()

    def change(
        self, command: SetPolicy | ClearPolicy | SetOperatorPolicy | ClearOperatorPolicy
    ) -> None:
        if isinstance(command, SetPolicy):
            self.policies.put(Policy(command))
        elif isinstance(command, SetOperatorPolicy):
            check_operator_definition(command.definition)
            self.operator_policies.put(Policy(command))
        elif isinstance(command, ClearPolicy):
            if not self.policies.remove(command.name):
                raise NotFound(f"no policy '{command.name}' in vhost '{self._vhost}'")
        elif not self.operator_policies.remove(command.name):
            raise NotFound(f"no operator policy '{command.name}' in vhost '{self._vhost}'")

    def of_queue(
        self, name: str, arguments: dict[str, object], queue_type: QueueType
    ) -> dict[str, object]:
        """The effective definition, which is empty where no policy applies."""
        if is_internal(name, arguments):
            return NO_POLICY
        policy = self.policies.of_queue(name, queue_type.value)
        operator_policy = self.operator_policies.of_queue(name, queue_type.value)
        return merged(definition_of(policy), definition_of(operator_policy))


def merged(policy: dict[str, object], operator_policy: dict[str, object]) -> dict[str, object]:
    if not operator_policy:
        return policy
    effective = dict(policy)
    for key, limit in operator_policy.items():
        wanted = policy.get(key)
        if not isinstance(wanted, int) or not isinstance(limit, int) or limit < wanted:
            effective[key] = limit
    return effective


def check_operator_definition(definition: dict[str, object]) -> None:
    for key in definition:
        if key not in OPERATOR_KEYS:
            raise PreconditionFailed(
                f"{key} are not recognised policy settings of an operator policy, which may set "
                f"{', '.join(OPERATOR_KEYS)}"
            )
