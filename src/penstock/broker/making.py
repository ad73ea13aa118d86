"""Making what a declaration asks for: its type, its policy and its level of replication, decided here.

Nothing is changed before the object is made, so whatever is refused leaves no trace.
"""

import dataclasses
from typing import Final

from penstock.broker.arguments import STREAM, settings_of, type_of
from penstock.broker.effective_policy import EffectivePolicies
from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges import partitioned
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.exchanges.kinds import make_exchange
from penstock.broker.internal_queues import is_internal
from penstock.broker.policy import definition_of
from penstock.broker.queues.message_queue import MessageQueue, QueueOwner
from penstock.broker.queues.plain_queues import PlainQueueMaker
from penstock.broker.queues.queue_kinds import QueueMaker
from penstock.broker.replication_level import (
    REPLICATE_ARGUMENT,
    ReplicationLevel,
    level_fault,
)
from penstock.broker.shared_services import SharedServices
from penstock.broker.topology import DeclareExchange, DeclareQueue

# Nothing that such a queue holds is written or sent, so its messages wait for no commit.
_OF_LOWER_LEVELS: Final[QueueMaker] = PlainQueueMaker()


class ObjectMaker:
    """Held by a virtual host."""

    def __init__(self, shared: SharedServices, effective: EffectivePolicies) -> None:
        self._shared: SharedServices = shared
        self._effective: EffectivePolicies = effective

    def make_queue(
        self, vhost: QueueOwner, command: DeclareQueue, owner: int, now: int
    ) -> MessageQueue:
        """`owner` is the connection of an exclusive queue. May raise a `Refusal`."""
        kinds = self._shared.kinds
        queue_type = type_of(command.arguments, kinds.types)
        policy = self._effective.of_queue(command.name, command.arguments, queue_type)
        # An exclusive queue ends with its connection, so it cannot outlive a restart.
        durable = command.durable and not command.exclusive
        level = ReplicationLevel.NONE
        if durable:
            may_differ = queue_type is not STREAM and not is_internal(
                command.name, command.arguments
            )
            level = self._level(command.replicate, may_differ, command.arguments, policy)
        is_lower = durable and level is not ReplicationLevel.ALL
        maker = _OF_LOWER_LEVELS if is_lower else kinds.maker(queue_type)
        queue = maker.make(
            vhost,
            command.name,
            durable,
            owner,
            command.auto_delete,
            settings_of(command.arguments, policy, kinds.types),
            command.arguments,
            now,
        )
        queue.level = level
        return queue

    def make_exchange(self, command: DeclareExchange) -> Exchange:
        """May raise a `Refusal`."""
        exchange = make_exchange(
            command.name,
            command.kind,
            command.durable,
            command.auto_delete,
            command.internal,
            command.arguments,
        )
        policy = definition_of(self._effective.policies.of_exchange(command.name))
        # The partitions of a partitioned stream are streams.
        may_differ = command.kind != partitioned.KIND
        exchange.level = self._level(command.replicate, may_differ, command.arguments, policy)
        return exchange

    def _level(
        self,
        recorded: str,
        may_differ: bool,
        arguments: dict[str, object],
        policy: dict[str, object],
    ) -> ReplicationLevel:
        if recorded:
            return ReplicationLevel(recorded)
        # What is read back without a level was declared by a server on its own, or before there were
        # levels: nothing of it may be lost.
        if may_differ and self._shared.decides:
            return self._shared.replication.level_of(arguments, policy)
        return ReplicationLevel.ALL

    def recorded_queue(self, command: DeclareQueue, queue: MessageQueue) -> DeclareQueue:
        """The command with what was decided, for the log of definitions."""
        if not self._shared.is_replicated:
            return command
        return dataclasses.replace(command, replicate=queue.level.value)

    def recorded_exchange(self, command: DeclareExchange, exchange: Exchange) -> DeclareExchange:
        if not self._shared.is_replicated:
            return command
        return dataclasses.replace(command, replicate=exchange.level.value)


def check_exchange_level(what: str, command: DeclareExchange) -> None:
    """Refuse an argument that names no level, or one that such an exchange cannot have. `what` reads
    "exchange 'e' in vhost '/'".
    """
    word = command.arguments.get(REPLICATE_ARGUMENT)
    if word is None:
        return
    fault = level_fault(word)
    if not fault and command.kind == partitioned.KIND and word != ReplicationLevel.ALL.value:
        fault = "its partitions are streams, so its level can only be 'all'"
    if fault:
        raise PreconditionFailed(f"invalid arg '{REPLICATE_ARGUMENT}' for {what}: {fault}")
