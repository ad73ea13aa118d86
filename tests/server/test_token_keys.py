"""Keys from files: what is wrong with one is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.server.token_keys import KEY_FILE_BYTES_MAX, BadTokenKeys, read_keys
from penstock.server.token_settings import TokenConfiguration
from tests.support.certificates import authority
from tests.support.tokens import SERVER, Provider


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


def refused(configuration: TokenConfiguration) -> str:
    with pytest.raises(BadTokenKeys) as error:
        read_keys(configuration)
    return str(error.value)


def test_pem_files_have_the_names_of_the_configuration(provider: Provider, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(provider.pem())
    certificate = authority(tmp_path, "provider").file
    found = read_keys(
        TokenConfiguration(SERVER, signing_keys=(("one", file), ("two", certificate)))
    )
    assert sorted(found) == ["one", "two"]
    assert "RS256" in found["one"].algorithms
    assert "HS256" not in found["one"].algorithms


def test_a_key_that_says_its_algorithm_takes_no_other(provider: Provider, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [provider.jwk(alg="PS256")]}))
    [key] = read_keys(TokenConfiguration(SERVER, jwks_file=file)).values()
    assert key.algorithms == {"PS256"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not a JWK set"),
        ("[]", "is not a JWK set"),
        ('{"keys": 7}', "is not a JWK set"),
        ("[" * 100_000, "is not a JWK set"),
        ('{"keys": []}', "has no key for signatures"),
        ('{"keys": [{"kty": "RSA", "kid": "k"}]}', "key 'k' is not valid"),
        ('{"keys": [{"kty": "oct", "kid": "k", "k": "YWJj"}]}', "shorter than 32 bytes"),
        ('{"keys": [{"kty": "oct", "kid": 5, "k": "YWJj"}]}', "is not a text"),
        (" " * (KEY_FILE_BYTES_MAX + 1), "is larger than"),
    ],
)
def test_a_set_that_is_not_valid_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "keys.json"
    file.write_text(content)
    text = refused(TokenConfiguration(SERVER, jwks_file=file))
    assert said in text
    assert str(file) in text


def test_other_files_are_named(provider: Provider, tmp_path: Path) -> None:
    nowhere, text = tmp_path / "nowhere", tmp_path / "text"
    text.write_text("hello")
    assert "No such file" in refused(TokenConfiguration(SERVER, jwks_file=nowhere))
    said = refused(TokenConfiguration(SERVER, signing_keys=(("k", text),)))
    assert f"{text} is not a public key or a certificate" in said
    keys = provider.write_set(tmp_path / "keys.json")
    pem = tmp_path / "key.pem"
    pem.write_bytes(provider.pem())
    twice = TokenConfiguration(SERVER, jwks_file=keys, signing_keys=(("key-1", pem),))
    assert "there is another key 'key-1'" in refused(twice)
    missing = TokenConfiguration(SERVER, jwks_file=keys, default_key="other")
    assert "there is no key 'other'" in refused(missing)
