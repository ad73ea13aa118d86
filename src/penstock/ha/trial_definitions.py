"""Tries definitions on a state that is thrown away, before the journal has them.

What the root did was not refused there, so it is not refused here, as long as both are right. If they are
not, because the definitions were damaged or one of both has a defect, they must be refused before they are in
the journal: a backup that had them there could not start any more. `BrokerReplicator` asserts that nothing is
refused after this.

The definitions of a SYNC make a whole state from an empty one. Those of an operation are tried on a copy of
what they touch (`TouchedDefinitions`), which costs no more the more there is defined; an operation without
definitions costs nothing.
"""

from typing import Final

from penstock.broker.arguments import STREAM, settings_of
from penstock.broker.parameters import known_form
from penstock.broker.sink_table import SinkTable
from penstock.broker.state import VHOSTS_MAX, BrokerState
from penstock.broker.store.definition_records import Change
from penstock.broker.streams.opening import StreamMaker
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.streams.stream_values import StreamValues
from penstock.broker.topology import (
    AdvanceSink,
    BrokerCommand,
    ChangeStream,
    ClearOperatorPolicy,
    ClearParameter,
    ClearPolicy,
    CommitSink,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteVhost,
    NoteConsumer,
    NoteReturns,
    NumberFrom,
    OpenDelayLine,
    OpenSink,
    SetOperatorPolicy,
    SetParameter,
    SetPolicy,
    SetVhostLimits,
    VhostCommand,
)
from penstock.broker.vhost import VirtualHost
from penstock.ha.replica_operation import UNUSABLE, BadOperation
from penstock.ha.replica_queues import ReplicaLists
from penstock.ha.touched_definitions import TouchedDefinitions
from penstock.world.entropy import Entropy

# What clients cause all the time: notes of a queue, and the progress of streams and sinks.
_NOTES: Final = (NoteConsumer, NoteReturns, ChangeStream, OpenSink, AdvanceSink, CommitSink)
# These change the settings of every queue of their virtual host.
_POLICIES: Final = (SetPolicy, ClearPolicy, SetOperatorPolicy, ClearOperatorPolicy)


class NoEntropy(Entropy):
    """Nobody logs in on a trial."""

    def octets(self, count: int) -> bytes:
        return bytes(count)


def try_definitions(changes: list[Change], state: BrokerState, now: int) -> None:
    """Of a SYNC: raises `BadOperation`, unless the changes make a whole state from an empty one. The
    state that is given is that of this server, and is left as it is.
    """
    nothing: dict[str, int] = {}
    DefinitionTrial("a SYNC", _empty(state), {}, nothing, 0).try_all(changes, now)


def try_operation(changes: list[Change], state: BrokerState, now: int) -> None:
    """Of an operation: raises `BadOperation`, unless the changes can be applied to the state of this
    server, which is left as it is.
    """
    if _are_notes(changes, state):
        return
    made = _empty(state)
    touched = TouchedDefinitions(changes, state)
    touched.copy(made, now)
    vhost_count = len(state.vhosts) - len(made.vhosts)
    trial = DefinitionTrial(
        "an operation", made, dict(state.vhosts), touched.hidden_queues, vhost_count
    )
    trial.try_all(changes, now)


def _are_notes(changes: list[Change], state: BrokerState) -> bool:
    """Whether these are notes alone, of what is there: they need no copy."""
    for change in changes:
        command = change.command
        host = state.vhosts.get(change.vhost or "")
        if host is None or change.queue_number or not isinstance(command, _NOTES):
            return False
        if isinstance(command, (NoteConsumer, NoteReturns)):
            if command.queue not in host.queues:
                return False
        elif not _is_progress(command):
            return False
    return True


def _is_progress(command: ChangeStream | OpenSink | AdvanceSink | CommitSink) -> bool:
    try:
        if isinstance(command, ChangeStream):
            StreamValues().apply(command)
        else:
            SinkTable().change(command)
    except UNUSABLE:
        return False
    return True


def _empty(state: BrokerState) -> BrokerState:
    """Whose objects are made as those of a backup are."""
    trial = BrokerState(NoEntropy())
    trial.decides = False
    shared = trial.shared
    shared.replication = state.shared.replication
    shared.keeps_replicas = state.shared.keeps_replicas
    shared.ready_lists = ReplicaLists()
    replicated = ReplicatedStreams(shared.streams)
    shared.kinds.add(STREAM, StreamMaker(shared.streams, shared.wall, replicated))
    return trial


class DefinitionTrial:
    """Made for one operation, or for one SYNC."""

    def __init__(
        self,
        what: str,
        trial: BrokerState,
        hosts: dict[str, VirtualHost],
        hidden_queues: dict[str, int],
        hidden_vhosts: int,
    ) -> None:
        """`hosts` are those of the state that is tried for, of which the trial may be a part; `hidden`
        is what the trial has not: queues by virtual host, and virtual hosts.
        """
        self._what: str = f"the definitions of {what}"
        self._trial: BrokerState = trial
        self._hosts: dict[str, VirtualHost] = hosts
        self._hidden_queues: dict[str, int] = hidden_queues
        self._hidden_vhosts: int = hidden_vhosts
        self._numbers: set[int] = set()

    def try_all(self, changes: list[Change], now: int) -> None:
        """Raises `BadOperation`."""
        for change in changes:
            number = change.queue_number
            if number and number in self._numbers:
                raise BadOperation(f"{self._what} have two queues with number {number}")
            self._numbers.add(number)
            try:
                _check_recorded(change.command)
                self._try(change, now)
            except UNUSABLE as error:
                name = type(change.command).__name__
                raise BadOperation(
                    f"{name} in {self._what} cannot be applied: {error!r}"
                ) from error

    def _try(self, change: Change, now: int) -> None:
        command = change.command
        if change.vhost is None:
            assert isinstance(command, BrokerCommand), "a command of a virtual host names one"
            _check(not change.queue_number, "only queues and delay lines have numbers")
            self._try_broker(command, now)
            return
        assert not isinstance(command, BrokerCommand), "a command of the broker names no vhost"
        host = self._trial.vhosts.get(change.vhost)
        if host is None:
            # It was deleted in the same operation.
            return
        if isinstance(command, OpenDelayLine):
            is_first = not host.delay_line.number
            _check(is_first and change.queue_number > 0, "a delay line is opened once")
            host.delay_line.number = change.queue_number
        elif isinstance(command, DeclareQueue):
            _declare(host, command, change.queue_number, now)
        else:
            _check(not change.queue_number, "only queues and delay lines have numbers")
            host.apply(command, now)
            self._look_at_hidden(host, command)

    def _try_broker(self, command: BrokerCommand, now: int) -> None:
        self._trial.apply(command, now)
        count = len(self._trial.vhosts) + self._hidden_vhosts
        _check(count <= VHOSTS_MAX, f"limit of {VHOSTS_MAX} vhosts is reached")
        if isinstance(command, DeleteVhost):
            self._hidden_queues.pop(command.name, None)
            self._hosts.pop(command.name, None)

    def _look_at_hidden(self, host: VirtualHost, command: VhostCommand) -> None:
        """What a change means to queues that the trial has not."""
        if isinstance(command, SetVhostLimits) and host.max_queues >= 0:
            hidden = self._hidden_queues.get(host.name, 0)
            host.max_queues = max(host.max_queues - hidden, 0)
        if isinstance(command, _POLICIES) and host.name in self._hosts:
            types = host.shared.kinds.types
            for queue in self._hosts[host.name].queues.values():
                policy = host.effective.of_queue(queue.name, queue.arguments, queue.queue_type)
                settings_of(queue.arguments, policy, types)


def _check_recorded(command: VhostCommand | BrokerCommand) -> None:
    """What a root records has been decided. Conditions are not recorded: here they could have another
    outcome. Nor is a parameter that stands for another command, or an epoch of a server on its own.
    """
    is_decided = True
    if isinstance(command, DeclareQueue):
        is_decided = not command.passive and not command.exclusive
    elif isinstance(command, DeclareExchange):
        is_decided = not command.passive
    elif isinstance(command, DeleteQueue):
        is_decided = not command.if_unused and not command.if_empty
    elif isinstance(command, DeleteExchange):
        is_decided = not command.if_unused
    elif isinstance(command, (SetParameter, ClearParameter)):
        is_decided = known_form(command) is command
    elif isinstance(command, NumberFrom):
        is_decided = False
    _check(is_decided, "the root of a cluster does not record this")


def _check(is_so: bool, reason: str) -> None:
    if not is_so:
        raise ValueError(reason)


def _declare(host: VirtualHost, command: DeclareQueue, number: int, now: int) -> None:
    is_new = command.name not in host.queues
    _check(is_new or not number, "a queue that is there has its number")
    host.apply(command, now)
    if is_new:
        is_lasting = host.queues[command.name].is_lasting
        _check(is_lasting == (number > 0), "queues that last, and no others, have numbers")
