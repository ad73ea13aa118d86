"""Where the broker is and who asks: options, then the environment, then a profile, then guest.

~/.config/penstock/profile.toml, readable by its owner only:

    default = "production"

    [production]
    server = "https://broker.example.org:15671"
    user = "ann"
    password = "..."
    vhost = "orders"
    ca = "ca.pem"
"""

from __future__ import annotations

import os
import stat
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_SERVER: Final = "http://127.0.0.1:15672"
# Who else may read the file could log in.
_FOREIGN_MODES: Final = stat.S_IRWXG | stat.S_IRWXO
_DEFAULT_KEY: Final = "default"


class ProfileError(Exception):
    """The profile file cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Profile:
    """An address and a login. An empty text stands for what is not said."""

    server: str = ""
    user: str = ""
    password: str = ""
    vhost: str = ""
    ca: str = ""


_KEYS: Final = tuple(field.name for field in fields(Profile))


def profile_path(environment: Mapping[str, str]) -> Path:
    settings = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(settings).expanduser() / "penstock" / "profile.toml"


def chosen_profile(given: Profile, name: str, environment: Mapping[str, str]) -> Profile:
    """What is in force: options (`given`), then variables, then the profile, then the defaults.
    Raises `ProfileError`.
    """
    stored = _stored(name or environment.get("PENSTOCK_PROFILE", ""), profile_path(environment))
    variables = Profile(
        environment.get("PENSTOCK_SERVER", ""),
        environment.get("PENSTOCK_USER", ""),
        environment.get("PENSTOCK_PASSWORD", ""),
        environment.get("PENSTOCK_VHOST", ""),
        environment.get("PENSTOCK_CA", ""),
    )
    server = given.server or variables.server or stored.server or DEFAULT_SERVER
    user, password = _login((given, variables, stored), server == stored.server)
    return Profile(
        server,
        user,
        password,
        given.vhost or variables.vhost or stored.vhost,
        given.ca or variables.ca or stored.ca,
    )


def _login(sources: tuple[Profile, Profile, Profile], is_stored_server: bool) -> tuple[str, str]:
    """A password belongs to the user beside it: the profile's is not tried for another user, nor
    sent to another server.
    """
    given, variables, stored = sources
    user = given.user or variables.user
    if not user and stored.user and is_stored_server:
        return stored.user, variables.password or stored.password
    if not user:
        return "guest", variables.password or "guest"
    if user == stored.user and is_stored_server and not variables.password:
        return user, stored.password
    return user, variables.password


def _stored(name: str, path: Path) -> Profile:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & _FOREIGN_MODES:
                raise ProfileError(
                    f"{path} can be read by others (mode {stat.S_IMODE(mode):04o}), and it may "
                    f"hold passwords. Run: chmod 600 {path}"
                )
            tables = tomllib.load(file)
    except FileNotFoundError:
        if name:
            raise ProfileError(
                f"there is no profile {name!r}: {path} does not exist. Create it with a table "
                f"[{name}] and mode 0600, or leave out --profile"
            ) from None
        return Profile()
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"cannot read the profile file {path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path} is not valid TOML: {error}") from error
    return _in_tables(tables, name, path)


def _in_tables(tables: dict[str, object], name: str, path: Path) -> Profile:
    default = tables.pop(_DEFAULT_KEY, "")
    if isinstance(default, dict):
        # A profile of that name is the default one.
        tables[_DEFAULT_KEY], default = default, _DEFAULT_KEY
    wanted = name or str(default)
    if not wanted:
        return Profile()
    table = tables.get(wanted)
    if not isinstance(table, dict):
        known = ", ".join(sorted(tables)) or "none"
        raise ProfileError(f"{path} has no profile {wanted!r}; it has: {known}")
    values: dict[str, str] = {}
    for key, value in table.items():
        if key not in _KEYS or not isinstance(value, str):
            raise ProfileError(
                f"{path}: {wanted}.{key} is not a valid entry. The entries are "
                f"{', '.join(_KEYS)}, each a string"
            )
        values[key] = value
    if values.get("ca"):
        values["ca"] = str(path.parent / Path(values["ca"]).expanduser())
    return Profile(**values)
