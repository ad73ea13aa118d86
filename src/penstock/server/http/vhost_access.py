"""Opens a virtual host for a user, on the broker's loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.broker.access.permissions import Access
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node


def enter(node: Node, user: str, vhost: str) -> tuple[VirtualHost, Access]:
    """Raises a `Refusal` or a `Problem`."""
    entered = node.state.vhost(vhost)
    access = node.state.access.find(user, vhost)
    if access is None or not access.is_granted:
        raise Problem(
            403,
            f"access to vhost '{vhost}' refused for user '{user}'",
            "Give the user permissions in this virtual host.",
        )
    return entered, access
