"""Rehearses definitions on a trial state, so that an import is applied as a whole or not at all.

The trial state is a broker's state of its own, in which stands what the definitions name and the real
state has. There every command is tried; what is refused there is a mistake of the definitions, told
with RabbitMQ's text and the path of the row. What exists already stays as it is, as in RabbitMQ.

Invariant: neither the real state nor anything reachable from it is changed.
"""

import dataclasses
import re
from typing import Final

from penstock.broker.arguments import TYPE_ARGUMENT
from penstock.broker.definitions.parsing import (
    BrokerStep,
    Definitions,
    DefinitionsRefused,
    Identity,
    Step,
    VhostStep,
    replica_made_by,
)
from penstock.broker.errors import NotFound, Refusal
from penstock.broker.queues.following import REPLICA_COMPONENT
from penstock.broker.state import VHOSTS_MAX, BrokerState
from penstock.broker.topology import (
    NO_CONNECTION,
    AddVhost,
    BindExchange,
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    PutUser,
    SetParameter,
    SetPermissions,
    SetTopicPermissions,
    SetUserLimits,
    SetVhostLimits,
)
from penstock.world.entropy import Entropy

# How refusals name the argument that is wrong.
_BLAMED: Final = re.compile(r"(?:invalid|inequivalent) arg '([^']+)'|for arg '([^']+)'")
# Fields that refusals also call arguments.
_PROPERTIES: Final = ("type", "durable", "auto_delete", "internal")


class _NoDice(Entropy):
    """Nobody logs in on a trial."""

    def octets(self, count: int) -> bytes:
        return bytes(count)


def rehearse(definitions: Definitions, state: BrokerState, now: int) -> list[Step]:
    """The steps that are to be applied to this state, now. Raises `DefinitionsRefused` with all
    mistakes, those of reading included. Adds to the warnings.
    """
    rehearsal = StepwiseRehearsal(definitions, state)
    rehearsal.step(len(definitions.steps), now)
    return rehearsal.result()


class StepwiseRehearsal:
    """A rehearsal that may pause. Its result holds while the state is as it was at the beginning."""

    def __init__(self, definitions: Definitions, state: BrokerState) -> None:
        self._trial: _TrialState = _TrialState(definitions, state)
        self._steps: list[Step] = definitions.steps
        self._done_count: int = 0

    def step(self, count: int, now: int) -> bool:
        """Rehearse so many more steps; returns whether there are others."""
        end = min(self._done_count + count, len(self._steps))
        for index in range(self._done_count, end):
            self._trial.rehearse(self._steps[index], now)
        self._done_count = end
        return end < len(self._steps)

    def result(self) -> list[Step]:
        """The steps that are to be applied. Raises `DefinitionsRefused`."""
        assert self._done_count == len(self._steps), "rehearsed to the end"
        self._trial.check_counts()
        if self._trial.mistakes:
            raise DefinitionsRefused(self._trial.mistakes)
        return self._trial.lifted_limits() + self._trial.steps


class _TrialState:
    """Held by `rehearse`."""

    def __init__(self, definitions: Definitions, state: BrokerState) -> None:
        self.mistakes: list[str] = definitions.mistakes[:]
        self.steps: list[Step] = []
        self._warnings: list[str] = definitions.warnings
        self._faulty: set[Identity] = set(definitions.faulty)
        self._state: BrokerState = state
        self._copy: BrokerState = BrokerState(_NoDice())
        if state.shared.is_replicated:
            self._copy.shared.replication = state.shared.replication
        self._copy.shared.keeps_replicas = state.shared.keeps_replicas
        self._limits: dict[str, SetVhostLimits] = {}

    def rehearse(self, step: Step, now: int) -> None:
        if any([needed in self._faulty for needed in _needed(step)]):
            return  # the mistake is reported where that is defined
        try:
            if isinstance(step, VhostStep):
                kept = self._try_in_vhost(step, now)
            else:
                kept = self._try(step, now)
        except Refusal as refusal:
            self.mistakes.append(f"{step.path}{_place(refusal)}: {refusal.text}")
            self._faulty.update(_defined(step))
        else:
            if kept is not None:
                self.steps.append(kept)

    def _try(self, step: BrokerStep, now: int) -> Step | None:
        command = step.command
        if isinstance(command, (SetPermissions, SetTopicPermissions)):
            self._place_vhost(command.vhost, now)
            self._place_user(command.user, now)
        elif isinstance(command, SetUserLimits):
            self._place_user(command.user, now)
        elif isinstance(command, AddVhost) and command.name in self._state.vhosts:
            if command == AddVhost(command.name):
                # It is only named, and what is said about it stays.
                self._place_vhost(command.name, now)
                return None
        self._copy.apply(command, now)
        if isinstance(command, PutUser):
            return BrokerStep(step.path, self._as_known(command))
        return step

    def _as_known(self, command: PutUser) -> PutUser:
        """Where somebody may come from is not in definitions, and keys that belong to the same
        password are not in those of RabbitMQ; both stay what they were.
        """
        known = self._state.users.find(command.name)
        if known is None:
            return command
        scram_keys = command.scram_keys
        if not scram_keys and known.password_hash == command.password_hash:
            scram_keys = known.scram_keys
        return dataclasses.replace(
            command, loopback_only=known.loopback_only, scram_keys=scram_keys
        )

    def _try_in_vhost(self, step: VhostStep, now: int) -> Step | None:
        command = step.command
        self._place_vhost(step.vhost, now)
        vhost = self._copy.vhost(step.vhost)
        if isinstance(command, SetVhostLimits):
            # Not set on the trial state: definitions may hold more queues than the limit they end with.
            self._limits[step.vhost] = command
            return step
        self._place_ends(step, now)
        exists = self._exists(step)
        try:
            vhost.apply(command, now)
        except NotFound as missing:
            # `rabbitmqctl export_definitions` leaves out internal exchanges, but not what is bound
            # to them; RabbitMQ passes over such bindings when it reads its own files.
            self._warnings.append(f"{step.path}: ignored: {missing.text}")
            return None
        except Refusal as refusal:
            if not exists:
                raise
            self._warnings.append(f"{step.path}: already exists and is not changed: {refusal.text}")
        return None if exists or self._is_replica_already(step) else step

    def _exists(self, step: VhostStep) -> bool:
        """Whether the real state has the exchange or queue that is declared."""
        vhost = self._state.vhosts.get(step.vhost)
        if vhost is None:
            return False
        command = step.command
        if isinstance(command, DeclareExchange):
            return command.name in vhost.exchanges
        return isinstance(command, DeclareQueue) and command.name in vhost.queues

    def _is_replica_already(self, step: VhostStep) -> bool:
        """It follows what the step says, or the trial would have refused. What it knows of its source
        is newer than the definitions.
        """
        name = replica_made_by(step.command)
        vhost = self._state.vhosts.get(step.vhost)
        return name != "" and vhost is not None and name in vhost.queues

    # Bringing into the trial state what the real state has.

    def _place_vhost(self, name: str, now: int) -> None:
        if name in self._state.vhosts and name not in self._copy.vhosts:
            real = self._state.vhosts[name]
            command = AddVhost(name, real.description, real.tags, real.default_queue_type)
            self._copy.apply(command, now)

    def _place_user(self, name: str, now: int) -> None:
        user = self._state.users.find(name)
        if user is not None and self._copy.users.find(name) is None:
            self._copy.apply(PutUser(user.name, user.password_hash), now)

    def _place_ends(self, step: VhostStep, now: int) -> None:
        command = step.command
        replica = replica_made_by(command)
        if replica:
            self._place_queue(step.vhost, replica, now)
        if isinstance(command, BindQueue):
            self._place_queue(step.vhost, command.queue, now)
            self._place_exchange(step.vhost, command.exchange, now)
        elif isinstance(command, BindExchange):
            self._place_exchange(step.vhost, command.destination, now)
            self._place_exchange(step.vhost, command.source, now)
        elif isinstance(command, DeclareQueue):
            self._place_queue(step.vhost, command.name, now)
        elif isinstance(command, DeclareExchange):
            self._place_exchange(step.vhost, command.name, now)

    def _place_queue(self, vhost: str, name: str, now: int) -> None:
        real = self._state.vhosts.get(vhost)
        copy = self._copy.vhosts.get(vhost)
        if real is None or copy is None or name in copy.queues or name not in real.queues:
            return
        queue = real.queues[name]
        if queue.following is not None:
            copy.apply(SetParameter(REPLICA_COMPONENT, name, queue.following.value()), now)
        copy.apply(
            DeclareQueue(
                name,
                queue.durable,
                queue.exclusive_owner != NO_CONNECTION,
                queue.auto_delete,
                arguments={**queue.arguments, TYPE_ARGUMENT: queue.queue_type.value},
                connection=queue.exclusive_owner,
                server_named=True,
            ),
            now,
        )

    def _place_exchange(self, vhost: str, name: str, now: int) -> None:
        real = self._state.vhosts.get(vhost)
        copy = self._copy.vhosts.get(vhost)
        if real is None or copy is None or name in copy.exchanges or name not in real.exchanges:
            return
        exchange = real.exchanges[name]
        copy.apply(
            DeclareExchange(
                name,
                exchange.kind,
                exchange.durable,
                exchange.auto_delete,
                exchange.internal,
                arguments=exchange.arguments,
            ),
            now,
        )

    # Limits, which count what is not on trial.

    def check_counts(self) -> None:
        new_vhosts = [name for name in self._copy.vhosts if name not in self._state.vhosts]
        if new_vhosts and len(self._state.vhosts) + len(new_vhosts) > VHOSTS_MAX:
            self.mistakes.append(f"vhosts: limit of {VHOSTS_MAX} vhosts is reached")
        for name, copy in self._copy.vhosts.items():
            real = self._state.vhosts.get(name)
            if real is None or real.max_queues < 0 or name in self._limits:
                continue
            new_queues = [queue for queue in copy.queues if queue not in real.queues]
            if new_queues and len(real.queues) + len(new_queues) > real.max_queues:
                self.mistakes.append(
                    f"queues: queue limit in vhost '{name}' ({real.max_queues}) is reached"
                )

    def lifted_limits(self) -> list[Step]:
        """Where the definitions set limits, the older ones must not refuse their queues."""
        lifted: list[Step] = []
        for name, limits in self._limits.items():
            real = self._state.vhosts.get(name)
            if real is not None and real.max_queues >= 0:
                command = SetVhostLimits(-1, limits.max_connections)
                lifted.append(VhostStep("parameters", name, command))
        return lifted


def _needed(step: Step) -> list[Identity]:
    """What a step refers to, and what it defines itself: a second row cannot correct the first."""
    if isinstance(step, BrokerStep):
        command = step.command
        if isinstance(command, SetUserLimits):
            return [("user", "", command.user)]
        if isinstance(command, (SetPermissions, SetTopicPermissions)):
            return [("user", "", command.user), ("vhost", "", command.vhost)]
        return _defined(step)
    needed: list[Identity] = [("vhost", "", step.vhost), *_defined(step)]
    wanted = step.command
    if isinstance(wanted, BindQueue):
        needed.append(("queue", step.vhost, wanted.queue))
        needed.append(("exchange", step.vhost, wanted.exchange))
    elif isinstance(wanted, BindExchange):
        needed.append(("exchange", step.vhost, wanted.destination))
        needed.append(("exchange", step.vhost, wanted.source))
    return needed


def _defined(step: Step) -> list[Identity]:
    if isinstance(step, VhostStep):
        declared = step.command
        if isinstance(declared, DeclareQueue):
            return [("queue", step.vhost, declared.name)]
        if isinstance(declared, DeclareExchange):
            return [("exchange", step.vhost, declared.name)]
        return []
    command = step.command
    if isinstance(command, AddVhost):
        return [("vhost", "", command.name)]
    if isinstance(command, PutUser):
        return [("user", "", command.name)]
    return []


def _place(refusal: Refusal) -> str:
    """The path inside of a row, as far as the refusal names it."""
    blamed = _BLAMED.search(refusal.text)
    if blamed is None:
        return ""
    name = blamed.group(1) or blamed.group(2)
    return f".{name}" if name in _PROPERTIES else f".arguments.{name}"
