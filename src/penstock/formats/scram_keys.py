"""What a server keeps of a password for SCRAM-SHA-256 (RFC 5802, RFC 7677), as one line of text.

    SCRAM-SHA-256$iterations:salt$stored key:server key        all but the number in base64

It is the text that PostgreSQL keeps. A client's proof is checked with the stored key, the server
proves with the server key that it knew the password, and neither opens a session by itself. The
password can be guessed from them offline, at `iterations` hashes for a guess.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from hashlib import pbkdf2_hmac, sha256
from typing import Final
from unicodedata import normalize

from penstock.formats.octets import Malformed

SCRAM_SHA_256: Final = "SCRAM-SHA-256"
# RFC 7677's floor. More than the ceiling would take longer than a login lasts.
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 1_000_000

_DIGEST: Final = "sha256"
_KEY_OCTETS: Final = 32


class ScramKeys:
    """The keys of one password."""

    def __init__(self, salt: bytes, iterations: int, stored_key: bytes, server_key: bytes) -> None:
        self.salt: bytes = salt
        self.iterations: int = iterations
        self.stored_key: bytes = stored_key
        self.server_key: bytes = server_key


def derive(password: str, salt: bytes, iterations: int) -> ScramKeys:
    salted = salted_password(password, salt, iterations)
    stored_key = sha256(sign(salted, b"Client Key")).digest()
    return ScramKeys(salt, iterations, stored_key, sign(salted, b"Server Key"))


def salted_password(password: str, salt: bytes, iterations: int) -> bytes:
    # SASLprep without its tables of forbidden characters: both sides would have to refuse them.
    return pbkdf2_hmac(_DIGEST, normalize("NFKC", password).encode(), salt, iterations)


def sign(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, _DIGEST)


def encode_keys(keys: ScramKeys) -> str:
    salt, stored, server = [
        b64encode(octets).decode() for octets in (keys.salt, keys.stored_key, keys.server_key)
    ]
    return f"{SCRAM_SHA_256}${keys.iterations}:{salt}${stored}:{server}"


def decode_keys(text: str) -> ScramKeys:
    """Raises `Malformed` for a text that is not of this form."""
    parts = text.split("$")
    if len(parts) != 3 or parts[0] != SCRAM_SHA_256:
        raise Malformed(f"SCRAM keys must begin with {SCRAM_SHA_256}$ and have three parts")
    count, _, salt = parts[1].partition(":")
    stored, _, server = parts[2].partition(":")
    is_number = count.isascii() and count.isdigit() and len(count) <= 9
    if not is_number or not ITERATIONS_MIN <= int(count) <= ITERATIONS_MAX:
        raise Malformed(
            f"the number of SCRAM iterations must be between {ITERATIONS_MIN} and {ITERATIONS_MAX}"
        )
    keys = ScramKeys(_octets(salt), int(count), _octets(stored), _octets(server))
    if not keys.salt or len(keys.stored_key) != _KEY_OCTETS or len(keys.server_key) != _KEY_OCTETS:
        raise Malformed(f"SCRAM keys need a salt and two keys of {_KEY_OCTETS} bytes")
    return keys


def _octets(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError) as error:
        raise Malformed("a part of the SCRAM keys is not base64") from error
