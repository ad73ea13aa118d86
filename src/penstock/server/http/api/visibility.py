"""Who sees what, as in RabbitMQ: whoever has the tag `monitoring` or `administrator` sees everything,
everybody else the virtual hosts in which it has permissions, and there its own connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.internal_queues import is_internal
from penstock.server.http.login import WATCHERS
from penstock.server.http.problems import Problem
from penstock.server.http.vhost_access import access_of

if TYPE_CHECKING:
    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node
    from penstock.server.http.login import Caller


def sees_everything(caller: Caller) -> bool:
    return not WATCHERS.isdisjoint(caller.tags)


def sees_vhost(node: Node, caller: Caller, vhost: str) -> bool:
    if sees_everything(caller):
        return True
    access = access_of(node, caller, vhost)
    return access is not None and access.is_granted


def sees_connection(caller: Caller, user: str) -> bool:
    return sees_everything(caller) or user == caller.name


def visible_vhosts(node: Node, caller: Caller, name: str = "") -> list[VirtualHost]:
    """All that the caller sees, or the one that it has named. Raises a `Problem`."""
    if name:
        return [visible_vhost(node, caller, name)]
    return [
        vhost for vhost in list(node.state.vhosts.values()) if sees_vhost(node, caller, vhost.name)
    ]


def visible_vhost(node: Node, caller: Caller, name: str) -> VirtualHost:
    vhost = node.state.vhosts.get(name)
    if vhost is None:
        raise not_found("virtual host", name)
    if not sees_vhost(node, caller, name):
        raise Problem(
            403,
            f"access to vhost '{name}' refused for user '{caller.name}'",
            "Give the user permissions in this virtual host, or the tag monitoring.",
        )
    return vhost


def is_listed(queue: MessageQueue) -> bool:
    """Not those that the broker has declared for itself."""
    return not queue.is_deleted and not is_internal(queue.name, queue.arguments)


def not_found(kind: str, name: str) -> Problem:
    return Problem(404, f"there is no {kind} '{name}'")
