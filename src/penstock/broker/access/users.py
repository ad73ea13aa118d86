"""Users, their password hashes and how a password is checked.

Hashes are argon2id in its usual text form. Checking one costs tens of milliseconds on purpose, so
it is a value (`Verification`) that the server may run in a thread: everything it needs is in it.

A good password is remembered as a keyed hash, so that a thousand reconnects of one application do
not pay argon2 each. Why that is safe: the key is drawn when the process starts and lives only in
its memory, as the passwords themselves do while clients log in, so whoever can read it need not
guess; the stored argon2 hash is part of what is hashed, so a changed password is forgotten at once;
a wrong password never matches, and after a mismatch the next comparison of the same user and host
waits (`LoginDelays.may_compare`), so guessing gets no cheaper.

Unknown users and users without a password are checked against a hash that nothing matches, so the
time of a refusal does not reveal which names exist.

Users that came with RabbitMQ's definitions keep its salted SHA hashes, so that they log in with the
passwords they have and can go back with them. Such a hash is checked in microseconds; a refusal
takes as long as any other.

SCRAM-SHA-256 needs keys of its own, which cannot be derived from a hash: they are made when a
password is set (`scram_keys_of`) and kept beside its hash. A user that came with a hash alone has
none until its password is set anew.
"""

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.names import check_operators_name
from penstock.broker.topology import PutUser
from penstock.formats.octets import Malformed
from penstock.formats.scram_keys import ScramKeys, decode_keys, derive, encode_keys
from penstock.world.entropy import Entropy

DEFAULT_USER: Final = "guest"

# argon2id at OWASP's second recommendation: 19 MiB and two passes, about 20 ms of one core. One
# lane, because more would start threads of their own.
TIME_COST: Final = 2
MEMORY_COST_KIB: Final = 19_456
LANES: Final = 1
HASH_OCTETS: Final = 32
SALT_OCTETS: Final = 16
KEY_OCTETS: Final = 32
# A password travels in a frame; hashing megabytes for a stranger would be work for nothing.
PASSWORD_OCTETS_MAX: Final = 1024

# The hash of "guest". A fixed salt gives nothing away, because this password is public; to compute
# it anew would cost each start of a broker those 20 ms.
DEFAULT_USER_HASH: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$Uu9CUcvV2DLhhGQFBLpluA$"
    "m0ZjynUeNel05NY6gP2ynAQyEokz9FkycldsNL7gbhA"
)
# The hash of octets that were thrown away.
DECOY_HASH: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$KvJXpY7TQ0UTOeAqXtEO7A$"
    "4n+ogLhRkRpBHK3qhxUC49ZaRa2pXSu1wxLdP6kyBic"
)
# SCRAM's PBKDF2: about as costly for whoever guesses from stolen keys, and for a client that logs in, as
# argon2 is for us, 15 ms. No more, because Cyrus SASL, and with it Proton, refuses a challenge that asks
# for more. Much less than argon2's 19 MiB all the same; an operator who does not offer SCRAM can have no
# keys stored (`login.scram_keys`).
SCRAM_ITERATIONS: Final = 65_536
SCRAM_SALT_OCTETS: Final = 16
# The keys of "guest", with a fixed salt as above.
DEFAULT_USER_SCRAM_KEYS: Final = (
    "SCRAM-SHA-256$65536:zDV5NHv/1ADA4hGiP1ee9Q==$"
    "5F5pziSWz+5paBknRP99vNjYux1eLlXSd+B+d5hEx74=:ybjBSuToFKlTrZgkCve3RW0rNS1dOmdWckc1yNWN8zo="
)
# Repeated here, because the library takes longer to import than a broker takes to start.
_HASH_FORM: Final = re.compile(
    r"\$argon2id\$v=19\$m=[0-9]{1,7},t=[0-9]{1,3},p=[0-9]{1,3}\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+\Z"
)

# RabbitMQ's hashes as we keep them: base64 of a salt of four octets and of SHA(salt, password).
SHA256_PREFIX: Final = "$rabbitmq-sha256$"
SHA512_PREFIX: Final = "$rabbitmq-sha512$"
SHA_SALT_OCTETS: Final = 4
_SHA256_OCTETS: Final = 32
_SHA512_OCTETS: Final = 64


class User:
    """One user. Held by `Users`; connections keep the name and ask again."""

    def __init__(self, command: PutUser) -> None:
        self.name: str = command.name
        # Empty: no password opens this user.
        self.password_hash: str = command.password_hash
        self.tags: tuple[str, ...] = command.tags
        self.loopback_only: bool = command.loopback_only
        # Empty: SCRAM-SHA-256 does not open this user.
        self.scram_keys: str = command.scram_keys


class Verification:
    """Whether a password opens a user. Made by `Users`, run anywhere, given back to `Users`."""

    def __init__(self, name: str, password: bytes, password_hash: str, remembered: bool) -> None:
        self.name: str = name
        self.password: bytes = password
        self.password_hash: str = password_hash
        # True when a keyed hash has answered already and `run` would only cost time.
        self.remembered: bool = remembered
        self.good: bool = remembered
        # True when there is a remembered password and this is another one. `run` is called all the
        # same, so that the time of the refusal does not tell.
        self.is_known_wrong: bool = False
        # When the peer asked.
        self.asked_at: int = 0

    def run(self) -> bool:
        """Takes tens of milliseconds and touches nothing but this object."""
        if not self.remembered:
            self.good = verify_password(self.password_hash or DECOY_HASH, self.password)
        return self.good


class Users:
    """All users by name. Held by the broker's state."""

    def __init__(self, entropy: Entropy) -> None:
        self._by_name: dict[str, User] = {}
        self._key: bytes = entropy.octets(KEY_OCTETS)
        # The last good password of each user as a keyed hash; at most one entry per user.
        self._remembered: dict[str, bytes] = {}

    def put(self, command: PutUser) -> None:
        check_operators_name("a user name", command.name)
        if command.name != command.name.encode(errors="replace").decode():
            # Of octets that are no UTF-8, with which nobody could log in everywhere.
            raise PreconditionFailed("a user name must be a valid Unicode string")
        if command.password_hash:
            check_hash(command.password_hash)
        if command.scram_keys:
            check_scram_keys(command.scram_keys)
        self._by_name[command.name] = User(command)
        self._remembered.pop(command.name, None)

    def remove(self, name: str) -> None:
        if self._by_name.pop(name, None) is None:
            raise NotFound(f"no user '{name}'")
        self._remembered.pop(name, None)

    def find(self, name: str) -> User | None:
        return self._by_name.get(name)

    def is_empty(self) -> bool:
        return not self._by_name

    def listed(self) -> list[User]:
        return list(self._by_name.values())

    def scram_text(self, name: str) -> str:
        """The SCRAM keys of a user as they are stored; empty when there is no such user, or none of
        them.
        """
        user = self._by_name.get(name)
        return "" if user is None else user.scram_keys

    def scram_keys(self, name: str) -> ScramKeys:
        """For a name without keys those of nobody, the same each time: a challenge must not tell
        which names exist.
        """
        text = self.scram_text(name)
        if text:
            return decode_keys(text)
        decoy = hmac.digest(self._key, b"scram\0" + name.encode(errors="replace"), "sha512")
        salt = decoy[:SCRAM_SALT_OCTETS]
        return ScramKeys(salt, SCRAM_ITERATIONS, decoy[:HASH_OCTETS], decoy[HASH_OCTETS:])

    def verifier(self, name: str, password: bytes, compares: bool = True) -> Verification:
        """Without `compares` the password is not looked up among those that are remembered."""
        user = self._by_name.get(name)
        password_hash = "" if user is None else user.password_hash
        if len(password) > PASSWORD_OCTETS_MAX:
            # No password that long was ever hashed; check something that takes as long.
            return Verification(name, b"", "", remembered=False)
        known = self._remembered.get(name) if compares else None
        remembered = known is not None and hmac.compare_digest(
            known, self._digest(password_hash, password)
        )
        verification = Verification(name, password, password_hash, remembered)
        verification.is_known_wrong = known is not None and not remembered
        return verification

    def settle(self, verification: Verification) -> bool:
        """Take a verification back after it ran; returns whether it was good and still is."""
        user = self._by_name.get(verification.name)
        if user is None or not verification.good:
            return False
        if user.password_hash != verification.password_hash:
            # The password was changed while the old one was being checked.
            return False
        self._remembered[user.name] = self._digest(user.password_hash, verification.password)
        return True

    def _digest(self, password_hash: str, password: bytes) -> bytes:
        # The text of a hash holds no zero octet, so the two parts cannot run into one another; its
        # salt differs from user to user, so the name need not be hashed.
        keyed = hashlib.blake2b(key=self._key, digest_size=HASH_OCTETS)
        keyed.update(password_hash.encode())
        keyed.update(b"\0")
        keyed.update(password)
        return keyed.digest()


def may_connect_from(user: User, peer_is_loopback: bool) -> bool:
    return peer_is_loopback or not user.loopback_only


def loopback_refusal(name: str) -> str:
    """For the log, as RabbitMQ writes it; the client only hears that the login was refused."""
    return f"user '{name}' can only connect via localhost"


def why_refused(user: User | None, good: bool, peer_is_loopback: bool) -> str:
    """Why a login fails, for the log alone; empty when it does not."""
    if user is None:
        return "unknown user"
    if not good:
        return "wrong password" if user.password_hash else "the user has no password"
    if not may_connect_from(user, peer_is_loopback):
        return loopback_refusal(user.name)
    return ""


def hash_password(password: bytes, entropy: Entropy) -> str:
    # Imported late, here and below: it takes about 30 ms, and most starts hash nothing.
    from argon2.low_level import Type, hash_secret

    if not 0 < len(password) <= PASSWORD_OCTETS_MAX:
        raise PreconditionFailed(f"a password must have 1 to {PASSWORD_OCTETS_MAX} bytes")
    encoded: bytes = hash_secret(
        password,
        entropy.octets(SALT_OCTETS),
        TIME_COST,
        MEMORY_COST_KIB,
        LANES,
        HASH_OCTETS,
        Type.ID,
    )
    return encoded.decode("ascii")


def scram_keys_of(password: bytes, entropy: Entropy) -> str:
    """The keys of a password, to be stored beside its hash; empty for one that is not UTF-8, which
    no client can say in SCRAM.
    """
    try:
        text = password.decode()
    except UnicodeDecodeError:
        return ""
    return encode_keys(derive(text, entropy.octets(SCRAM_SALT_OCTETS), SCRAM_ITERATIONS))


def check_scram_keys(text: str) -> None:
    """Raise for a text that is no SCRAM keys, before a login stumbles over it."""
    try:
        decode_keys(text)
    except Malformed as error:
        raise PreconditionFailed(f"the SCRAM keys are not valid: {error}") from None


def verify_password(password_hash: str, password: bytes) -> bool:
    if _is_salted_sha(password_hash):
        if _verify_salted_sha(password_hash, password):
            return True
        # The answer is no; only the time it takes is wanted.
        _verify_argon2(DECOY_HASH, password)
        return False
    return _verify_argon2(password_hash, password)


def _verify_argon2(password_hash: str, password: bytes) -> bool:
    from argon2.exceptions import VerificationError
    from argon2.low_level import Type, verify_secret

    try:
        return verify_secret(password_hash.encode("ascii"), password, Type.ID)
    except VerificationError:
        return False


def _verify_salted_sha(password_hash: str, password: bytes) -> bool:
    octets = _salted_sha_octets(password_hash)
    salt = octets[:SHA_SALT_OCTETS]
    if password_hash.startswith(SHA256_PREFIX):
        digest = hashlib.sha256(salt + password).digest()
    else:
        digest = hashlib.sha512(salt + password).digest()
    return hmac.compare_digest(octets[SHA_SALT_OCTETS:], digest)


def _is_salted_sha(password_hash: str) -> bool:
    return password_hash.startswith((SHA256_PREFIX, SHA512_PREFIX))


def _salted_sha_octets(password_hash: str) -> bytes:
    """Salt and digest; empty when the text is damaged, which no digest equals."""
    try:
        return base64.b64decode(password_hash[len(SHA256_PREFIX) :], validate=True)
    except (binascii.Error, ValueError):
        return b""


def check_hash(password_hash: str) -> None:
    """Raise for a text that is not a supported hash, so that this does not surface at a login."""
    if _is_salted_sha(password_hash):
        is_short = password_hash.startswith(SHA256_PREFIX)
        digest_octets = _SHA256_OCTETS if is_short else _SHA512_OCTETS
        if len(_salted_sha_octets(password_hash)) != SHA_SALT_OCTETS + digest_octets:
            raise PreconditionFailed(
                f"the password hash is not base64 of {SHA_SALT_OCTETS} bytes of salt and "
                f"{digest_octets} of hash"
            )
    elif _HASH_FORM.match(password_hash) is None:
        raise PreconditionFailed("the password hash is not an argon2id hash")
