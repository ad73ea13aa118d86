"""Policies: settings for all queues and exchanges whose names match a pattern.

At most one policy applies to an object, the one with the highest priority (of equals, the first by
name, so that every node chooses alike). Keys and texts are RabbitMQ's; keys that this broker does
not act on are kept, because definitions carry them.
"""

import re
from enum import Enum
from typing import Final

from penstock.broker.arguments import (
    COUNT_MAX,
    MILLISECONDS_MAX,
    NO_POLICY,
    DeadLetterStrategy,
    Overflow,
)
from penstock.broker.errors import PreconditionFailed
from penstock.broker.names import PATTERN_LENGTH_MAX, check_operators_name
from penstock.broker.replication_level import LEVEL_WORDS, REPLICATE_KEY
from penstock.broker.topology import SetOperatorPolicy, SetPolicy


class ApplyTo(Enum):
    ALL = "all"
    QUEUES = "queues"
    EXCHANGES = "exchanges"
    CLASSIC_QUEUES = "classic_queues"
    QUORUM_QUEUES = "quorum_queues"
    STREAMS = "streams"


# Key -> (smallest value, largest value, what RabbitMQ calls it).
_NUMBERS: Final[dict[str, tuple[int, int, str]]] = {
    "message-ttl": (0, MILLISECONDS_MAX, "message TTL"),
    "expires": (1, MILLISECONDS_MAX, "queue expiry"),
    "max-length": (0, COUNT_MAX, "maximum length"),
    "max-length-bytes": (0, COUNT_MAX, "maximum length in bytes"),
    "delivery-limit": (0, COUNT_MAX, "delivery limit"),
    "max-in-memory-length": (0, COUNT_MAX, "maximum memory in bytes"),
    "max-in-memory-bytes": (0, COUNT_MAX, "maximum memory in bytes"),
}
# Key -> (allowed words, or none for any text; what RabbitMQ calls it).
_WORDS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "alternate-exchange": ((), "alternate exchange name"),
    "dead-letter-exchange": ((), "dead letter exchange name"),
    "dead-letter-routing-key": ((), "dead letter routing key"),
    "dead-letter-strategy": (
        tuple([strategy.value for strategy in DeadLetterStrategy]),
        "dead letter strategy",
    ),
    "overflow": (tuple([overflow.value for overflow in Overflow]), "overflow value"),
    "queue-mode": (("default", "lazy"), "queue-mode value"),
    REPLICATE_KEY: (LEVEL_WORDS, "replication level"),
}
# Accepted and kept, with no effect here (yet).
_KEPT: Final = frozenset(
    {
        "consumer-timeout",
        "initial-cluster-size",
        "max-age",
        "queue-leader-locator",
        "queue-master-locator",
        "queue-version",
        "stream-max-segment-size-bytes",
    }
)
_KEPT_PREFIXES: Final = ("ha-", "federation-")


class Policy:
    """One policy, checked and compiled. Held by `Policies`."""

    def __init__(self, command: SetPolicy | SetOperatorPolicy) -> None:
        check_operators_name("a policy name", command.name)
        check_definition(command.definition)
        self.name: str = command.name
        self.definition: dict[str, object] = command.definition
        self.priority: int = command.priority
        self.pattern: str = command.pattern
        self.apply_to: ApplyTo = _apply_to(command.apply_to)
        if len(command.pattern) > PATTERN_LENGTH_MAX:
            raise PreconditionFailed(f"the pattern is longer than {PATTERN_LENGTH_MAX} characters")
        try:
            self._regex: re.Pattern[str] = re.compile(command.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise PreconditionFailed(
                f"pattern should be a regular expression: '{command.pattern}': {error}"
            ) from None

    def matches_queue(self, name: str, queue_type: str) -> bool:
        fits = (
            self.apply_to is ApplyTo.ALL
            or self.apply_to is ApplyTo.QUEUES
            or (self.apply_to is ApplyTo.CLASSIC_QUEUES and queue_type == "classic")
            or (self.apply_to is ApplyTo.QUORUM_QUEUES and queue_type == "quorum")
            or (self.apply_to is ApplyTo.STREAMS and queue_type == "stream")
        )
        return fits and self._regex.search(name) is not None

    def matches_exchange(self, name: str) -> bool:
        fits = self.apply_to is ApplyTo.ALL or self.apply_to is ApplyTo.EXCHANGES
        return fits and self._regex.search(name) is not None


class Policies:
    """The policies of one virtual host, the first that matches counts. Held by the virtual host."""

    def __init__(self) -> None:
        self._by_name: dict[str, Policy] = {}
        self._ordered: list[Policy] = []

    def put(self, policy: Policy) -> None:
        self._by_name[policy.name] = policy
        self._order()

    def remove(self, name: str) -> bool:
        """False when there is none of that name."""
        if self._by_name.pop(name, None) is None:
            return False
        self._order()
        return True

    def _order(self) -> None:
        self._ordered = sorted(self._by_name.values(), key=_rank)

    def listed(self) -> list[Policy]:
        return list(self._ordered)

    def of_queue(self, name: str, queue_type: str) -> Policy | None:
        for policy in self._ordered:
            if policy.matches_queue(name, queue_type):
                return policy
        return None

    def of_exchange(self, name: str) -> Policy | None:
        for policy in self._ordered:
            if policy.matches_exchange(name):
                return policy
        return None


def definition_of(policy: Policy | None) -> dict[str, object]:
    return NO_POLICY if policy is None else policy.definition


def check_definition(definition: dict[str, object]) -> None:
    if not definition:
        raise PreconditionFailed("no policy provided")
    for key, value in definition.items():
        if key in _NUMBERS:
            smallest, largest, what = _NUMBERS[key]
            if not isinstance(value, int) or isinstance(value, bool):
                raise PreconditionFailed(f"{value} is not a valid {what}")
            if not smallest <= value <= largest:
                raise PreconditionFailed(f"{value} is not a valid {what}")
        elif key in _WORDS:
            words, what = _WORDS[key]
            if not isinstance(value, str) or (words and value not in words):
                raise PreconditionFailed(f"{value} is not a valid {what}")
        elif key not in _KEPT and not key.startswith(_KEPT_PREFIXES):
            raise PreconditionFailed(f"{key} are not recognised policy settings")


def _apply_to(word: str) -> ApplyTo:
    try:
        return ApplyTo(word)
    except ValueError:
        raise PreconditionFailed(
            f"apply-to '{word}' unrecognised; should be 'queues', 'exchanges' or 'all'"
        ) from None


def _rank(policy: Policy) -> tuple[int, str]:
    return (-policy.priority, policy.name)
