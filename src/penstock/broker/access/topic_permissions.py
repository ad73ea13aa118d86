"""Which routing keys of a topic exchange a user may publish and bind with.

As in RabbitMQ: a pattern is searched in the routing key, for write at publish and for read at bind;
`{username}` and `{vhost}` in a pattern stand for those of the user who asks; a user who has no topic
permission for an exchange may use every routing key of it, and exchanges of other types are never
asked about. Unlike in RabbitMQ, the name of the user and of the virtual host stand for themselves and
not for a part of the expression. The empty pattern allows nothing but the empty routing key.
"""

import re
from typing import Final

from penstock.broker.access.permissions import Access, Permission, compiled_pattern
from penstock.broker.errors import AccessRefused
from penstock.broker.names import check_operators_name
from penstock.broker.topology import SetTopicPermissions

USERNAME_VARIABLE: Final = "{username}"
VHOST_VARIABLE: Final = "{vhost}"


class TopicAccess:
    """What one user may do with the routing keys of one exchange. Held by `TopicAccessTable`."""

    def __init__(self, command: SetTopicPermissions) -> None:
        check_operators_name("an exchange name", command.exchange)
        self.user: str = command.user
        self.vhost: str = command.vhost
        self.exchange: str = command.exchange
        self.write: str = command.write
        self.read: str = command.read
        self._write: re.Pattern[str] = self._compiled(command.write)
        self._read: re.Pattern[str] = self._compiled(command.read)

    def _compiled(self, pattern: str) -> re.Pattern[str]:
        compiled_pattern(pattern)
        # A name is not an expression: a user called `.*` must not get every topic by it.
        expanded = pattern.replace(USERNAME_VARIABLE, re.escape(self.user))
        return compiled_pattern(expanded.replace(VHOST_VARIABLE, re.escape(self.vhost)))

    def may(self, permission: Permission, routing_key: str) -> bool:
        pattern = self._write if permission is Permission.WRITE else self._read
        return pattern.search(routing_key) is not None

    def command(self) -> SetTopicPermissions:
        """The command that makes it again."""
        return SetTopicPermissions(self.user, self.vhost, self.exchange, self.write, self.read)


class TopicAccessTable:
    """The topic permissions of all users. Held by the broker's state."""

    def __init__(self) -> None:
        self._access: dict[tuple[str, str], dict[str, TopicAccess]] = {}

    def grant(self, command: SetTopicPermissions) -> None:
        access = TopicAccess(command)
        self._access.setdefault((command.user, command.vhost), {})[command.exchange] = access

    def revoke(self, user: str, vhost: str, exchange: str) -> None:
        """Of one exchange; an empty name means all of them."""
        by_exchange = self._access.get((user, vhost))
        if by_exchange is None:
            return
        if exchange:
            by_exchange.pop(exchange, None)
        if not exchange or not by_exchange:
            del self._access[(user, vhost)]

    def revoke_user(self, user: str) -> None:
        for key in [key for key in self._access if key[0] == user]:
            del self._access[key]

    def revoke_vhost(self, vhost: str) -> None:
        for key in [key for key in self._access if key[1] == vhost]:
            del self._access[key]

    def find(self, user: str, vhost: str, exchange: str) -> TopicAccess | None:
        by_exchange = self._access.get((user, vhost))
        return None if by_exchange is None else by_exchange.get(exchange)

    def listed(self) -> list[TopicAccess]:
        return [access for by_exchange in self._access.values() for access in by_exchange.values()]

    def is_restricted(self, access: Access, exchange: str) -> bool:
        """Whether some routing keys of the exchange may be refused."""
        return access.has_own_topics() or self.find(access.user, access.vhost, exchange) is not None

    def check(
        self, access: Access, exchange: str, permission: Permission, routing_key: str
    ) -> None:
        """Of a topic exchange; others have no topics."""
        answer = access.topic_answer(permission, exchange, routing_key)
        if answer is None:
            found = self.find(access.user, access.vhost, exchange)
            answer = found is None or found.may(permission, routing_key)
        if not answer:
            raise AccessRefused(
                f"access to topic '{routing_key}' in exchange '{exchange}' in vhost "
                f"'{access.vhost}' refused for user '{access.user}'"
            )
