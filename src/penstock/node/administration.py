"""What an operator changes, whoever carries the request: applied, told to connections, written into
the audit log.

A change is journalled where it is applied, as a declare is, and answered by whoever asked for it when
it is durable. What open connections notice of it is RabbitMQ's: with a deleted user or virtual host
its connections are closed; a changed password or permission closes none, and holds from the next
operation on.

In a cluster only the active root changes anything; others refuse it with `NotRoot`. Closing a
connection is nobody else's business.
"""

from penstock.broker.access.actor import Actor
from penstock.broker.command_events import (
    closed_event,
    event_of,
    imported_event,
    is_change,
    vhost_event_of,
)
from penstock.broker.definitions.importing import import_steps
from penstock.broker.definitions.parsing import Step
from penstock.broker.errors import NotFound
from penstock.broker.state import BrokerState
from penstock.broker.topology import (
    DONE,
    BrokerCommand,
    CloseConnection,
    DeleteUser,
    DeleteVhost,
    Result,
    VhostCommand,
)
from penstock.dialects.connection import Connection
from penstock.dialects.container import Container


class Administration:
    """Held by the node."""

    def __init__(self, container: Container, connections: dict[int, Connection]) -> None:
        self._container: Container = container
        self._state: BrokerState = container.state
        self._connections: dict[int, Connection] = connections

    def apply(self, command: BrokerCommand | CloseConnection, now: int, actor: Actor) -> Result:
        if isinstance(command, CloseConnection):
            return self._close(command, now, actor)
        self._container.admission.check_root(now)
        result = self._apply(command, now)
        self._container.events.record(event_of(command, actor))
        return result

    def apply_to_vhost(self, vhost: str, command: VhostCommand, now: int, actor: Actor) -> Result:
        self._container.admission.check_root(now)
        entered = self._state.vhost(vhost)
        changes = is_change(entered, command)
        result = entered.apply(command, now)
        event = vhost_event_of(vhost, command, actor) if changes else None
        if event is not None:
            self._container.events.record(event)
        return result

    def import_steps(self, steps: list[Step], now: int, actor: Actor, origin: str) -> None:
        """Definitions that were rehearsed on this state. They are journalled in one batch, so that
        after a crash all of them are there or none, and the log has one line for all of them.
        """
        self._container.admission.check_root(now)
        import_steps(self._state, steps, now)
        self._forget_targets()
        self._container.events.record(imported_event(origin, len(steps), actor))

    def _forget_targets(self) -> None:
        """Users or permissions have changed: what connections have resolved is resolved again."""
        for principal in self._container.principals.values():
            principal.targets.clear()

    def _apply(self, command: BrokerCommand, now: int) -> Result:
        result = self._state.apply(command, now)
        self._forget_targets()
        if isinstance(command, DeleteVhost):
            for connection in list(self._connections.values()):
                if connection.protocol.vhost_name() == command.name:
                    connection.stop(f"vhost '{command.name}' is deleted", now)
        elif isinstance(command, DeleteUser):
            for connection in list(self._connections.values()):
                if connection.protocol.user_name() == command.name:
                    connection.stop(f"user '{command.name}' is deleted", now)
        return result

    def _close(self, command: CloseConnection, now: int, actor: Actor) -> Result:
        connection = self._connections.get(command.number)
        if connection is None:
            raise NotFound(f"no connection {command.number}")
        event = closed_event(
            command,
            connection.protocol.user_name(),
            connection.protocol.vhost_name(),
            actor,
        )
        connection.stop(command.reason, now)
        self._container.events.record(event)
        return DONE
