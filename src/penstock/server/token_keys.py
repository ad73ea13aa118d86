"""The keys with which tokens are checked: from a JWK set (RFC 7517), and from PEM files.

A key belongs to one kind of algorithm. A token that says another one for it is refused, so that nobody
can use a public key as the secret of an HMAC.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from penstock.server.token_settings import TokenConfiguration, TokensUnavailable

if TYPE_CHECKING:
    from pathlib import Path

# A set has a few keys of about 500 bytes each. A larger file is not a key set.
KEY_FILE_BYTES_MAX: Final = 1024 * 1024
# Shorter RSA keys and secrets can be broken, or guessed (RFC 7518, 3.2 and 3.3).
RSA_BITS_MIN: Final = 2048
SECRET_BYTES_MIN: Final = 32
_RSA_ALGORITHMS: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_SECRET_ALGORITHMS: Final = frozenset({"HS256", "HS384", "HS512"})
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_KINDS: Final = frozenset({"RSA", "EC", "OKP", "oct"})


class BadTokenKeys(TokensUnavailable):
    """The keys cannot be used; the text says which file, and why."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A key, and the algorithms it may be used with. Held by the verifier."""

    key: Any
    algorithms: frozenset[str]


def read_keys(configuration: TokenConfiguration) -> dict[str, TokenKey]:
    """By the name that tokens give them; the empty one is of a key without a name. Raises
    `BadTokenKeys`.
    """
    found: dict[str, TokenKey] = {}
    if configuration.jwks_file is not None:
        _read_set(configuration.jwks_file, found)
    for name, path in configuration.signing_keys:
        if name in found:
            raise BadTokenKeys(f"{path}: there is another key '{name}'; a key's name is unique")
        found[name] = _pem_key(path)
    default = configuration.default_key
    if default and default not in found:
        raise BadTokenKeys(f"oauth2.default_key: there is no key '{default}'")
    return found


def _read_set(path: Path, found: dict[str, TokenKey]) -> None:
    try:
        read = json.loads(_octets_of(path))
        rows = read["keys"]
        assert isinstance(rows, list)
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
        raise BadTokenKeys(f'{path} is not a JWK set: it must be JSON with "keys"') from error
    for row in rows:
        if not isinstance(row, dict) or row.get("kty") not in _KINDS:
            # Other kinds may be in a set; nobody can use them here.
            continue
        if row.get("use", "sig") != "sig":
            continue
        name = row.get("kid", "")
        if not isinstance(name, str) or name in found:
            raise BadTokenKeys(f"{path}: the name of a key ('kid') is not a text, or is not unique")
        try:
            key = jwt.PyJWK(_without_algorithm(row)).key
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise BadTokenKeys(f"{path}: key '{name}' is not valid: {error}") from error
        found[name] = _usable(key, f"{path}: key '{name}'", row.get("alg"))
    if not found:
        raise BadTokenKeys(f"{path} has no key for signatures")


def _without_algorithm(row: dict[str, Any]) -> dict[str, Any]:
    """The library would refuse a set that names an algorithm it does not know. What the key may be used
    with is decided by its kind.
    """
    return {name: value for name, value in row.items() if name != "alg"}


def _pem_key(path: Path) -> TokenKey:
    octets = _octets_of(path)
    try:
        if b"BEGIN CERTIFICATE" in octets:
            key: Any = load_pem_x509_certificate(octets).public_key()
        else:
            key = load_pem_public_key(octets)
    except ValueError as error:
        raise BadTokenKeys(
            f"{path} is not a public key or a certificate in PEM form: {error}"
        ) from error
    return _usable(key, str(path), None)


def _usable(key: Any, what: str, said: object) -> TokenKey:
    if hasattr(key, "public_key"):
        # A private key; only its public half is kept.
        key = key.public_key()
    algorithms: frozenset[str] = frozenset()
    if isinstance(key, bytes):
        if len(key) < SECRET_BYTES_MIN:
            raise BadTokenKeys(f"{what} is shorter than {SECRET_BYTES_MIN} bytes")
        algorithms = _SECRET_ALGORITHMS
    elif isinstance(key, rsa.RSAPublicKey):
        if key.key_size < RSA_BITS_MIN:
            raise BadTokenKeys(f"{what} has {key.key_size} bits, less than {RSA_BITS_MIN}")
        algorithms = _RSA_ALGORITHMS
    elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        algorithms = frozenset({_CURVES[key.curve.name]})
    elif isinstance(key, (ed25519.Ed25519PublicKey, ed448.Ed448PublicKey)):
        algorithms = frozenset({"EdDSA"})
    else:
        raise BadTokenKeys(f"{what} is of a kind with which no token can be signed")
    if isinstance(said, str):
        # A set may say more narrowly what a key is for.
        algorithms &= {said}
    return TokenKey(key, algorithms)


def _octets_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            octets = file.read(KEY_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadTokenKeys(f"cannot read the keys of tokens: {error}") from error
    if len(octets) > KEY_FILE_BYTES_MAX:
        raise BadTokenKeys(f"{path} is larger than {KEY_FILE_BYTES_MAX} bytes")
    return octets
