"""Where the broker is and who asks: options, variables, the profile, guest."""

from pathlib import Path

import pytest

from penstock.cli.administering.profiles import (
    DEFAULT_SERVER,
    Profile,
    ProfileError,
    chosen_profile,
    profile_path,
)

TEXT = """
default = "production"

[production]
server = "https://broker.example.org"
user = "ann"
password = "secret"
ca = "ca.pem"

[test]
server = "http://127.0.0.1:1"
"""


def home_with(folder: Path, text: str, mode: int = 0o600) -> dict[str, str]:
    environment = {"XDG_CONFIG_HOME": str(folder)}
    path = profile_path(environment)
    path.parent.mkdir()
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return environment


def test_without_anything_guest_asks_the_broker_on_this_machine(tmp_path: Path) -> None:
    chosen = chosen_profile(Profile(), "", {"XDG_CONFIG_HOME": str(tmp_path)})
    assert chosen == Profile(DEFAULT_SERVER, "guest", "guest")


def test_the_default_profile_is_taken_and_another_one_by_its_name(tmp_path: Path) -> None:
    environment = home_with(tmp_path, TEXT)
    chosen = chosen_profile(Profile(), "", environment)
    assert (chosen.server, chosen.user, chosen.password) == (
        "https://broker.example.org",
        "ann",
        "secret",
    )
    assert chosen.ca == str(tmp_path / "penstock" / "ca.pem")
    assert chosen_profile(Profile(), "test", environment).server == "http://127.0.0.1:1"
    by_variable = {**environment, "PENSTOCK_PROFILE": "test"}
    assert chosen_profile(Profile(), "", by_variable).server == "http://127.0.0.1:1"


def test_options_override_variables_which_override_the_profile(tmp_path: Path) -> None:
    environment = {
        **home_with(tmp_path, TEXT),
        "PENSTOCK_SERVER": "http://variable:1",
        "PENSTOCK_USER": "bob",
        "PENSTOCK_PASSWORD": "of bob",
    }
    chosen = chosen_profile(Profile(), "", environment)
    assert (chosen.server, chosen.user, chosen.password) == ("http://variable:1", "bob", "of bob")
    assert chosen_profile(Profile("http://option:1"), "", environment).server == "http://option:1"


def test_the_password_of_a_profile_goes_to_no_other_server_and_no_other_user(
    tmp_path: Path,
) -> None:
    environment = home_with(tmp_path, TEXT)
    elsewhere = chosen_profile(Profile("http://elsewhere:1"), "", environment)
    assert elsewhere.password != "secret"
    assert chosen_profile(Profile(user="bob"), "", environment).password == ""


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_that_others_can_read_is_refused(mode: int, tmp_path: Path) -> None:
    environment = home_with(tmp_path, TEXT, mode)
    with pytest.raises(ProfileError, match="chmod 600"):
        chosen_profile(Profile(), "", environment)


@pytest.mark.parametrize(
    ("text", "name", "complaint"),
    [
        ("[", "", "not valid TOML"),
        (TEXT, "nonesuch", "it has: production, test"),
        ("[a]\nport = 5", "a", "a.port is not a valid entry"),
        ("[a]\nserver = 5", "a", "a.server is not a valid entry"),
    ],
)
def test_a_wrong_file_is_named_with_its_mistake(
    text: str, name: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ProfileError, match=complaint):
        chosen_profile(Profile(), name, home_with(tmp_path, text))


def test_a_profile_without_a_file_says_what_to_create(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="does not exist"):
        chosen_profile(Profile(), "production", {"XDG_CONFIG_HOME": str(tmp_path)})
