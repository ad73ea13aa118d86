"""The glossary is complete and true: nouns that rooms share stand in it, and what it names exists."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "penstock"
GLOSSARY = (ROOT / "docs" / "GLOSSARY.md").read_text("utf-8")
ROWS = [line for line in GLOSSARY.splitlines() if line.startswith("| ")]
SAME_NAME = GLOSSARY.partition("## Class names that several rooms have")[2]

# Modules whose classes are a kind of their own, one entry for all: what they have in common is in the
# row that names the module.
FAMILIES = ("broker/topology.py", "client/events.py", "wire/amqp10/values.py")
# Words of seeds whose rooms are not built.
NOT_BUILT = {"Partition"}
AMBIGUOUS = ("stage", "ledger", "sink", "piece", "head")


class Defined(NamedTuple):
    module: str
    name: str

    @property
    def room(self) -> str:
        return self.module.partition("/")[0]


def trees() -> dict[str, ast.Module]:
    """Every module that is written by hand, by its path."""
    return {
        str(path.relative_to(SOURCE)): ast.parse(path.read_bytes())
        for path in sorted(SOURCE.rglob("*.py"))
        if not path.stem.endswith("_generated")
    }


TREES = trees()
CLASSES = {
    Defined(module, node.name): [ast.unparse(parent).rpartition(".")[2] for parent in node.bases]
    for module, tree in TREES.items()
    for node in tree.body
    if isinstance(node, ast.ClassDef)
}
# Generated ones may stand in the glossary and clash with others; nobody need explain them.
GENERATED = {
    Defined(str(path.relative_to(SOURCE)), node.name)
    for path in SOURCE.rglob("*_generated.py")
    for node in ast.parse(path.read_bytes()).body
    if isinstance(node, ast.ClassDef)
}


def errors() -> set[str]:
    """Names of exceptions, by what they inherit from."""
    found = {"Exception", "OSError", "ValueError", "RuntimeError"}
    while True:
        more = {defined.name for defined, parents in CLASSES.items() if found.intersection(parents)}
        if more <= found:
            return found
        found |= more


ERRORS = errors()


def imports(tree: ast.Module) -> set[Defined]:
    return {
        Defined(node.module.removeprefix("penstock.").replace(".", "/") + ".py", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock.")
        for alias in node.names
        if node.module is not None
    }


def shared() -> list[Defined]:
    """Classes that another room than their own imports."""
    found = set()
    for module, tree in TREES.items():
        room = module.partition("/")[0]
        found |= {taken for taken in imports(tree) if taken in CLASSES and taken.room != room}
    return sorted(found)


def names_in_two_rooms() -> dict[str, set[str]]:
    rooms = defaultdict(set)
    for defined in [*CLASSES, *GENERATED]:
        if not defined.name.startswith("_"):
            rooms[defined.name].add(defined.room)
    return {name: found for name, found in sorted(rooms.items()) if len(found) > 1}


def says_itself(defined: Defined) -> bool:
    """Whether a class needs no entry of its own: an error, a listener, one of a family."""
    return defined.name in ERRORS or defined.name.endswith("Listener") or defined.module in FAMILIES


def quoted() -> set[str]:
    """Everything in backticks, without what follows a class."""
    return set(re.findall(r"`(\w+)[^`]*`", GLOSSARY))


@pytest.mark.parametrize("defined", shared(), ids=lambda defined: defined.name)
def test_a_class_that_two_rooms_use_stands_in_the_glossary(defined: Defined) -> None:
    assert says_itself(defined) or defined.name in quoted(), (
        f"{defined.module} defines {defined.name}, and another room imports it"
    )


def test_there_are_shared_classes_of_every_kind() -> None:
    """The collection above does find what it is for."""
    found = shared()
    assert Defined("broker/message.py", "Message") in found
    assert Defined("broker/errors.py", "NotFound") in found
    assert says_itself(Defined("broker/errors.py", "NotFound"))
    assert not says_itself(Defined("broker/message.py", "Message"))
    assert len([defined for defined in found if not says_itself(defined)]) > 100


@pytest.mark.parametrize(("name", "rooms"), names_in_two_rooms().items())
def test_a_class_name_that_two_rooms_have_says_which_is_which(name: str, rooms: set[str]) -> None:
    rows = [line for line in SAME_NAME.splitlines() if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1, f"{name} is a class of {sorted(rooms)}"
    for room in rooms:
        assert re.search(rf"\b{room}: ", rows[0]), f"{name} of {room} is not told apart"


def test_a_name_that_is_told_apart_is_one_that_two_rooms_have() -> None:
    told = re.findall(r"^\| `(\w+)` \|", SAME_NAME, re.MULTILINE)
    assert told == sorted(names_in_two_rooms())


@pytest.mark.parametrize("word", AMBIGUOUS)
def test_a_word_with_several_meanings_says_which_is_meant_where(word: str) -> None:
    (row,) = [line for line in ROWS if line.startswith(f"| {word} |")]
    assert "`" in row, "it names no place"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_what_a_row_names_exists(row: str) -> None:
    known = {defined.name for defined in CLASSES} | {defined.name for defined in GENERATED}
    folder = Path()
    for text in re.findall(r"`([^`]+)`", row):
        if text.endswith((".py", "/")):
            path = SOURCE / text if "/" in text else folder / text
            assert path.exists(), text
            folder = path.parent
        elif re.match(r"[A-Z][a-z]\w*(\.\w+)?$", text):
            name, _, member = text.partition(".")
            assert name in known or name in NOT_BUILT, text
            assert not member or name in NOT_BUILT or has_member(name, member), text


def has_member(name: str, member: str) -> bool:
    """Whether a class of that name, somewhere, has such a method or attribute."""
    for tree in TREES.values():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                text = ast.unparse(node)
                if re.search(
                    rf"\bdef {member}\b|\bself\.{member}\b|^    {member}\b", text, re.MULTILINE
                ):
                    return True
    return False


def test_a_family_is_named_and_has_several_classes_that_rooms_share() -> None:
    for module in FAMILIES:
        assert f"`{module}`" in GLOSSARY
        assert len([defined for defined in shared() if defined.module == module]) > 1
