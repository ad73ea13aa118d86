"""How much of a queue or an exchange another server has when it becomes the root of the cluster.

    all            the object and its messages
    configuration  the object; a queue comes back empty
    none           nothing: the next root deletes it. Until then all servers know it, because a route
                   may lead through it

The level is decided once, when the object is declared: by its argument, else by its policy, else by
the default of the cluster. The declaration is recorded with it, so that a policy or a default that
changes later decides about later objects alone. A binding needs no level: it is there while both of
its ends are, so it has the lower one of theirs.
"""

from enum import Enum
from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.field_types import type_name

REPLICATE_ARGUMENT: Final = "x-replicate"
REPLICATE_KEY: Final = "replicate"  # of a policy


class ReplicationLevel(Enum):
    """The value is what arguments, policies and records say."""

    NONE = "none"
    CONFIGURATION = "configuration"
    ALL = "all"


LEVEL_WORDS: Final = tuple([level.value for level in ReplicationLevel])


class ReplicationTest:
    """Decides the level of what is declared. Held by the services that virtual hosts share."""

    def __init__(self, default: ReplicationLevel, is_replicated: bool) -> None:
        self.default: ReplicationLevel = default
        # Whether other servers have copies at all: a member of a cluster.
        self.is_replicated: bool = is_replicated

    def level_of(self, arguments: dict[str, object], policy: dict[str, object]) -> ReplicationLevel:
        """Of an object that may have any level. Arguments and policy were checked."""
        if not self.is_replicated:
            # A level says what other servers have, and what is durable here stays durable.
            return ReplicationLevel.ALL
        for word in (arguments.get(REPLICATE_ARGUMENT), policy.get(REPLICATE_KEY)):
            if isinstance(word, str):
                return ReplicationLevel(word)
        return self.default


ON_ITS_OWN: Final = ReplicationTest(ReplicationLevel.ALL, False)


def level_fault(value: object) -> str:
    """Why an argument does not name a level, in the words of RabbitMQ's other arguments; empty when
    it does.
    """
    if not isinstance(value, str):
        return f"{{unacceptable_type,{type_name(value)}}}"
    return "" if value in LEVEL_WORDS else f"\"unsupported replication level '{value}'\""


def check_lasting(what: str, durable: bool, exclusive: bool, arguments: dict[str, object]) -> None:
    """Refuse an argument that asks for copies of a queue that has none. `what` reads "queue 'q' in
    vhost '/'".
    """
    word = arguments.get(REPLICATE_ARGUMENT)
    if word is None or word == ReplicationLevel.NONE.value or (durable and not exclusive):
        return
    reason = "an exclusive queue ends with its connection" if exclusive else "it is not durable"
    raise PreconditionFailed(
        f"invalid arg '{REPLICATE_ARGUMENT}' for {what}: {reason}, so its level can only be 'none'"
    )
