"""The table of keys, the example in the page and the example file are those that the model gives.

`python -m tests.test_docs_configuration` writes them anew after a key has changed.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from penstock.server.config_environment import TABLES, variable_of
from penstock.server.config_file import read_configuration
from penstock.server.config_model import ConfigurationFile
from penstock.server.configuration_changes import PLACES, RELOADED
from penstock.server.server_configuration import ServerConfiguration

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "CONFIGURATION.md"
EXAMPLE = ROOT / "examples" / "penstock.toml"
PART = re.compile(r"^<!-- generated: (\w+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
NOTHING_SAID = ConfigurationFile()
LINE_WIDTH = 100


def fields() -> dict[tuple[str, str], FieldInfo]:
    found: dict[tuple[str, str], FieldInfo] = {}
    for table in ConfigurationFile.model_fields:
        keys: BaseModel = getattr(NOTHING_SAID, table)
        for key, field in type(keys).model_fields.items():
            found[(table, key)] = field
    return found


def is_reloaded(field: FieldInfo) -> bool:
    assert isinstance(field.json_schema_extra, dict)
    return field.json_schema_extra["reloaded"] is True


def toml_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(toml_of(one) for one in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def default_of(field: FieldInfo) -> str:
    default = field.default
    # One host may stand without brackets.
    return toml_of(default[0] if isinstance(default, list) and len(default) == 1 else default)


def bound(field: FieldInfo, name: str) -> int | None:
    for part in field.metadata:
        value = getattr(part, name, None)
        if isinstance(value, int):
            return value
    return None


def words(annotation: object) -> str:
    return ", ".join(f"`{toml_of(word)}`" for word in get_args(annotation))


def range_of(field: FieldInfo) -> str:
    annotation: object = field.annotation
    if isinstance(field.default, bool):
        return "`true`, `false`"
    if get_origin(annotation) is Literal:
        return words(annotation)
    if isinstance(field.default, list):
        [inner] = get_args(annotation)
        if get_origin(inner) is Literal:
            return f"a list of {words(inner)}"
        most = bound(field, "max_length")
        return f"a list of up to {most} strings"
    if isinstance(field.default, int):
        least, most = bound(field, "ge"), bound(field, "le")
        return f"from {least}" if most is None else f"{least} to {most}"
    return "a string"


def table_text() -> str:
    lines = ["| key | range | reload | meaning |", "|---|---|---|---|"]
    for (table, key), field in fields().items():
        reload = "yes" if is_reloaded(field) else "restart"
        lines.append(f"| `{table}.{key}` | {range_of(field)} | {reload} | {field.description} |")
    return "\n".join([*lines, ""])


def toml_text() -> str:
    lines: list[str] = []
    for (table, key), field in fields().items():
        if f"[{table}]" not in lines:
            lines += ["", f"[{table}]"]
        lines.append(f"{key} = {default_of(field)}")
    return "\n".join(["```toml", *lines[1:], "```", ""])


def commented(text: str) -> list[str]:
    lines = ["#"]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > LINE_WIDTH:
            lines.append("#")
        lines[-1] += f" {word}"
    return lines


def example_text() -> str:
    lines = [
        "# Every key of Penstock's configuration with its default. Copy what you change.",
        "# Check a file with: penstock config check FILE",
    ]
    current = ""
    for (table, key), field in fields().items():
        if table != current:
            current = table
            lines += ["", f"[{table}]"]
        note = LINK.sub(r"\1", field.description or "").replace("`", "")
        when = "on SIGHUP" if is_reloaded(field) else "with a restart"
        kind = range_of(field).replace("`", "")
        lines += ["", *commented(f"{note} ({kind}; {variable_of(table, key)}; {when})")]
        lines.append(f"# {key} = {default_of(field)}")
    return "\n".join([*lines, ""])


PARTS = {"keys": table_text, "file": toml_text}


def rewritten(text: str) -> str:
    return PART.sub(
        lambda found: f"<!-- generated: {found[1]} -->\n{PARTS[found[1]]()}<!-- end -->", text
    )


def test_every_part_of_the_page_is_there() -> None:
    assert {name for name, _ in PART.findall(PAGE.read_text("utf-8"))} == set(PARTS)


@pytest.mark.parametrize("name", PARTS)
def test_the_page_shows_what_the_model_says(name: str) -> None:
    shown = dict(PART.findall(PAGE.read_text("utf-8")))[name]
    assert shown == PARTS[name](), "run python -m tests.test_docs_configuration"


def test_a_planted_wrong_default_is_found() -> None:
    text = PAGE.read_text("utf-8")
    planted = text.replace("port = 5672\n", "port = 5673\n", 1)
    assert planted != text
    assert rewritten(planted) == text


def test_the_example_file_is_the_models() -> None:
    assert EXAMPLE.read_text("utf-8") == example_text(), (
        "run python -m tests.test_docs_configuration"
    )


def test_the_example_file_with_its_comments_taken_off_is_the_default(tmp_path: Path) -> None:
    text = re.sub(r"^# (\w+ = )", r"\1", EXAMPLE.read_text("utf-8"), flags=re.MULTILINE)
    file = tmp_path / "penstock.toml"
    file.write_text(text, "utf-8")
    assert {(table, key) for table, keys in tomllib.loads(text).items() for key in keys} == set(
        fields()
    )
    assert read_configuration(file).configuration == ServerConfiguration()


def test_every_key_is_described() -> None:
    assert all(field.description for field in fields().values())


def test_the_tables_that_variables_name_are_those_of_the_file() -> None:
    assert set(TABLES) == set(ConfigurationFile.model_fields)


def test_reloading_knows_every_key_and_those_that_it_changes() -> None:
    assert set(PLACES) == {f"{table}.{key}" for table, key in fields()}
    marked = {f"{table}.{key}" for (table, key), field in fields().items() if is_reloaded(field)}
    assert marked == RELOADED


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text("utf-8")), "utf-8")
    EXAMPLE.write_text(example_text(), "utf-8")
