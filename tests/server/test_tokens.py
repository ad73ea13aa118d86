"""Which tokens are good, and why others are not. Real keys and real signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm

from penstock.broker.access.permissions import Permission, ResourceKind
from penstock.broker.access.tokens import TokenGrant
from penstock.server.token_keys import BadTokenKeys
from penstock.server.token_settings import ASYMMETRIC, TokenConfiguration
from penstock.server.tokens import TOKEN_OCTETS_MAX, JwtVerifier
from tests.support.tokens import SERVER, Provider


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@pytest.fixture
def configuration(provider: Provider, tmp_path: Path) -> TokenConfiguration:
    return TokenConfiguration(SERVER, jwks_file=provider.write_set(tmp_path / "keys.json"))


@pytest.fixture
def verifier(configuration: TokenConfiguration) -> JwtVerifier:
    return JwtVerifier(configuration)


def wall() -> int:
    return time.time_ns() // 1_000_000


def grant(verifier: JwtVerifier, token: str) -> TokenGrant:
    verdict = verifier.verify(token.encode(), wall())
    assert verdict.grant is not None, verdict.reason
    return verdict.grant


def reason(verifier: JwtVerifier, token: str) -> str:
    verdict = verifier.verify(token.encode(), wall())
    assert verdict.grant is None
    # The log must not have what would let its reader log in.
    assert token[-40:] not in verdict.reason
    return verdict.reason


def segment(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_good_token_says_who_may_do_what(verifier: JwtVerifier, provider: Provider) -> None:
    found = grant(verifier, provider.token("read:%2F/q*", "tag:monitoring", "nonsense"))
    assert (found.user, found.tags) == ("ann", ("monitoring",))
    assert abs(found.expires_at - wall() - 3_600_000) < 120_000
    access = found.access("/")
    assert access is not None
    assert access.may(Permission.READ, ResourceKind.QUEUE, "q1")
    assert found.access("other") is None


def test_a_token_without_an_end_lasts(verifier: JwtVerifier, provider: Provider) -> None:
    assert not grant(verifier, provider.token(exp=None)).has_expired(2**62)


def test_a_changed_token_is_refused(verifier: JwtVerifier, provider: Provider) -> None:
    head, _, signature = provider.token().split(".")
    forged = segment(provider.claims(user="root"))
    assert "the signature is not of the key 'key-1'" in reason(
        verifier, f"{head}.{forged}.{signature}"
    )


def test_a_key_of_somebody_else_is_refused(verifier: JwtVerifier) -> None:
    stranger = Provider()
    assert "the signature is not of the key" in reason(verifier, stranger.token())


def test_an_unknown_key_is_refused(verifier: JwtVerifier, provider: Provider) -> None:
    token = provider.signed(provider.claims(), name="key-9")
    assert "the key 'key-9', which is not known" in reason(verifier, token)


def test_a_token_that_names_no_key_takes_the_default_one(
    configuration: TokenConfiguration, provider: Provider
) -> None:
    head, rest = segment({"alg": "RS256"}), provider.token().partition(".")[2]
    assert "the key '', which is not known" in reason(JwtVerifier(configuration), f"{head}.{rest}")
    # With a default key it is looked at: what was changed is no longer what was signed.
    named = JwtVerifier(replace(configuration, default_key="key-1"))
    assert "the signature is not of the key 'key-1'" in reason(named, f"{head}.{rest}")


@pytest.mark.parametrize("name", ["none", "None", "NONE", "", None, 7, ["RS256"], {"a": 1}])
def test_a_token_without_a_signature_is_refused(
    verifier: JwtVerifier, provider: Provider, name: object
) -> None:
    token = f"{segment({'alg': name, 'kid': 'key-1'})}.{segment(provider.claims())}."
    assert verifier.is_token(token.encode())
    assert "algorithm" in reason(verifier, token) or "not a JSON Web Token" in reason(
        verifier, token
    )


@pytest.mark.parametrize("allowed", [ASYMMETRIC, (*ASYMMETRIC, "HS256")])
def test_a_public_key_is_no_secret(
    configuration: TokenConfiguration, provider: Provider, allowed: tuple[str, ...]
) -> None:
    """Everybody has the public key, and could sign with it as if it were a password."""
    signed = f"{segment({'alg': 'HS256', 'kid': 'key-1'})}.{segment(provider.claims())}"
    digest = hmac.digest(provider.pem(), signed.encode(), hashlib.sha256)
    token = f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
    verifier = JwtVerifier(replace(configuration, algorithms=allowed))
    assert "its algorithm 'HS256' is not" in reason(verifier, token)


def test_times_are_kept(verifier: JwtVerifier, provider: Provider) -> None:
    assert "it has expired" in reason(verifier, provider.token(seconds=-1))
    now = int(time.time())
    assert "it is not yet valid" in reason(verifier, provider.token(nbf=now + 600))
    # Clocks differ a little.
    grant(verifier, provider.token(nbf=now + 1))
    token = provider.token(seconds=600).encode()
    assert verifier.verify(token, wall()).grant is not None
    assert verifier.verify(token, wall() + 601_000).grant is None


@pytest.mark.parametrize("value", ["soon", True, [], {}, 10**30, 1e300, -(10**40)])
@pytest.mark.parametrize("name", ["exp", "nbf"])
def test_a_time_that_is_none_is_refused(
    verifier: JwtVerifier, provider: Provider, name: str, value: object
) -> None:
    token = _signed_raw(provider, {**provider.claims(), name: value})
    assert f"its claim '{name}' is not a time" in reason(verifier, token)


def _signed_raw(provider: Provider, claims: dict[str, object]) -> str:
    token: str = jwt.PyJWS().encode(
        json.dumps(claims).encode(), provider.key, "RS256", headers={"kid": provider.name}
    )
    return token


@pytest.mark.parametrize("audience", ["other", ["other"], "", [], None, 5, {"rabbit": 1}])
def test_a_token_for_somebody_else_is_refused(
    configuration: TokenConfiguration, provider: Provider, audience: object
) -> None:
    claims: dict[str, object] = {**provider.claims(), "aud": audience}
    token = _signed_raw(provider, claims)
    assert "its audience" in reason(JwtVerifier(configuration), token)
    grant(JwtVerifier(replace(configuration, verify_aud=False)), token)


@pytest.mark.parametrize("audience", ["rabbit", "other rabbit", ["other", "rabbit"]])
def test_an_audience_is_a_text_or_a_list(
    verifier: JwtVerifier, provider: Provider, audience: object
) -> None:
    grant(verifier, provider.token(aud=audience))


def test_the_issuer_is_checked_when_there_is_one(
    configuration: TokenConfiguration, provider: Provider
) -> None:
    named = JwtVerifier(replace(configuration, issuer="https://provider.example"))
    grant(named, provider.token())
    assert "its issuer 'https://evil.example'" in reason(
        named, provider.token(iss="https://evil.example")
    )
    assert "its issuer None" in reason(named, provider.token(iss=None))


@pytest.mark.parametrize("scope", ["", "read:*/*", "other.read:*/*", [], None, 7, "rabbit.read:x"])
def test_a_token_without_scopes_is_refused(
    verifier: JwtVerifier, provider: Provider, scope: object
) -> None:
    assert "no valid scope that begins with 'rabbit.'" in reason(
        verifier, provider.token(scope=scope)
    )


def test_scopes_are_found_where_the_configuration_says(
    configuration: TokenConfiguration, provider: Provider
) -> None:
    verifier = JwtVerifier(
        replace(configuration, additional_scopes_key="roles realm.roles complex")
    )
    places: tuple[dict[str, Any], ...] = (
        {"scope": ["rabbit.read:v/n"]},
        {"roles": "x rabbit.read:v/n"},
        {"realm": {"roles": ["rabbit.read:v/n"]}},
        {"realm": [{"roles": ["x"]}, {"roles": "rabbit.read:v/n"}]},
        {"complex": {"rabbit": ["read:v/n"], "other": ["write:*/*"]}},
        {"authorization": {"permissions": [{"scopes": ["rabbit.read:v/n"]}]}},
    )
    for claims in places:
        found = grant(verifier, provider.token(**{"scope": None, **claims}))
        access = found.access("v")
        assert access is not None, claims
        assert access.may(Permission.READ, ResourceKind.QUEUE, "n")
        assert not access.may(Permission.WRITE, ResourceKind.QUEUE, "n")


def test_the_prefix_of_scopes_can_be_another(
    configuration: TokenConfiguration, provider: Provider
) -> None:
    verifier = JwtVerifier(replace(configuration, scope_prefix="api://"))
    assert grant(verifier, provider.token(scope="api://read:v/n")).access("v") is not None
    assert "begins with 'api://'" in reason(verifier, provider.token())


def test_the_first_claim_that_names_the_user_counts(
    configuration: TokenConfiguration, provider: Provider
) -> None:
    verifier = JwtVerifier(replace(configuration, preferred_username_claims=("mail", "nick")))
    assert grant(verifier, provider.token(nick="a", mail="m")).user == "m"
    assert grant(verifier, provider.token(nick="a")).user == "a"
    assert grant(verifier, provider.token()).user == "ann"
    assert grant(verifier, provider.token(sub=None, client_id="robot")).user == "robot"
    assert "names a user" in reason(verifier, provider.token(sub=None))
    for name in ("a\0b", "x" * 256, "\ud800"):
        assert "not a valid user name" in reason(verifier, provider.token(nick=name))


def test_what_is_no_token_is_a_password(verifier: JwtVerifier, provider: Provider) -> None:
    assert verifier.is_token(provider.token().encode())
    for password in (
        b"",
        b"guest",
        b"a.b.c",
        b"eye.of.tiger",
        b"ey.ey.ey",
        b"eyJ9.x",
        b"\xff.\xff.",
    ):
        assert not verifier.is_token(password)


@pytest.mark.parametrize(
    "token", ["", "a.b.c", "eyJhbGciOiJSUzI1NiJ9", "....", "eyJhbGciOiJSUzI1NiJ9.e30.!", "é.é.é"]
)
def test_what_is_no_token_is_refused(verifier: JwtVerifier, token: str) -> None:
    assert verifier.verify(token.encode(), wall()).grant is None


def test_a_token_that_is_too_long_is_refused_unread(
    verifier: JwtVerifier, provider: Provider
) -> None:
    token = provider.token(junk="x" * TOKEN_OCTETS_MAX)
    assert f"longer than {TOKEN_OCTETS_MAX} bytes" in reason(verifier, token)


def test_other_kinds_of_keys(
    configuration: TokenConfiguration, provider: Provider, tmp_path: Path
) -> None:
    curve, edwards = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
    secret = b"0123456789abcdef0123456789abcdef"
    file = tmp_path / "others.json"
    k = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    rows = [
        {**json.loads(ECAlgorithm.to_jwk(curve.public_key())), "kid": "EC"},
        {**json.loads(OKPAlgorithm.to_jwk(edwards.public_key())), "kid": "OKP"},
        {"kty": "oct", "k": k, "kid": "oct"},
        {"kty": "new"},
        {"kty": "RSA", "use": "enc", "kid": "oct"},
    ]
    file.write_text(json.dumps({"keys": rows}))
    wanted = replace(configuration, jwks_file=file)
    verifier = JwtVerifier(wanted)
    claims = provider.claims()
    for name, key, algorithm in (("EC", curve, "ES256"), ("OKP", edwards, "EdDSA")):
        token = jwt.encode(claims, key, algorithm, headers={"kid": name})
        grant(verifier, token)
    shared = jwt.encode(claims, secret, "HS256", headers={"kid": "oct"})
    assert "'HS256' is not one of oauth2.algorithms" in reason(verifier, shared)
    grant(JwtVerifier(replace(wanted, algorithms=("HS256",))), shared)


def test_new_keys_replace_the_old_ones_and_bad_ones_do_not(
    configuration: TokenConfiguration, provider: Provider
) -> None:
    verifier = JwtVerifier(configuration)
    file = configuration.jwks_file
    assert file is not None
    file.write_text("{")
    with pytest.raises(BadTokenKeys):
        verifier.change(configuration)
    grant(verifier, provider.token())
    second = Provider("key-2")
    second.write_set(file)
    verifier.change(configuration)
    grant(verifier, second.token())
    assert "is not known" in reason(verifier, provider.token())


def test_a_short_key_is_refused(configuration: TokenConfiguration, tmp_path: Path) -> None:
    short = Provider()
    short.key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    with pytest.raises(BadTokenKeys, match="has 1024 bits, less than 2048"):
        JwtVerifier(replace(configuration, jwks_file=short.write_set(tmp_path / "short.json")))
