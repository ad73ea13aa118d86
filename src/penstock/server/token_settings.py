"""What the configuration says about OAuth 2 tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from penstock.wire.amqp10.limits import Limits

TokenAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    "HS256", "HS384", "HS512",
]  # fmt: skip
# Without HS256 and its kind: who can check such a token can also make one.
ASYMMETRIC: Final[tuple[TokenAlgorithm, ...]] = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip


# The first frame of an AMQP 1.0 client with a token: that is larger than the 512 octets with which
# peers begin. As many as RabbitMQ takes, and as we take of AMQP 0-9-1.
LOGIN_FRAME_OCTETS: Final = 8_192


class TokensUnavailable(Exception):
    """Tokens are configured and cannot be checked; the text says what to do."""


@dataclass(frozen=True, slots=True)
class TokenConfiguration:
    """Held by the server's configuration, and by the verifier."""

    resource_server_id: str = ""  # empty: tokens are not accepted
    issuer: str = ""  # empty: any
    jwks_file: Path | None = None
    signing_keys: tuple[tuple[str, Path], ...] = ()  # PEM files, by the name of their key
    default_key: str = ""  # of tokens that name none
    algorithms: tuple[str, ...] = ASYMMETRIC
    verify_aud: bool = True
    scope_prefix: str = ""  # empty: the resource server id and a dot
    additional_scopes_key: str = ""
    preferred_username_claims: tuple[str, ...] = ()

    @property
    def is_enabled(self) -> bool:
        return bool(self.resource_server_id)

    @property
    def prefix(self) -> str:
        return self.scope_prefix or f"{self.resource_server_id}."


def amqp10_limits(configuration: TokenConfiguration) -> Limits:
    if configuration.is_enabled:
        return Limits(frame_max_before_open=LOGIN_FRAME_OCTETS)
    return Limits()
