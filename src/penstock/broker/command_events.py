"""Administration as events: what a command of an operator changed, without its secrets."""

from penstock.broker.events import Event, EventKind, Party, Severity
from penstock.broker.topology import (
    AddVhost,
    BrokerCommand,
    ClearPermissions,
    ClearPolicy,
    DeleteUser,
    DeleteVhost,
    PutUser,
    SetPermissions,
    SetPolicy,
    SetVhostLimits,
    VhostCommand,
)


def event_of(command: BrokerCommand) -> Event:
    """Never of the hash of a password."""
    if isinstance(command, AddVhost):
        return _event(EventKind.VHOST_ADDED, "", command.name, {})
    if isinstance(command, DeleteVhost):
        return _event(EventKind.VHOST_DELETED, "", command.name, {})
    if isinstance(command, PutUser):
        facts: dict[str, object] = {"tags": " ".join(command.tags)}
        return _event(EventKind.USER_SET, command.name, "", facts)
    if isinstance(command, DeleteUser):
        return _event(EventKind.USER_DELETED, command.name, "", {})
    if isinstance(command, SetPermissions):
        patterns: dict[str, object] = {
            "configure": command.configure,
            "write": command.write,
            "read": command.read,
        }
        return _event(EventKind.PERMISSIONS_SET, command.user, command.vhost, patterns)
    assert isinstance(command, ClearPermissions), "every other command was asked for above"
    return _event(EventKind.PERMISSIONS_CLEARED, command.user, command.vhost, {})


def vhost_event_of(vhost: str, command: VhostCommand) -> Event | None:
    """None for topology, which clients change all the time."""
    if isinstance(command, SetPolicy):
        facts: dict[str, object] = {
            "policy": command.name,
            "pattern": command.pattern,
            "apply_to": command.apply_to,
            "priority": command.priority,
            "keys": " ".join(sorted(command.definition)),
        }
        return _event(EventKind.POLICY_SET, "", vhost, facts)
    if isinstance(command, ClearPolicy):
        return _event(EventKind.POLICY_CLEARED, "", vhost, {"policy": command.name})
    if isinstance(command, SetVhostLimits):
        limits: dict[str, object] = {
            "max_queues": command.max_queues,
            "max_connections": command.max_connections,
        }
        return _event(EventKind.LIMITS_SET, "", vhost, limits)
    return None


def _event(kind: EventKind, user: str, vhost: str, facts: dict[str, object]) -> Event:
    return Event(kind, Severity.INFO, Party(user=user, vhost=vhost), "", facts)
