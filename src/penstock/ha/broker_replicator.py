"""Applies the definitions of the root on a backup: one by one as they change there, or all anew by a SYNC.

Every queue that it makes gets a `QueueReplicator` from the replica's queues, and every queue that it deletes
loses it. What the root did was not refused there, and was tried here (`trial_definitions`), so it must not be
refused now.
"""

from penstock.broker.definition_log import DefinitionLog
from penstock.broker.errors import Refusal
from penstock.broker.move_table import MoveState
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.state import BrokerState
from penstock.broker.store.definition_records import Change
from penstock.broker.streams.stream import as_stream
from penstock.broker.topology import (
    BrokerCommand,
    DeclareQueue,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    OpenDelayLine,
)
from penstock.ha.replica_queues import ReplicaQueues


class UnheardDefinitions(DefinitionLog):
    """Of a backup, whose changes are in its journal already. Like that of its root it is interested
    in transient objects, too: a snapshot of a backup has what one of its root has.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hears_transient = True


class BrokerReplicator:
    """Held by the replica store."""

    def __init__(self, state: BrokerState, queues: ReplicaQueues) -> None:
        self._state: BrokerState = state
        self._queues: ReplicaQueues = queues
        # Not while everything is made anew: what a stream has is known later.
        self.opens_streams: bool = False

    def change(self, change: Change, now: int) -> None:
        """Do what the root did, which was tried before."""
        try:
            self._change(change, now)
        except Refusal as refusal:
            name = type(change.command).__name__
            raise AssertionError(
                f"a backup refuses {name}, which its root has accepted: {refusal}"
            ) from refusal

    def _change(self, change: Change, now: int) -> None:
        command = change.command
        if change.vhost is None:
            assert isinstance(command, BrokerCommand)
            if isinstance(command, DeleteVhost):
                self._forget_vhost(command.name)
            self._state.apply(command, now)
            return
        assert not isinstance(command, BrokerCommand)
        host = self._state.vhosts.get(change.vhost)
        if host is None:
            # Its virtual host was deleted in the same batch.
            return
        if isinstance(command, OpenDelayLine):
            self._queues.add_line(change.queue_number, host.delay_line)
            return
        if isinstance(command, DeleteQueue):
            known = host.queues.get(command.name)
            if known is not None:
                self._queues.forget(known.number)
        host.apply(command, now)
        if isinstance(command, DeclareQueue) and change.queue_number:
            self._declared(change.queue_number, host.queues[command.name], now)

    def _declared(self, number: int, queue: MessageQueue, now: int) -> None:
        stream = as_stream(queue)
        if stream is None:
            self._queues.add_queue(number, queue)
            return
        stream.number = number
        if self.opens_streams:
            stream.open([], now)

    def _forget_vhost(self, name: str) -> None:
        host = self._state.vhosts[name]
        for queue in host.queues.values():
            self._queues.forget(queue.number)
        self._queues.forget(host.delay_line.number)

    def drop(self, reason: str, now: int) -> None:
        """Drop everything that is defined; nobody hears of it. Messages are the caller's: what is
        still in a queue is dropped, and not counted off.
        """
        state = self._state
        assert not state.decides, "otherwise what is dropped has consequences"
        for host in list(state.vhosts.values()):
            for move in host.move_table.moves.values():
                move.end(MoveState.STOPPED, reason)
            for queue in host.queues.values():
                # Nobody hears that it was purged: it was not.
                if state.shared.watcher is not None:
                    state.shared.watcher.forget(queue)
                queue.observers.clear()
                queue.journal = None
                stream = as_stream(queue)
                if stream is not None:
                    stream.let_go()
            host.delay_line.journal = None
            state.apply(DeleteVhost(host.name), now)
        for user in state.users.listed():
            state.apply(DeleteUser(user.name), now)
        state.global_parameters.clear()
