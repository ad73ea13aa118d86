"""The READMEs of the rooms agree with the import contracts, the imports, the tests and the builds.

Each check is a function from a README's text to its mistakes, so that a wrong line can be planted.
"""

from __future__ import annotations

import ast
import configparser
import functools
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import toolchain

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "penstock"
ROOMS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
READMES = sorted(SOURCE.rglob("README.md"))
# The room whose README the planted mistakes are put into.
EXAMPLE = "broker"

SPAN = re.compile(r"`([^`]+)`")
TEST_PATH = re.compile(r"tests/[\w./*-]*[\w*]")


def text_of(room: str) -> str:
    return (SOURCE / room / "README.md").read_text("utf-8")


def sentence_after(marker: str, text: str) -> str:
    """The rest of the sentence that a bold marker begins; further sentences are free."""
    found = re.search(re.escape(f"**{marker}**") + r"(.*?)\.(?=\s|\Z)", text, re.DOTALL)
    return found[1] if found else ""


def rooms_after(marker: str, text: str) -> set[str]:
    return set(SPAN.findall(sentence_after(marker, text)))


def contracts() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return parser


def layers() -> list[set[str]]:
    text = contracts()["importlinter:contract:rooms"]["layers"]
    return [{name.strip(" ()") for name in line.split("|")} for line in text.strip().splitlines()]


def forbidden_to(room: str) -> set[str]:
    found: set[str] = set()
    parser = contracts()
    for section in parser.sections():
        contract = parser[section]
        if contract.get("type") != "forbidden":
            continue
        if f"penstock.{room}" in contract["source_modules"].split():
            found.update(contract["forbidden_modules"].split())
    return {name.removeprefix("penstock.") for name in found}


def allowed_to(room: str) -> set[str]:
    """What the contracts let a room import: the layers below it, less what is forbidden to it."""
    below = set(ROOMS)
    for position, layer in enumerate(layers()):
        if room in layer:
            below = set().union(*layers()[position + 1 :])
    # No layer holds the pipeline; contracts of its own keep it apart.
    below.add("spark")
    return (below & set(ROOMS)) - forbidden_to(room) - {room}


def room_of(module: str) -> str:
    """Modules beside the rooms count as the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "penstock"


@functools.cache
def imported_in(path: Path) -> set[str]:
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        rooms.update(room_of(name) for name in modules if name.split(".")[0] == "penstock")
    return rooms


def importers_of(room: str) -> set[str]:
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        importer = path.relative_to(SOURCE).parts[0]
        name = importer if importer in ROOMS else "penstock"
        if name != room and room in imported_in(path):
            found.add(name)
    return found


def wrong_may_import(room: str, text: str) -> list[str]:
    told, true = rooms_after("May import", text), allowed_to(room)
    return [] if told == true else [f"{room} may import {sorted(true)}, not {sorted(told)}"]


def wrong_imported_by(room: str, text: str) -> list[str]:
    told, true = rooms_after("Imported by", text), importers_of(room)
    return [] if told == true else [f"{room} is imported by {sorted(true)}, not {sorted(told)}"]


def paragraph_of_tests(text: str) -> str:
    return text.partition("**Tests.**")[2].partition("\n\n")[0]


def wrong_tests(room: str, text: str) -> list[str]:
    paths = TEST_PATH.findall(paragraph_of_tests(text))
    mistakes = [f"{room}: {path} does not exist" for path in paths if not any(ROOT.glob(path))]
    own = f"tests/{room}"
    if (ROOT / own).is_dir() and own not in paths:
        mistakes.append(f"{room}: {own} is not named")
    return mistakes if paths else [f"{room}: no tests are named"]


def build_of(room: str) -> str:
    compiled = set(toolchain.compiled_files(toolchain.read_project()))
    modules = {path for path in (SOURCE / room).rglob("*.py") if path.name != "__init__.py"}
    if not modules & compiled:
        return "Not compiled"
    return "All of it is compiled" if modules <= compiled else "is compiled; the rest is not"


def wrong_build(room: str, text: str) -> list[str]:
    words = " ".join(paragraph_of_tests(text).split())
    build = build_of(room)
    return [] if build in words else [f"{room}: the README does not say: {build}"]


CHECKS = [wrong_may_import, wrong_imported_by, wrong_tests, wrong_build]

# A pattern in the example room's README, and what is planted in its place.
PLANTS = [
    (wrong_may_import, r"\*\*May import\*\* ", "**May import** `wire`, "),
    (wrong_may_import, r"\*\*May import\*\* `formats`, ", "**May import** "),
    (wrong_imported_by, r"\*\*Imported by\*\* ", "**Imported by** `wire`, "),
    (wrong_imported_by, r"\*\*Imported by\*\* `cli`, ", "**Imported by** "),
    (wrong_tests, "tests/broker`", "tests/brokers`"),
    (wrong_build, r"All of it is\s+compiled", "Not compiled"),
]


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("check", CHECKS)
def test_the_readme_of_a_room_is_true(check: Callable[[str, str], list[str]], room: str) -> None:
    assert check(room, text_of(room)) == []


@pytest.mark.parametrize(("check", "pattern", "planted"), PLANTS)
def test_a_planted_wrong_line_is_found(
    check: Callable[[str, str], list[str]], pattern: str, planted: str
) -> None:
    text, count = re.subn(pattern, planted, text_of(EXAMPLE))
    assert count == 1
    assert check(EXAMPLE, text)


@pytest.mark.parametrize("path", READMES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_tests_that_any_readme_names_exist(path: Path) -> None:
    for test in TEST_PATH.findall(path.read_text("utf-8")):
        assert any(ROOT.glob(test)), f"{path.relative_to(ROOT)}: {test}"
