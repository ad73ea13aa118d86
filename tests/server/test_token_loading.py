"""What must be configured before tokens are accepted."""

from pathlib import Path

import pytest

from penstock.server.config_file import ConfigurationError, read_configuration
from penstock.server.token_loading import token_verifier
from penstock.server.token_settings import TokenConfiguration, TokensUnavailable
from tests.support.tokens import Provider


def test_without_a_configuration_there_are_no_tokens() -> None:
    assert token_verifier(TokenConfiguration()) is None


def test_half_a_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokensUnavailable, match=r"set oauth2\.resource_server_id"):
        token_verifier(TokenConfiguration(jwks_file=tmp_path))
    with pytest.raises(TokensUnavailable, match=r"set oauth2\.jwks_file or"):
        token_verifier(TokenConfiguration("rabbit"))


def test_a_file_says_where_its_keys_are(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(Provider().pem())
    file = tmp_path / "penstock.toml"
    file.write_text('[oauth2]\nresource_server_id = "rabbit"\nsigning_keys = ["key-1=key.pem"]\n')
    assert token_verifier(read_configuration(file).configuration.tokens) is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('signing_keys = ["key.pem"]', "'key.pem' is not of the form KID=FILE"),
        ('algorithms = ["none"]', "Input should be 'RS256'"),
        ("algorithms = []", "should have at least 1 item"),
    ],
)
def test_what_is_not_valid_is_refused(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(f"[oauth2]\n{line}\n")
    with pytest.raises(ConfigurationError, match=said):
        read_configuration(file)
