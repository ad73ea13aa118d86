"""Somebody who sets and clears users, permissions, limits, policies and parameters all the time, and
remembers the answers.

What was answered holds across every crash. A change whose answer was lost has happened entirely or
not at all, and so has a list of changes that was asked for as one.
"""

from collections.abc import Callable
from typing import Final

from penstock.broker.access.actor import HTTP, Actor
from penstock.broker.state import BrokerState
from penstock.broker.topology import (
    AddVhost,
    BrokerCommand,
    ClearGlobalParameter,
    ClearOperatorPolicy,
    ClearParameter,
    ClearPermissions,
    ClearTopicPermissions,
    DeleteUser,
    DeleteVhost,
    PutUser,
    SetGlobalParameter,
    SetOperatorPolicy,
    SetParameter,
    SetPermissions,
    SetTopicPermissions,
    SetUserLimits,
    SetVhostLimits,
    VhostCommand,
)
from penstock.broker.vhost import VirtualHost
from penstock.node.node import Node
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.job import Job
from penstock.simulation.ledger import Ledger, PromiseKeeper
from penstock.simulation.workplace import Workplace

EXCHANGES: Final = ("amq.topic", "later.topic")
QUEUE_TYPES: Final = ("", "classic", "quorum", "stream")
TAGS: Final[tuple[tuple[str, ...], ...]] = ((), ("management",), ("administrator", "own"))
COMPONENT: Final = "federation-upstream"
LIST_COUNT_MAX: Final = 5
CLEAR_CHANCE: Final = 0.3
DELETE_CHANCE: Final = 0.15
LOOK_CHANCE: Final = 0.2

Thing = tuple[str, ...]
# What is said about a thing; None when nothing is.
Said = object
Command = BrokerCommand | VhostCommand

# 32 zero octets in base64.
_KEY: Final = "A" * 43 + "="


class Administrator(Job, PromiseKeeper):
    """Held by the run. Its user, its virtual host and its parameter have names of their own."""

    def __init__(
        self, name: str, clock: VirtualClock, dice: Dice, ledger: Ledger, place: Workplace
    ) -> None:
        super().__init__(name, clock, dice, ledger, place)
        self._actor = Actor(name, "administrator", 1, HTTP)
        # How things may be: as they were when the last answer came, and as each change since then
        # that was not answered made them.
        self._possible: list[dict[Thing, Said]] = []
        self._makers: list[tuple[Callable[[BrokerState], Command | None], int]] = [
            (self._user, 3),
            (self._vhost, 3),
            (self._user_limits, 3),
            (self._permissions, 3),
            (self._topic_permissions, 5),
            (self._global_parameter, 3),
            (self._operator_policy, 3),
            (self._parameter, 3),
            (self._vhost_limits, 2),
        ]
        ledger.promise_keepers.append(self)

    def turn(self, vhost: VirtualHost, now: int) -> None:
        del vhost
        state = self.node.state
        if self.dice.chance(LOOK_CHANCE):
            found = self._seen(state)
            if self._possible and found != self._possible[-1]:
                self._complain(found)
        if self.is_calm:
            return
        if not self._possible:
            self._possible.append(self._seen(state))
        asked: list[str] = []
        # Sometimes a list, as definitions are: what a tick changes is journalled as a whole.
        for _ in range(self.dice.between(1, LIST_COUNT_MAX) if self.dice.chance(0.3) else 1):
            command = self.dice.weighted(self._makers)(state)
            if command is not None:
                self._apply(command, now)
                asked.append(type(command).__name__)
        if not asked:
            return
        self._possible.append(self._seen(state))
        self.history.add(f"{self.name} asks for {' '.join(asked)}")
        self.when_safe(self._heard)

    def _apply(self, command: Command, now: int) -> None:
        if isinstance(command, BrokerCommand):
            self.node.apply(command, now, self._actor)
        else:
            self.node.apply_to_vhost(self._own("vhost"), command, now, self._actor)

    def _heard(self) -> None:
        self._possible = self._possible[-1:]

    def answer_lost(self) -> None:
        """It has happened or not. Where it has, a power loss may still undo it."""
        found = self._seen(self.node.state)
        if found in self._possible:
            self._possible = self._possible[: self._possible.index(found) + 1]
        else:
            self._complain(found)
        self.history.sighted("an administrator does not know what became of a change")

    def _complain(self, found: dict[Thing, Said]) -> None:
        for complaint in self._differences(found):
            self.ledger.violated(complaint)

    def _own(self, name: str) -> str:
        return f"{self.name}.{name}"

    # What it asks for; None when there is nothing to say it about.

    def _user(self, state: BrokerState) -> Command | None:
        name = self._own("user")
        if state.users.find(name) is not None and self.dice.chance(DELETE_CHANCE):
            return DeleteUser(name)
        keys = f"SCRAM-SHA-256${4096 + self.dice.between(0, 9)}:c2FsdA==${_KEY}:{_KEY}"
        return PutUser(name, "", self.dice.choose(list(TAGS)), False, keys)

    def _vhost(self, state: BrokerState) -> Command | None:
        name = self._own("vhost")
        if name in state.vhosts and self.dice.chance(DELETE_CHANCE):
            return DeleteVhost(name)
        queue_type = self.dice.choose(list(QUEUE_TYPES))
        return AddVhost(name, f"number {self.dice.between(0, 9)}", ("simulated",), queue_type)

    def _user_limits(self, state: BrokerState) -> Command | None:
        if state.users.find(self._own("user")) is None:
            return None
        return SetUserLimits(self._own("user"), self.dice.between(-1, 5), self.dice.between(-1, 5))

    def _permissions(self, state: BrokerState) -> Command | None:
        user, vhost = self._own("user"), self._own("vhost")
        if state.users.find(user) is None or vhost not in state.vhosts:
            return None
        if self.dice.chance(CLEAR_CHANCE):
            return ClearPermissions(user, vhost)
        return SetPermissions(user, vhost, self._pattern(), self._pattern(), self._pattern())

    def _topic_permissions(self, state: BrokerState) -> Command | None:
        user, vhost = self._own("user"), self._own("vhost")
        if state.users.find(user) is None or vhost not in state.vhosts:
            return None
        exchange = self.dice.choose(list(EXCHANGES))
        if self.dice.chance(CLEAR_CHANCE):
            return ClearTopicPermissions(user, vhost, "" if self.dice.chance(0.3) else exchange)
        return SetTopicPermissions(user, vhost, exchange, self._pattern(), self._pattern())

    def _global_parameter(self, state: BrokerState) -> Command | None:
        name = self._own("parameter")
        if name in state.global_parameters and self.dice.chance(CLEAR_CHANCE):
            return ClearGlobalParameter(name)
        return SetGlobalParameter(name, {"number": [self.dice.between(0, 99)]})

    def _operator_policy(self, state: BrokerState) -> Command | None:
        vhost = state.vhosts.get(self._own("vhost"))
        if vhost is None:
            return None
        if vhost.operator_policies.listed() and self.dice.chance(CLEAR_CHANCE):
            return ClearOperatorPolicy("limit")
        return SetOperatorPolicy("limit", self._pattern(), {"max-length": self.dice.between(1, 9)})

    def _parameter(self, state: BrokerState) -> Command | None:
        vhost = state.vhosts.get(self._own("vhost"))
        if vhost is None:
            return None
        if vhost.parameters and self.dice.chance(CLEAR_CHANCE):
            return ClearParameter(COMPONENT, "far")
        return SetParameter(COMPONENT, "far", {"uri": self._pattern()})

    def _vhost_limits(self, state: BrokerState) -> Command | None:
        if self._own("vhost") not in state.vhosts:
            return None
        return SetVhostLimits(self.dice.between(-1, 5), self.dice.between(-1, 5))

    def _pattern(self) -> str:
        return self.dice.choose(["", ".*", "^{username}", f"^q{self.dice.between(0, 9)}"])

    # What must hold.

    def broken(self, node: Node) -> list[str]:
        found = self._seen(node.state)
        return self._differences(found) if self._possible and found not in self._possible else []

    def _differences(self, found: dict[Thing, Said]) -> list[str]:
        if len(self._possible) > 1:
            return [
                (
                    f"{self.name} asked for changes that happened in part: {found} is none of "
                    f"{self._possible}"
                )
            ]
        return [
            f"{self.name} was told that {thing} is {said}, but it is {found.get(thing)}"
            for thing, said in self._possible[0].items()
            if found.get(thing) != said
        ] or [f"{self.name} cleared what is back: {found}"]

    def _seen(self, state: BrokerState) -> dict[Thing, Said]:
        """Everything that it has a word in, as the state has it."""
        name, place = self._own("user"), self._own("vhost")
        user = state.users.find(name)
        access = state.access.find(name, place)
        limits = state.user_limits.of(name)
        seen: dict[Thing, Said] = {
            ("user",): None if user is None else (user.tags, user.scram_keys),
            ("user limits",): (limits.max_connections, limits.max_channels),
            ("permissions",): (
                None if access is None else (access.configure, access.write, access.read)
            ),
            ("global parameter",): state.global_parameters.get(self._own("parameter")),
        }
        for exchange in EXCHANGES:
            topic = state.topic_access.find(name, place, exchange)
            seen["topic permissions", exchange] = (
                None if topic is None else (topic.write, topic.read)
            )
        vhost = state.vhosts.get(place)
        if vhost is not None:
            seen.update(_seen_in(vhost))
        return seen


def _seen_in(vhost: VirtualHost) -> dict[Thing, Said]:
    policies = vhost.operator_policies.listed()
    return {
        ("virtual host",): (vhost.description, vhost.tags, vhost.default_queue_type),
        ("limits",): (vhost.max_queues, vhost.max_connections),
        ("operator policies",): [(policy.pattern, policy.definition) for policy in policies],
        ("parameters",): dict(vhost.parameters),
    }
