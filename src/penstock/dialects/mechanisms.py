"""SASL mechanisms on the server's side, one small object per login.

A mechanism is given the client's responses and says who the client claims to be, asks for another
response, or decides by itself. It knows no frames: the dialect carries challenges and responses,
`login.Login` acts on the result.

    mechanism       who                                                         result of the steps
    PLAIN           users with their passwords                                  a claim
    AMQPLAIN        the same, as a field table                                   a claim
    SCRAM-SHA-256   users with SCRAM keys; the password is not sent             a challenge, a verdict
    EXTERNAL        the user that the client certificate names                  a verdict
    ANONYMOUS       the default user, as long as it has its default password    a claim

Which of them a listener offers is its `Peer.mechanisms`, by the configuration. EXTERNAL is offered only to
clients that showed a certificate, AMQPLAIN only in AMQP 0-9-1, ANONYMOUS only where the default user
may log in.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.access.users import DEFAULT_USER, Users
from penstock.formats.scram_keys import SCRAM_SHA_256, ScramKeys
from penstock.wire.amqp091.amqplain import parse_amqplain
from penstock.wire.sasl import parse_plain
from penstock.wire.scram import ScramServer

PLAIN: Final = "PLAIN"
AMQPLAIN: Final = "AMQPLAIN"
EXTERNAL: Final = "EXTERNAL"
ANONYMOUS: Final = "ANONYMOUS"
ANONYMOUS_REFUSED: Final = (
    "anonymous login is refused: it needs a listener that offers ANONYMOUS, a client host from which "
    f"'{DEFAULT_USER}' may log in, and the default password of '{DEFAULT_USER}'. Use SASL PLAIN"
)
# All there are, in the order in which a listener offers them unless it is told otherwise. Some
# clients take the first one that they know.
ALL_MECHANISMS: Final = (PLAIN, AMQPLAIN, SCRAM_SHA_256, EXTERNAL, ANONYMOUS)
# The name under which servers of a cluster log in to one another. No user of a cluster member may log
# in with this name.
PEER_USER: Final = "cluster"
RESERVED: Final = f"the name '{PEER_USER}' is reserved for servers of the cluster"
WRONG_KEY: Final = "the peer does not have the key of this cluster"
# Of the server's part of a SCRAM nonce, before it is written in hexadecimal.
NONCE_OCTETS: Final = 18


class Claim:
    """Who a client claims to be, and the password that has to prove it."""

    def __init__(self, user: str, password: bytes) -> None:
        self.user: str = user
        self.password: bytes = password


class Challenge:
    """What the client has to answer before anything is decided."""

    def __init__(self, user: str, octets: bytes) -> None:
        self.user: str = user
        self.octets: bytes = octets


class MechanismVerdict:
    """What the mechanism decided by itself, without a password that has to be checked elsewhere."""

    def __init__(
        self, user: str, reason: str, server_final: bytes = b"", is_peer: bool = False
    ) -> None:
        self.user: str = user
        # Whether it is about a server of this cluster, not about a user.
        self.is_peer: bool = is_peer
        # Why the login is refused, for the log alone; empty when it is good.
        self.reason: str = reason
        # The server's own proof, which the client checks.
        self.server_final: bytes = server_final


@mypyc_attr(allow_interpreted_subclasses=True)
class Mechanism:
    """One login by one mechanism. Held by the login until it is decided."""

    def __init__(self, name: str) -> None:
        # For the log and for the client.
        self.name: str = name
        # False where the client names no user: a refusal is then not a wrong password of a user.
        self.names_user: bool = True

    def step(self, response: bytes) -> Claim | Challenge | MechanismVerdict:
        """What the client's response leads to. Raises `Malformed` when it is none of this
        mechanism.
        """
        raise NotImplementedError


class Plain(Mechanism):
    """User and password as they are (RFC 4616)."""

    def __init__(self) -> None:
        super().__init__(PLAIN)

    def step(self, response: bytes) -> Claim | Challenge | MechanismVerdict:
        user, password = parse_plain(response)
        return Claim(user, password.encode("utf-8", "surrogateescape"))


class AmqPlain(Mechanism):
    """User and password in a field table; older than PLAIN."""

    def __init__(self) -> None:
        super().__init__(AMQPLAIN)

    def step(self, response: bytes) -> Claim | Challenge | MechanismVerdict:
        user, password = parse_amqplain(response)
        return Claim(user, password.encode("utf-8", "surrogateescape"))


class Anonymous(Mechanism):
    """A client that names no user (RFC 4505) is the default user."""

    def __init__(self, name: str = ANONYMOUS) -> None:
        super().__init__(name)
        self.names_user = False

    def step(self, response: bytes) -> Claim | Challenge | MechanismVerdict:
        # This password is public. An operator who changes it also disables anonymous logins.
        return Claim(DEFAULT_USER, DEFAULT_USER.encode())


class External(Mechanism):
    """The user that the client's certificate names; TLS has checked the certificate (RFC 4422)."""

    def __init__(self, certificate_name: str) -> None:
        super().__init__(EXTERNAL)
        self._certificate_name: str = certificate_name

    def step(self, response: bytes) -> Claim | Challenge | MechanismVerdict:
        wanted = response.decode("utf-8", "replace")
        if wanted and wanted != self._certificate_name:
            return MechanismVerdict(
                self._certificate_name, f"the certificate does not name '{wanted}'"
            )
        return MechanismVerdict(self._certificate_name, "")


class ScramSha256(Mechanism):
    """A proof that the client knows the password, and one for the client that we do (RFC 7677).

    A user without keys, and a name that nobody has, gets a challenge as everybody else does, the
    same one each time, and no proof is good for it. Servers of this cluster log in here as well, with
    the cluster's key for a password; they may do so where clients are not offered the mechanism.
    """

    def __init__(
        self, users: Users, nonce: str, peer_keys: ScramKeys | None = None, is_offered: bool = True
    ) -> None:
        super().__init__(SCRAM_SHA_256)
        self._peer_keys: ScramKeys | None = peer_keys
        self._is_offered: bool = is_offered
        self._users: Users = users
        self._server: ScramServer = ScramServer(nonce)
        self._text: str = ""
        self._is_challenged: bool = False

    def step(self, response: bytes) -> Claim | Challenge | MechanismVerdict:
        server = self._server
        if not self._is_challenged:
            self._is_challenged = True
            user = server.start(response)
            if self._peer_keys is not None and user == PEER_USER:
                return Challenge(user, server.challenge(self._peer_keys))
            self._text = self._users.scram_text(user)
            return Challenge(user, server.challenge(self._users.scram_keys(user)))
        final = server.finish(response)
        if self._peer_keys is not None and server.user == PEER_USER:
            return MechanismVerdict(
                server.user, "" if final else WRONG_KEY, final or b"", is_peer=True
            )
        if not self._is_offered:
            return MechanismVerdict(server.user, "SCRAM-SHA-256 is not offered to clients here")
        if not self._text:
            return MechanismVerdict(server.user, "the user is unknown, or has no SCRAM keys")
        if final is None:
            return MechanismVerdict(server.user, "wrong password")
        if self._text != self._users.scram_text(server.user):
            return MechanismVerdict(server.user, "the password was changed meanwhile")
        return MechanismVerdict(server.user, "", final)
