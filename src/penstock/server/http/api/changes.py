"""Changes on behalf of a request: who asks, what they may do, and the commands that do it.

Every change is a command that the node applies with its `Actor`, and is answered when it is durable.
Checks come before the first command of a turn, so that a turn is done as a whole or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock.broker.access.actor import HTTP, Actor
from penstock.broker.access.tags import ADMINISTRATOR_TAG
from penstock.server.http.login import peer_of, port_of
from penstock.server.http.problems import Problem
from penstock.server.http.vhost_access import enter

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.topology import BrokerCommand, CloseConnection, Result, VhostCommand
    from penstock.broker.vhost import VirtualHost
    from penstock.dialects.principal import Principal
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

T = TypeVar("T")


class ChangeTurn:
    """One change, on the broker's loop. Made for a request and used up by it."""

    def __init__(self, node: Node, now: int, actor: Actor, caller: Caller) -> None:
        self.node = node
        self.now = now
        self._actor = actor
        self.caller = caller

    @property
    def user(self) -> str:
        """Who asks."""
        return self._actor.user

    def apply(self, command: BrokerCommand | CloseConnection) -> Result:
        return self.node.apply(command, self.now, self._actor)

    def apply_in(self, vhost: str, command: VhostCommand) -> Result:
        """For what a tag allows; topology takes `declare`."""
        return self.node.apply_to_vhost(vhost, command, self.now, self._actor)

    def declare(self, vhost: str, command: VhostCommand) -> Result:
        """Topology takes the permissions that it takes over AMQP."""
        self.principal(vhost).check(command)
        return self.apply_in(vhost, command)

    def principal(self, vhost: str) -> Principal:
        """The user in a virtual host that it has permissions in. Raises a `Problem`."""
        entered, access = enter(self.node, self.caller, vhost)
        return self.node.container.principal(self.user, entered, access)

    def enter_as_policymaker(self, vhost: str) -> VirtualHost:
        """An administrator may change policies everywhere, others where they have permissions."""
        if ADMINISTRATOR_TAG in self.caller.tags:
            return self.node.state.vhost(vhost)
        return enter(self.node, self.caller, vhost)[0]


async def changed(line: BrokerLine, call: ApiRequest, change: Callable[[ChangeTurn], T]) -> T:
    """What the change returns, once it is durable. It runs on the broker's loop as one step."""
    actor = actor_of(call)
    caller = call.caller
    return await line.change_safely(lambda node, now: change(ChangeTurn(node, now, actor, caller)))


async def changed_here(line: BrokerLine, call: ApiRequest, change: Callable[[ChangeTurn], T]) -> T:
    """The same for what concerns this server alone, whatever its role in a cluster."""
    actor = actor_of(call)
    caller = call.caller
    return await line.change_here(lambda node, now: change(ChangeTurn(node, now, actor, caller)))


def actor_of(call: ApiRequest) -> Actor:
    return Actor(call.caller.name, peer_of(call.request)[0], port_of(call.request), HTTP)


def no_user(name: str) -> Problem:
    return Problem(404, f"no user '{name}'")
