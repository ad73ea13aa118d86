"""The configuration file: TOML, every key optional, every mistake named with its place.

`config_model` has its tables, `config_tables` makes the server's configuration of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from penstock.server.config_environment import variable_of, variables_in
from penstock.server.config_model import ConfigurationFile
from penstock.server.config_tables import configured
from penstock.server.server_configuration import ServerConfiguration

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


class ConfigurationError(Exception):
    """The file cannot be used; the text says where and why."""


_NOTHING_SAID: Final = ConfigurationFile()
# What each variable sets: PENSTOCK_LISTEN_PORT is listen.port.
VARIABLES: Final = {
    variable_of(name, key): (name, key)
    for name, keys in _NOTHING_SAID.model_dump().items()
    for key in keys
}


@dataclass(frozen=True, slots=True)
class ReadConfiguration:
    """What the file and the environment say together. Held while a broker starts or reloads."""

    configuration: ServerConfiguration
    tables: ConfigurationFile
    # "table.key" to where its value comes from: the name of a variable, or "file".
    sources: dict[str, str]


def read_configuration(
    path: Path | None, environment: Mapping[str, str] | None = None
) -> ReadConfiguration:
    """The environment overrides the file. Raises ConfigurationError that lists every error, not only
    the first.
    """
    table = {} if path is None else _file_table(path)
    sources = {
        f"{name}.{key}": "file"
        for name, keys in table.items()
        if isinstance(keys, dict)
        for key in keys
    }
    variables = variables_in(environment or {})
    unknown = [variable for variable in variables if variable not in VARIABLES]
    for variable, text in variables.items():
        if variable in unknown:
            continue
        name, key = VARIABLES[variable]
        keys = table.setdefault(name, {})
        if isinstance(keys, dict):
            keys[key] = _value_of(name, key, text)
            sources[f"{name}.{key}"] = variable
    lines = [f"  {variable}: unknown key; see docs/CONFIGURATION.md" for variable in unknown]
    try:
        read = ConfigurationFile.model_validate(table)
    except ValidationError as error:
        for mistake in error.errors():
            place = ".".join(str(part) for part in mistake["loc"])
            at = sources.get(".".join(str(part) for part in mistake["loc"][:2]), "file")
            shown = place if at == "file" else at
            lines.append(f"  {shown}: {_explained(mistake['type'], mistake['msg'])}")
    if lines:
        count = len(lines)
        origin = path or "the environment"
        heading = f"{origin} has {count} error{'s' if count > 1 else ''}:"
        raise ConfigurationError("\n".join([heading, *lines]))
    return ReadConfiguration(
        configured(read, Path() if path is None else path.parent), read, sources
    )


def _file_table(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the configuration file {path}: {error}") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error


def _value_of(table: str, key: str, text: str) -> object:
    """A variable's text as the value that the file would have. What does not fit stays a text, and
    the model says what is wrong with it.
    """
    known: FieldInfo = type(getattr(_NOTHING_SAID, table)).model_fields[key]
    if isinstance(known.default, list):
        return [word.strip() for word in text.split(",") if word.strip()]
    if isinstance(known.default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(known.default, int):
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() else text
    if text and isinstance(known.json_schema_extra, dict) and known.json_schema_extra["path"]:
        # Whoever sets a variable means the directory that the process is started in.
        return str(Path(text).absolute())
    return text


def _explained(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "unknown key; see `penstock serve --help` and docs/CONFIGURATION.md"
    return message
