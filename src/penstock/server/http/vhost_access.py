"""Opens a virtual host for a user, on the broker's loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.broker.access.permissions import Access
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node
    from penstock.server.http.login import Caller


def access_of(node: Node, caller: Caller, vhost: str) -> Access | None:
    """What the caller may do there: as its token says, if it has logged in with one, and otherwise as
    its permissions do. A token gives nothing of a user with the same name.
    """
    if caller.grant is not None:
        return caller.grant.access(vhost)
    return node.state.access.find(caller.name, vhost)


def enter(node: Node, caller: Caller, vhost: str) -> tuple[VirtualHost, Access]:
    """Raises a `Refusal` or a `Problem`."""
    entered = node.state.vhost(vhost)
    access = access_of(node, caller, vhost)
    if access is None or not access.is_granted:
        raise Problem(
            403,
            f"access to vhost '{vhost}' refused for user '{caller.name}'",
            "Give the user permissions in this virtual host.",
        )
    return entered, access
