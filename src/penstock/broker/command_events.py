"""Administration as events: what a command changed, who asked for it and from where.

No event holds a secret: neither the hash of a password, nor keys, nor the value of a parameter, which
may be an address with a password in it.
"""

from penstock.broker.access.actor import AMQP10_MANAGEMENT, HTTP, Actor
from penstock.broker.events import Event, EventKind, Party, Severity
from penstock.broker.topology import (
    AddVhost,
    BindExchange,
    BindQueue,
    BrokerCommand,
    ChangeQueueArguments,
    ClearGlobalParameter,
    ClearOperatorPolicy,
    ClearParameter,
    ClearPermissions,
    ClearPolicy,
    ClearTopicPermissions,
    CloseConnection,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    NumberFrom,
    PutUser,
    SetGlobalParameter,
    SetOperatorPolicy,
    SetParameter,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetUserLimits,
    SetVhostLimits,
    UnbindExchange,
    UnbindQueue,
    VhostCommand,
)
from penstock.broker.vhost import VirtualHost

_Facts = dict[str, object]


def event_of(command: BrokerCommand, actor: Actor) -> Event:
    if isinstance(command, AddVhost):
        about: _Facts = {
            "description": command.description,
            "tags": " ".join(command.tags),
            "default_queue_type": command.default_queue_type,
        }
        return _event(EventKind.VHOST_ADDED, "", command.name, about, actor)
    if isinstance(command, DeleteVhost):
        return _event(EventKind.VHOST_DELETED, "", command.name, {}, actor)
    if isinstance(command, (SetGlobalParameter, ClearGlobalParameter)):
        is_set = isinstance(command, SetGlobalParameter)
        kind = EventKind.GLOBAL_PARAMETER_SET if is_set else EventKind.GLOBAL_PARAMETER_CLEARED
        return _event(kind, "", "", {"parameter": command.name}, actor)
    assert not isinstance(command, NumberFrom), "nobody asks for it: the broker decides that itself"
    return _user_event(command, actor)


def _user_event(
    command: PutUser
    | DeleteUser
    | SetPermissions
    | ClearPermissions
    | SetTopicPermissions
    | ClearTopicPermissions
    | SetUserLimits,
    actor: Actor,
) -> Event:
    if isinstance(command, PutUser):
        facts: _Facts = {"tags": " ".join(command.tags)}
        return _event(EventKind.USER_SET, command.name, "", facts, actor)
    if isinstance(command, DeleteUser):
        return _event(EventKind.USER_DELETED, command.name, "", {}, actor)
    if isinstance(command, SetUserLimits):
        limits: _Facts = {
            "max_connections": command.max_connections,
            "max_channels": command.max_channels,
        }
        return _event(EventKind.USER_LIMITS_SET, command.user, "", limits, actor)
    user, vhost = command.user, command.vhost
    if isinstance(command, SetPermissions):
        patterns: _Facts = {
            "configure": command.configure,
            "write": command.write,
            "read": command.read,
        }
        return _event(EventKind.PERMISSIONS_SET, user, vhost, patterns, actor)
    if isinstance(command, SetTopicPermissions):
        topics: _Facts = {
            "exchange": command.exchange,
            "write": command.write,
            "read": command.read,
        }
        return _event(EventKind.TOPIC_PERMISSIONS_SET, user, vhost, topics, actor)
    if isinstance(command, ClearTopicPermissions):
        exchange: _Facts = {"exchange": command.exchange}
        return _event(EventKind.TOPIC_PERMISSIONS_CLEARED, user, vhost, exchange, actor)
    return _event(EventKind.PERMISSIONS_CLEARED, user, vhost, {}, actor)


def vhost_event_of(vhost: str, command: VhostCommand, actor: Actor) -> Event | None:
    """None for topology, which clients change all the time, unless it is changed as administration."""
    if isinstance(command, (SetPolicy, SetOperatorPolicy)):
        facts: _Facts = {
            "policy": command.name,
            "pattern": command.pattern,
            "apply_to": command.apply_to,
            "priority": command.priority,
            "keys": " ".join(sorted(command.definition)),
        }
        is_policy = isinstance(command, SetPolicy)
        kind = EventKind.POLICY_SET if is_policy else EventKind.OPERATOR_POLICY_SET
        return _event(kind, "", vhost, facts, actor)
    if isinstance(command, (ClearPolicy, ClearOperatorPolicy)):
        is_policy = isinstance(command, ClearPolicy)
        kind = EventKind.POLICY_CLEARED if is_policy else EventKind.OPERATOR_POLICY_CLEARED
        return _event(kind, "", vhost, {"policy": command.name}, actor)
    if isinstance(command, ChangeQueueArguments):
        changed: _Facts = {
            "queue": command.name,
            "arguments": " ".join(sorted(command.arguments)),
        }
        return _event(EventKind.ARGUMENTS_CHANGED, "", vhost, changed, actor)
    if isinstance(command, SetVhostLimits):
        limits: _Facts = {
            "max_queues": command.max_queues,
            "max_connections": command.max_connections,
        }
        return _event(EventKind.LIMITS_SET, "", vhost, limits, actor)
    if isinstance(command, (SetParameter, ClearParameter)):
        is_set = isinstance(command, SetParameter)
        kind = EventKind.PARAMETER_SET if is_set else EventKind.PARAMETER_CLEARED
        name: _Facts = {"component": command.component, "parameter": command.name}
        return _event(kind, "", vhost, name, actor)
    if actor.door in {HTTP, AMQP10_MANAGEMENT}:
        return _topology_event(vhost, command, actor)
    return None


def is_change(vhost: VirtualHost, command: VhostCommand) -> bool:
    """Asked before the command is applied: whether a declaration makes something, and a deletion
    takes something away.
    """
    if isinstance(command, DeclareQueue):
        return command.name not in vhost.queues
    if isinstance(command, DeclareExchange):
        return command.name not in vhost.exchanges
    if isinstance(command, DeleteQueue):
        return command.name in vhost.queues
    if isinstance(command, DeleteExchange):
        return command.name in vhost.exchanges
    return True


def _topology_event(vhost: str, command: VhostCommand, actor: Actor) -> Event:
    facts: _Facts = {"change": type(command).__name__}
    if isinstance(command, (BindQueue, UnbindQueue)):
        facts.update(
            {"queue": command.queue, "exchange": command.exchange, "key": command.routing_key}
        )
    elif isinstance(command, (BindExchange, UnbindExchange)):
        facts.update(
            {
                "destination": command.destination,
                "exchange": command.source,
                "key": command.routing_key,
            }
        )
    else:
        facts["name"] = getattr(command, "name", "")
    return _event(EventKind.TOPOLOGY_CHANGED, "", vhost, facts, actor)


def imported_event(origin: str, count: int, actor: Actor) -> Event:
    """One line for all of a file."""
    facts: _Facts = {"file": origin, "definitions": count}
    return _event(EventKind.DEFINITIONS_IMPORTED, "", "", facts, actor)


def move_event(vhost: str, facts: dict[str, object], actor: Actor) -> Event:
    """Not of its selector, which may name what is in the messages."""
    return _event(EventKind.MOVE_BEGUN, "", vhost, facts, actor)


def move_cancelled_event(vhost: str, facts: dict[str, object], actor: Actor) -> Event:
    return _event(EventKind.MOVE_CANCELLED, "", vhost, facts, actor)


def closed_event(command: CloseConnection, user: str, vhost: str, actor: Actor) -> Event:
    facts: _Facts = {"closed": command.number, "close_reason": command.reason}
    return _event(EventKind.CONNECTION_CLOSE_REQUESTED, user, vhost, facts, actor)


def _event(kind: EventKind, user: str, vhost: str, facts: _Facts, actor: Actor) -> Event:
    """`user` is whom the change is about; who asked for it is told as `by`."""
    party = Party(peer_host=actor.peer_host, peer_port=actor.peer_port, user=user, vhost=vhost)
    told = {**facts, "by": actor.user, "door": actor.door}
    # Topology that clients change at a door of their own is told as often as other things they do.
    is_audit = actor.door != AMQP10_MANAGEMENT
    return Event(kind, Severity.INFO, party, "", told, is_audit)
