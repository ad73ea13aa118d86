"""What an OAuth 2 token allows: a user who is in no table, with the permissions of its scopes.

Who can check signatures is elsewhere (`TokenVerifier`), because that takes a library and keys. Here is
what a good token says, and the permissions that follow from it.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.access.permissions import Access, Permission
from penstock.broker.access.scopes import Scope

# Of a token that does not say when it expires.
NEVER_EXPIRES: Final = -1
# Under what name failed tokens of a host are counted. The name that a client gives beside a token means
# nothing, so it must not delay the passwords of a user. No user can have this name.
FAILED_TOKENS: Final = "\0token"


class TokenGrant:
    """What a good token says. Held by whoever has logged in with it."""

    def __init__(
        self, user: str, tags: tuple[str, ...], scopes: list[Scope], expires_at: int
    ) -> None:
        self.user: str = user
        self.tags: tuple[str, ...] = tags
        self.scopes: list[Scope] = scopes
        # In milliseconds since 1970, or NEVER_EXPIRES.
        self.expires_at: int = expires_at

    def has_expired(self, wall: int) -> bool:
        return self.expires_at != NEVER_EXPIRES and self.expires_at <= wall

    def access(self, vhost: str) -> "TokenAccess | None":
        """None when no scope is about this virtual host."""
        scopes = self._scopes_in(vhost)
        return TokenAccess(self.user, vhost, scopes) if scopes else None

    def _scopes_in(self, vhost: str) -> list[Scope]:
        return [scope for scope in self.scopes if scope.vhost.matches(vhost)]


class TokenAccess(Access):
    """What a token allows in one virtual host. Held by one connection, or one request."""

    def __init__(self, user: str, vhost: str, scopes: list[Scope]) -> None:
        super().__init__(user, vhost)
        self.scopes: list[Scope] = scopes
        self.is_granted = True
        self._forget()

    def renew(self, later: "TokenAccess") -> None:
        """From now on the scopes of a later token of the same user count."""
        self.scopes = later.scopes
        self._forget()

    def _matches(self, permission: Permission, name: str) -> bool:
        for scope in self.scopes:
            if scope.permission is permission and scope.name.matches(name):
                return True
        return False

    def topic_answer(self, permission: Permission, exchange: str, routing_key: str) -> bool | None:
        for scope in self.scopes:
            pattern = scope.routing_key
            if (
                pattern is not None
                and scope.permission is permission
                and scope.name.matches(exchange)
                and pattern.matches(routing_key)
            ):
                return True
        return False

    def has_own_topics(self) -> bool:
        return True


class TokenVerdict:
    """Whether a token is good. Exactly one of the two is there."""

    def __init__(self, grant: TokenGrant | None, reason: str = "") -> None:
        self.grant: TokenGrant | None = grant
        # Why it is refused, for the log alone; without anything of the token that is a secret.
        self.reason: str = reason


@mypyc_attr(allow_interpreted_subclasses=True)
class TokenVerifier:
    """Checks tokens against the keys of an operator. The server has one if it is configured."""

    def is_token(self, password: bytes) -> bool:
        """Whether a password has the form of a token. Then it is one, and never a password."""
        raise NotImplementedError

    def verify(self, token: bytes, wall: int) -> TokenVerdict:
        """Takes a fraction of a millisecond. `wall` is in milliseconds since 1970."""
        raise NotImplementedError
