"""What the definitions of one operation touch, copied to another state: the objects that they name."""

import dataclasses

from penstock.broker.state import BrokerState
from penstock.broker.store.definition_records import (
    Change,
    declaration_of,
    exchange_declaration_of,
    is_predeclared,
    policies_of,
)
from penstock.broker.topology import (
    AddVhost,
    BrokerCommand,
    PutUser,
    VhostCommand,
)
from penstock.broker.vhost import VirtualHost


class TouchedDefinitions:
    """Made for one operation. Any text in a command counts as a name, whatever the command does with it."""

    def __init__(self, changes: list[Change], state: BrokerState) -> None:
        self._state: BrokerState = state
        # Names of anything in these virtual hosts, and of users.
        self._names: dict[str, set[str]] = {}
        self._users: set[str] = set()
        # By virtual host: how many queues are not copied.
        self.hidden_queues: dict[str, int] = {}
        for change in changes:
            names = _names_in(change.command)
            if change.vhost is None:
                self._users.update(names)
                for name in names:
                    self._names.setdefault(name, set())
                continue
            self._names.setdefault(change.vhost, set()).update(names)

    def copy(self, trial: BrokerState, now: int) -> None:
        """Into a state that has nothing."""
        state = self._state
        trial.global_parameters.update(state.global_parameters)
        for name in self._users:
            user = state.users.find(name)
            if user is not None:
                put = PutUser(name, user.password_hash, user.tags, user.loopback_only)
                trial.apply(put, now)
        for name in self._names:
            host = state.vhosts.get(name)
            if host is not None:
                self._copy_vhost(host, trial, now)

    def _copy_vhost(self, host: VirtualHost, trial: BrokerState, now: int) -> None:
        trial.apply(AddVhost(host.name), now)
        made = trial.vhost(host.name)
        for policy in policies_of(host):
            made.apply(policy, now)
        made.parameters.update(host.parameters)
        made.delay_line.number = host.delay_line.number
        for name in self._names[host.name]:
            exchange = host.exchanges.get(name)
            if exchange is not None and not is_predeclared(exchange):
                made.apply(exchange_declaration_of(host, exchange), now)
            queue = host.queues.get(name)
            if queue is not None:
                made.apply(declaration_of(host, queue), now)
                made.queues[name].number = queue.number
        hidden = len(host.queues) - len(made.queues)
        self.hidden_queues[host.name] = hidden
        if host.max_queues >= 0:
            made.max_queues = max(host.max_queues - hidden, 0)
        # After the queues, as in a snapshot.
        made.describe(AddVhost(host.name, host.description, host.tags, host.default_queue_type))


def _names_in(command: VhostCommand | BrokerCommand) -> list[str]:
    found: list[str] = []
    for field in dataclasses.fields(command):
        value = getattr(command, field.name)
        if isinstance(value, str):
            found.append(value)
    return found
