"""Who may do what: patterns for configure, write and read per user and virtual host.

`needs` says which permissions a command takes, as RabbitMQ's channel asks for them; dialects add
those of publish (write on the exchange) and of consume and get (read on the queue).

A pattern is searched in the name, not anchored; the empty pattern allows nothing. The default
exchange is called `amq.default` in patterns and refusals.
"""

import re
from enum import Enum
from typing import Final

from penstock.broker.errors import AccessRefused, PreconditionFailed
from penstock.broker.names import PATTERN_LENGTH_MAX, described
from penstock.broker.topology import (
    BindExchange,
    BindQueue,
    ChangeQueueArguments,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    SetPermissions,
    UnbindExchange,
    UnbindQueue,
    VhostCommand,
)

DEFAULT_EXCHANGE_ALIAS: Final = "amq.default"
# Answers remembered per user and virtual host. A publisher meets a few names; at the limit all are
# forgotten, and each name costs one search of a pattern again.
ANSWERS_MAX: Final = 1024
# The empty pattern matches the empty name only, and no object has that.
NOTHING: Final = "^$"


class Permission(Enum):
    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


class ResourceKind(Enum):
    EXCHANGE = "exchange"
    QUEUE = "queue"


class Need:
    """One permission on one object that a command takes."""

    def __init__(self, permission: Permission, kind: ResourceKind, name: str) -> None:
        self.permission: Permission = permission
        self.kind: ResourceKind = kind
        self.name: str = name


class Access:
    """What one user may do in one virtual host. Held by `AccessTable`; connections may keep it,
    because a change of permissions changes it in place.
    """

    def __init__(self, user: str, vhost: str) -> None:
        self.user: str = user
        self.vhost: str = vhost
        self.configure: str = ""
        self.write: str = ""
        self.read: str = ""
        # False once permissions were cleared: the user may not even open the virtual host.
        self.is_granted: bool = False
        self._patterns: dict[Permission, re.Pattern[str]] = {}
        self._answers: dict[Permission, dict[str, bool]] = {}
        self._answer_count: int = 0

    def grant(self, configure: str, write: str, read: str) -> None:
        patterns = {
            Permission.CONFIGURE: compiled_pattern(configure),
            Permission.WRITE: compiled_pattern(write),
            Permission.READ: compiled_pattern(read),
        }
        self.configure = configure
        self.write = write
        self.read = read
        self._patterns = patterns
        self.is_granted = True
        self._forget()

    def revoke(self) -> None:
        self._patterns = {}
        self.is_granted = False
        self._forget()

    def _forget(self) -> None:
        self._answers = {permission: {} for permission in Permission}
        self._answer_count = 0

    def may(self, permission: Permission, kind: ResourceKind, name: str) -> bool:
        if not self.is_granted:
            return False
        if not name and kind is ResourceKind.EXCHANGE:
            name = DEFAULT_EXCHANGE_ALIAS
        answer = self._answers[permission].get(name)
        if answer is None:
            answer = self._matches(permission, name)
            if self._answer_count >= ANSWERS_MAX:
                self._forget()
            self._answers[permission][name] = answer
            self._answer_count += 1
        return answer

    def _matches(self, permission: Permission, name: str) -> bool:
        return self._patterns[permission].search(name) is not None

    def topic_answer(self, permission: Permission, exchange: str, routing_key: str) -> bool | None:
        """Whether a routing key of a topic exchange may be used. None: the user's topic permissions
        decide (`TopicAccessTable`).
        """
        return None

    def has_own_topics(self) -> bool:
        """Whether `topic_answer` decides."""
        return False

    def check(self, permission: Permission, kind: ResourceKind, name: str) -> None:
        if not self.may(permission, kind, name):
            if not name and kind is ResourceKind.EXCHANGE:
                name = DEFAULT_EXCHANGE_ALIAS
            raise AccessRefused(
                f"access to {described(kind.value, name, self.vhost)} "
                f"refused for user '{self.user}'"
            )

    def check_command(self, command: VhostCommand, creates: bool) -> None:
        """`creates`: the object declared is not there yet, see `needs`."""
        for need in needs(command, creates):
            self.check(need.permission, need.kind, need.name)


class AccessTable:
    """The permissions of all users. Held by the broker's state."""

    def __init__(self) -> None:
        self._access: dict[tuple[str, str], Access] = {}

    def grant(self, command: SetPermissions) -> None:
        key = (command.user, command.vhost)
        access = self._access.get(key)
        if access is None:
            access = Access(command.user, command.vhost)
        access.grant(command.configure, command.write, command.read)
        self._access[key] = access

    def revoke(self, user: str, vhost: str) -> None:
        access = self._access.pop((user, vhost), None)
        if access is not None:
            access.revoke()

    def revoke_user(self, user: str) -> None:
        for key in [key for key in self._access if key[0] == user]:
            self.revoke(key[0], key[1])

    def revoke_vhost(self, vhost: str) -> None:
        for key in [key for key in self._access if key[1] == vhost]:
            self.revoke(key[0], key[1])

    def find(self, user: str, vhost: str) -> Access | None:
        return self._access.get((user, vhost))

    def listed(self) -> list[Access]:
        return list(self._access.values())


def needs(command: VhostCommand, creates: bool) -> list[Need]:
    """The permissions that a command needs. A passive declaration needs none. Dead-letter and
    alternate exchanges count only when the object is created: declaring it again gives nobody a new
    way to write to them.
    """
    if isinstance(command, DeclareQueue):
        return _declare_needs(
            ResourceKind.QUEUE,
            command.name,
            command.passive,
            command.arguments.get("x-dead-letter-exchange") if creates else None,
        )
    if isinstance(command, DeclareExchange):
        return _declare_needs(
            ResourceKind.EXCHANGE,
            command.name,
            command.passive,
            command.arguments.get("alternate-exchange") if creates else None,
        )
    if isinstance(command, (BindQueue, UnbindQueue)):
        return [
            Need(Permission.WRITE, ResourceKind.QUEUE, command.queue),
            Need(Permission.READ, ResourceKind.EXCHANGE, command.exchange),
        ]
    if isinstance(command, (BindExchange, UnbindExchange)):
        return [
            Need(Permission.WRITE, ResourceKind.EXCHANGE, command.destination),
            Need(Permission.READ, ResourceKind.EXCHANGE, command.source),
        ]
    if isinstance(command, DeleteQueue):
        return [Need(Permission.CONFIGURE, ResourceKind.QUEUE, command.name)]
    if isinstance(command, DeleteExchange):
        return [Need(Permission.CONFIGURE, ResourceKind.EXCHANGE, command.name)]
    if isinstance(command, ChangeQueueArguments):
        further = command.arguments.get("x-dead-letter-exchange")
        return _declare_needs(ResourceKind.QUEUE, command.name, False, further)
    if isinstance(command, PurgeQueue):
        return [Need(Permission.READ, ResourceKind.QUEUE, command.name)]
    # Policies and limits belong to the operator, who needs a tag and not patterns.
    return []


def _declare_needs(
    kind: ResourceKind, name: str, passive: bool, further_exchange: object
) -> list[Need]:
    if passive:
        return []
    wanted = [Need(Permission.CONFIGURE, kind, name)]
    if isinstance(further_exchange, str):
        # Whoever may read the object could forward from it, whoever may write there may send.
        wanted.append(Need(Permission.READ, kind, name))
        wanted.append(Need(Permission.WRITE, ResourceKind.EXCHANGE, further_exchange))
    return wanted


def compiled_pattern(pattern: str) -> re.Pattern[str]:
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise PreconditionFailed(f"the pattern is longer than {PATTERN_LENGTH_MAX} characters")
    try:
        return re.compile(pattern or NOTHING)
    except (re.error, OverflowError, RecursionError) as error:
        raise PreconditionFailed(
            f"'{pattern}' is not a valid regular expression: {error}"
        ) from None
