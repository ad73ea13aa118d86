"""SCRAM-SHA-256 (RFC 5802, RFC 7677), both sides, without channel binding.

The password never crosses the wire, and a server keeps only its keys (`formats.scram_keys`). No dice
here: nonces and salts are given by the caller.

    client-first    n,,n=user,r=client-nonce
    server-first    r=client-nonce server-nonce,s=salt,i=iterations
    client-final    c=biws,r=both nonces,p=proof
    server-final    v=signature

Invariants: a message that is not of this form is `Malformed`; proofs and signatures are compared
in constant time.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from hashlib import sha256
from typing import Final
from unicodedata import normalize

from penstock.formats.octets import Malformed
from penstock.formats.scram_keys import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramKeys,
    salted_password,
    sign,
)

_NO_BINDING: Final = "n,,"


class ScramServer:
    """One login as the server sees it: `start`, then `challenge`, then `finish`."""

    def __init__(self, nonce: str) -> None:
        self._nonce: str = nonce
        self._header: str = ""
        self._client_first: str = ""
        self._server_first: str = ""
        self._keys: ScramKeys | None = None
        self.user: str = ""

    def start(self, message: bytes) -> str:
        """The user that the client-first message names."""
        text = _text(message)
        if text.startswith("p="):
            raise Malformed("SCRAM with channel binding is not offered")
        parts = text.split(",", 2)
        if len(parts) != 3 or parts[0] not in {"n", "y"}:
            raise Malformed("SCRAM client-first message without its header")
        self._client_first = parts[2]
        fields = _fields(parts[2], "nr")
        self.user = _unescaped(fields[0])
        self._nonce = fields[1] + self._nonce
        # "y" says that the client could bind and believes that we cannot, which is so.
        self._header = f"{parts[0]},{parts[1]},"
        return self.user

    def challenge(self, keys: ScramKeys) -> bytes:
        self._keys = keys
        salt = b64encode(keys.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={keys.iterations}"
        return self._server_first.encode()

    def finish(self, message: bytes) -> bytes | None:
        """The server-final message, or None when the password was wrong."""
        keys = self._keys
        assert keys is not None, "finish comes after challenge"
        text = _text(message)
        without_proof, _, _ = text.rpartition(",p=")
        binding, nonce, proof = _fields(text, "crp")
        if _octets(binding) != self._header.encode() or nonce != self._nonce:
            return None
        spoken = f"{self._client_first},{self._server_first},{without_proof}".encode()
        signature = sign(keys.stored_key, spoken)
        client_key = _xor(_octets(proof), signature)
        if not hmac.compare_digest(sha256(client_key).digest(), keys.stored_key):
            return None
        return b"v=" + b64encode(sign(keys.server_key, spoken))


class ScramClient:
    """One login as the client sees it: `start`, then `answer`, then `verify`."""

    def __init__(self, user: str, password: str, nonce: str) -> None:
        self._password: str = password
        self._nonce: str = nonce
        self._client_first: str = f"n={_escaped(user)},r={nonce}"
        self._signature: bytes = b""

    def start(self) -> bytes:
        return (_NO_BINDING + self._client_first).encode()

    def answer(self, message: bytes) -> bytes:
        """The client-final message for the server's challenge."""
        server_first = _text(message)
        nonce, salt, count = _fields(server_first, "rsi")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise Malformed("the server's SCRAM nonce does not begin with ours")
        if not count.isdecimal() or not ITERATIONS_MIN <= int(count) <= ITERATIONS_MAX:
            raise Malformed(f"invalid number of SCRAM iterations, {count}")
        salted = salted_password(self._password, _octets(salt), int(count))
        client_key = sign(salted, b"Client Key")
        without_proof = f"c={b64encode(_NO_BINDING.encode()).decode()},r={nonce}"
        spoken = f"{self._client_first},{server_first},{without_proof}".encode()
        proof = _xor(client_key, sign(sha256(client_key).digest(), spoken))
        self._signature = sign(sign(salted, b"Server Key"), spoken)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def verify(self, message: bytes) -> bool:
        """Whether the server knew the password as well."""
        fields = _fields(_text(message), "v")
        return bool(self._signature) and hmac.compare_digest(_octets(fields[0]), self._signature)


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise Malformed(f"SCRAM proof has the wrong size, {len(left)} octets")
    return bytes([one ^ other for one, other in zip(left, right, strict=True)])


def _text(message: bytes) -> str:
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("a SCRAM message is not valid UTF-8") from error


def _octets(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError) as error:
        raise Malformed("SCRAM value is not base64") from error


def _fields(text: str, names: str) -> list[str]:
    """Values of the fields that must be first, in this order; extensions after them are ignored,
    except for the proof, which is last.
    """
    parts = text.split(",")
    if names.endswith("p") and len(parts) > len(names):
        parts = [*parts[: len(names) - 1], parts[-1]]
    if len(parts) < len(names):
        raise Malformed(f"SCRAM message has the wrong number of fields, {len(parts)}")
    values: list[str] = []
    for index, name in enumerate(names):
        if not parts[index].startswith(f"{name}="):
            raise Malformed(f"SCRAM field {name} expected")
        values.append(parts[index][2:])
    return values


def _escaped(user: str) -> str:
    return normalize("NFKC", user).replace("=", "=3D").replace(",", "=2C")


def _unescaped(user: str) -> str:
    return user.replace("=2C", ",").replace("=3D", "=")
