"""The table `oauth2` of the configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator

from penstock.server.config_keys import Table, file_key, key
from penstock.server.token_settings import ASYMMETRIC, TokenAlgorithm, TokenConfiguration

if TYPE_CHECKING:
    from pathlib import Path

# An operator writes them; an issuer has a few.
_KEYS_MAX: Final = 100
_CLAIMS_MAX: Final = 100


def _checked(pairs: list[str]) -> list[str]:
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not name or not path:
            raise ValueError(f"'{pair}' is not of the form KID=FILE")
    return pairs


_NamedFiles = Annotated[list[str], AfterValidator(_checked)]


class Oauth2Table(Table):
    resource_server_id: str = key(
        "",
        "the name of this broker at the OAuth 2 provider: the audience that a token must have, and "
        "the prefix of its scopes. If it is set, [tokens](#tokens) are accepted; that needs "
        "`pip install penstock[oauth2]`",
        reloaded=True,
    )
    issuer: str = key(
        "", "the issuer (`iss`) that a token must name; empty accepts any", reloaded=True
    )
    jwks_file: str = file_key(
        "a JSON file with the provider's keys (a JWK set); read again on SIGHUP", reloaded=True
    )
    signing_keys: _NamedFiles = key(
        [],
        "further keys, each as `KID=FILE`: the name that tokens give the key (`kid`), and a PEM file "
        "with the public key or a certificate",
        reloaded=True,
        max_length=_KEYS_MAX,
    )
    default_key: str = key("", "the name of the key of tokens that name none", reloaded=True)
    algorithms: list[TokenAlgorithm] = key(
        list(ASYMMETRIC),
        "the signatures that are accepted. `HS256`, `HS384` and `HS512` only if they are named here: "
        "who can check these can also make them",
        reloaded=True,
        min_length=1,
    )
    verify_aud: bool = key(
        True, "`false`: tokens for other audiences are accepted as well", reloaded=True
    )
    scope_prefix: str = key(
        "",
        "scopes that do not begin with it are ignored; empty means `oauth2.resource_server_id` and "
        "a dot",
        reloaded=True,
    )
    additional_scopes_key: str = key(
        "",
        "where else in a token scopes are: claims, divided by spaces, each of which may be a path "
        "such as `realm_access.roles`",
        reloaded=True,
    )
    preferred_username_claims: list[str] = key(
        [],
        "the claims that name the user; the first that a token has counts, then `sub` and "
        "`client_id`",
        reloaded=True,
        max_length=_CLAIMS_MAX,
    )

    def configuration(self, folder: Path) -> TokenConfiguration:
        pairs = [pair.partition("=") for pair in self.signing_keys]
        return TokenConfiguration(
            resource_server_id=self.resource_server_id,
            issuer=self.issuer,
            jwks_file=folder / self.jwks_file if self.jwks_file else None,
            signing_keys=tuple((name, folder / path) for name, _, path in pairs),
            default_key=self.default_key,
            algorithms=tuple(self.algorithms),
            verify_aud=self.verify_aud,
            scope_prefix=self.scope_prefix,
            additional_scopes_key=self.additional_scopes_key,
            preferred_username_claims=tuple(self.preferred_username_claims),
        )
