"""The definitions file of a server in a cluster: imported by the first root, once.

A single server imports its file at every start. In a cluster definitions are the root's, and what
the operators have changed since must stay; so the file counts only while nothing but the defaults is
defined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.broker.access.actor import STARTUP, Actor
from penstock.broker.definitions.parsing import DefinitionsRefused
from penstock.broker.names import RESERVED_PREFIX
from penstock.node.joining import ActiveRootListener
from penstock.server.definition_files import import_into, prepare, read_file

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.broker.state import BrokerState
    from penstock.node.node import Node

log = structlog.get_logger()


class FirstDefinitions(ActiveRootListener):
    """Held by the node of a member whose configuration names a file."""

    def __init__(self, path: Path, makes_scram_keys: bool) -> None:
        """Raises `DefinitionsRefused` for a file that is wrong in itself."""
        self._path = path
        self._prepared = prepare(read_file(path), None, makes_scram_keys)
        # Set by whoever makes the node.
        self.node: Node | None = None

    def became_active(self, now: int) -> None:
        node = self.node
        assert node is not None, "set before the first tick"
        if not has_only_defaults(node.state):
            return
        actor = Actor(door=STARTUP)
        try:
            warnings = import_into(node, self._prepared, now, actor, str(self._path))
        except DefinitionsRefused as error:
            log.error("definitions refused", file=str(self._path), reason=str(error))
            return
        for warning in warnings:
            log.warning("definitions", file=str(self._path), note=warning)


def has_only_defaults(state: BrokerState) -> bool:
    """Whether nothing was defined since the first root began."""
    if len(state.vhosts) != 1 or len(state.users.listed()) != 1 or state.global_parameters:
        return False
    vhost = next(iter(state.vhosts.values()))
    # The default exchange has no name.
    has_own = any(name and not name.startswith(RESERVED_PREFIX) for name in vhost.exchanges)
    policies = [*vhost.policies.listed(), *vhost.operator_policies.listed()]
    return not (vhost.queues or has_own or policies or vhost.parameters)
