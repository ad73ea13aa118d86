"""The verifier of tokens, whose libraries are an extra that need not be installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.token_settings import TokenConfiguration, TokensUnavailable

if TYPE_CHECKING:
    from penstock.server.tokens import JwtVerifier


def token_verifier(configuration: TokenConfiguration) -> JwtVerifier | None:
    """None when no tokens are accepted. Raises `TokensUnavailable`."""
    has_keys = configuration.jwks_file is not None or bool(configuration.signing_keys)
    if not configuration.is_enabled:
        if has_keys:
            raise TokensUnavailable(
                "keys of tokens are configured, but no tokens are accepted: set "
                "oauth2.resource_server_id"
            )
        return None
    if not has_keys:
        raise TokensUnavailable(
            "oauth2.resource_server_id is set, but there are no keys to check tokens with: set "
            "oauth2.jwks_file or oauth2.signing_keys"
        )
    try:
        # Of an extra, and imported by nobody who does not use it.
        from penstock.server.tokens import JwtVerifier
    except ImportError as error:
        raise TokensUnavailable(
            f"oauth2.resource_server_id is set, but tokens cannot be checked: {error}. Install what "
            "that takes: pip install 'penstock[oauth2]'"
        ) from error
    return JwtVerifier(configuration)
