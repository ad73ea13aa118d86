"""Checks OAuth 2 tokens: JSON Web Tokens (RFC 7519) that a configured key has signed.

    form, algorithm, key, signature -> issuer, audience, times -> user, tags and scopes

A refusal says why, for the log; it quotes names that the token gives, cut short, and never the token.
Imported only where tokens are configured, because the libraries take a while.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final

import jwt

from penstock.broker.access.scopes import read_scopes, read_tags
from penstock.broker.access.tokens import (
    NEVER_EXPIRES,
    TokenGrant,
    TokenVerdict,
    TokenVerifier,
)
from penstock.server.token_keys import TokenKey, read_keys
from penstock.server.token_settings import TokenConfiguration

Claims = dict[str, object]

# Of a token with hundreds of scopes. A larger one is refused unread.
TOKEN_OCTETS_MAX: Final = 16 * 1024
# As long as names of users may be.
NAME_LENGTH_MAX: Final = 255
# Clocks differ: a token may be used this much earlier than it says. It never lives longer.
NOT_BEFORE_LEEWAY_MS: Final = 10_000
# Thirty thousand years after 1970.
_SECONDS_MAX: Final = 10**12
# Of what the log quotes.
_QUOTED_MAX: Final = 60
# How the beginning of a JSON object looks in base64.
_OBJECT_STARTS: Final = (b"ey", b"ew")
# A signed token has three parts, an encrypted one five.
_DOTS: Final = frozenset({2, 4})
# RabbitMQ's, after those of the configuration.
_NAME_CLAIMS: Final = ("sub", "client_id")
# Where Keycloak puts the scopes of a requesting party token.
_REQUESTING_PARTY: Final = "authorization.permissions.scopes"


class TokenRefused(Exception):
    """The text says why."""


class JwtVerifier(TokenVerifier):
    """Held by the container of the node. Used on the broker's loop and in the HTTP server's thread:
    what it reads of itself is replaced as a whole.
    """

    def __init__(self, configuration: TokenConfiguration) -> None:
        """Raises `BadTokenKeys`."""
        super().__init__()
        self._in_force = (configuration, read_keys(configuration))

    def change(self, configuration: TokenConfiguration) -> None:
        """Read the files again; raises `BadTokenKeys` and keeps what there is. Who has logged in stays
        until the token expires.
        """
        self._in_force = (configuration, read_keys(configuration))

    def is_token(self, password: bytes) -> bool:
        if not password.startswith(_OBJECT_STARTS) or password.count(b".") not in _DOTS:
            return False
        head = password.partition(b".")[0]
        try:
            octets = base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4))
            return isinstance(json.loads(octets), dict)
        except (binascii.Error, ValueError, RecursionError):
            return False

    def verify(self, token: bytes, wall: int) -> TokenVerdict:
        configuration, keys = self._in_force
        try:
            claims = _signed_claims(token, configuration, keys)
            return TokenVerdict(_grant_of(claims, configuration, wall))
        except TokenRefused as error:
            return TokenVerdict(None, f"the token is refused: {error}")


def _signed_claims(
    token: bytes, configuration: TokenConfiguration, keys: dict[str, TokenKey]
) -> Claims:
    if len(token) > TOKEN_OCTETS_MAX:
        raise TokenRefused(f"it is longer than {TOKEN_OCTETS_MAX} bytes")
    try:
        header = jwt.get_unverified_header(token)
    except Exception as error:
        # Of whatever kind: strangers send this.
        raise TokenRefused("it is not a JSON Web Token") from error
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in configuration.algorithms:
        raise TokenRefused(f"its algorithm {_quoted(algorithm)} is not one of oauth2.algorithms")
    name = header.get("kid", configuration.default_key)
    key = keys.get(name) if isinstance(name, str) else None
    if key is None:
        raise TokenRefused(f"it is signed with the key {_quoted(name)}, which is not known")
    if algorithm not in key.algorithms:
        raise TokenRefused(f"its algorithm {_quoted(algorithm)} is not of the key {_quoted(name)}")
    try:
        claims = jwt.decode(
            token,
            key=key.key,
            algorithms=[algorithm],
            # We check the claims ourselves, with the time that we are given.
            options={
                "verify_signature": True,
                "verify_aud": False,
                "verify_exp": False,
                "verify_iat": False,
                "verify_iss": False,
                "verify_jti": False,
                "verify_nbf": False,
                "verify_sub": False,
            },
        )
    except jwt.InvalidSignatureError as error:
        raise TokenRefused(f"the signature is not of the key {_quoted(name)}") from error
    except Exception as error:
        raise TokenRefused("it is not a valid JSON Web Token") from error
    return dict(claims)


def _grant_of(claims: Claims, configuration: TokenConfiguration, wall: int) -> TokenGrant:
    expires_at = _time_in(claims, "exp")
    if expires_at is not None and expires_at <= wall:
        raise TokenRefused("it has expired")
    begins_at = _time_in(claims, "nbf")
    if begins_at is not None and begins_at > wall + NOT_BEFORE_LEEWAY_MS:
        raise TokenRefused("it is not yet valid")
    issuer = configuration.issuer
    if issuer and claims.get("iss") != issuer:
        raise TokenRefused(f"its issuer {_quoted(claims.get('iss'))} is not oauth2.issuer")
    server = configuration.resource_server_id
    if configuration.verify_aud and server not in _words(claims.get("aud")):
        raise TokenRefused(f"its audience {_quoted(claims.get('aud'))} has not '{server}'")
    user = _user_in(claims, configuration)
    prefix = configuration.prefix
    texts = [
        scope[len(prefix) :]
        for scope in _scopes_in(claims, configuration)
        if scope.startswith(prefix)
    ]
    scopes, tags = read_scopes(texts), read_tags(texts)
    if not scopes and not tags:
        raise TokenRefused(f"it has no valid scope that begins with '{prefix}'")
    return TokenGrant(user, tags, scopes, NEVER_EXPIRES if expires_at is None else expires_at)


def _time_in(claims: Claims, name: str) -> int | None:
    """In milliseconds since 1970; None when the token does not say."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TokenRefused(f"its claim '{name}' is not a time")
    if not abs(value) <= _SECONDS_MAX:
        # Infinite ones and numbers that are none, too.
        raise TokenRefused(f"its claim '{name}' is not a time")
    return int(value * 1000)


def _user_in(claims: Claims, configuration: TokenConfiguration) -> str:
    names = (*configuration.preferred_username_claims, *_NAME_CLAIMS)
    for name in names:
        user = claims.get(name)
        if isinstance(user, str) and user:
            is_text = "\0" not in user and user == user.encode(errors="replace").decode()
            if len(user) > NAME_LENGTH_MAX or not is_text:
                raise TokenRefused(f"its claim '{name}' is not a valid user name")
            return user
    raise TokenRefused(f"none of its claims {', '.join(names)} names a user")


def _scopes_in(claims: Claims, configuration: TokenConfiguration) -> list[str]:
    found = _words(claims.get("scope"))
    paths = [_REQUESTING_PARTY, *configuration.additional_scopes_key.split()]
    for path in paths:
        for value in _values_at(claims, path.split(".")):
            if isinstance(value, dict):
                # Scopes by resource server, without its name.
                server = configuration.resource_server_id
                found += [f"{server}.{word}" for word in _words(value.get(server))]
            else:
                found += _words(value)
    return found


def _values_at(value: object, path: list[str]) -> list[object]:
    """What is found along a path of keys, in every member of the lists on the way."""
    if not path:
        return [value]
    if isinstance(value, list):
        return [found for member in value for found in _values_at(member, path)]
    if isinstance(value, dict) and path[0] in value:
        return _values_at(value[path[0]], path[1:])
    return []


def _words(value: object) -> list[str]:
    """Of a text with spaces, or of a list."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [word for word in value if isinstance(word, str)]
    return []


def _quoted(value: object) -> str:
    return repr(value)[:_QUOTED_MAX]
