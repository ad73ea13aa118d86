"""SASL mechanisms on the server's side, one small object per login.

A mechanism is given the client's response and says who the client claims to be. It knows no frames:
the dialect carries responses, `login.Login` checks the claim.

    mechanism       who                                                             offered by
    PLAIN           users with their passwords                                      both dialects
    AMQPLAIN        the same, as a field table (`amqp091.login`)                    AMQP 0-9-1
    ANONYMOUS       the default user, as long as it has its default password        AMQP 1.0

SCRAM-SHA-256 needs keys derived from each password. Users have argon2id hashes, from which they
cannot be derived, so it is not offered; EXTERNAL is not without TLS.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.access.users import DEFAULT_USER
from penstock.wire.sasl import parse_plain

PLAIN: Final = "PLAIN"
ANONYMOUS: Final = "ANONYMOUS"
ANONYMOUS_REFUSED: Final = (
    "anonymous login is refused: it needs the setting amqp10.anonymous, a client host from which "
    f"'{DEFAULT_USER}' may log in, and the default password of '{DEFAULT_USER}'. Use SASL PLAIN"
)


class Claim:
    """Who a client says to be, and the password that has to prove it."""

    def __init__(self, user: str, password: bytes) -> None:
        self.user: str = user
        self.password: bytes = password


@mypyc_attr(allow_interpreted_subclasses=True)
class Mechanism:
    """One login by one mechanism. Held by the login until it is decided."""

    def __init__(self, name: str) -> None:
        # For the log and for the client.
        self.name: str = name
        # False where the client names nobody: a refusal is then no guess at somebody's password.
        self.names_user: bool = True

    def step(self, response: bytes) -> Claim:
        """What the client's response claims. Raises `Malformed` when it claims nothing."""
        raise NotImplementedError


class Plain(Mechanism):
    """User and password as they are (RFC 4616)."""

    def __init__(self) -> None:
        super().__init__(PLAIN)

    def step(self, response: bytes) -> Claim:
        user, password = parse_plain(response)
        return Claim(user, password.encode("utf-8", "surrogateescape"))


class Anonymous(Mechanism):
    """A client that names no user (RFC 4505) is the default user."""

    def __init__(self, name: str = ANONYMOUS) -> None:
        super().__init__(name)
        self.names_user = False

    def step(self, response: bytes) -> Claim:
        # Everybody knows this password. Who has changed it has also ended this way in.
        return Claim(DEFAULT_USER, DEFAULT_USER.encode())
