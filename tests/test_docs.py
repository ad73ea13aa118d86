"""The documents are true where a machine can tell: links, names, commands, code, versions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import penstock
from penstock import Broker
from penstock.cli.main import COMMANDS
from penstock.server.config_file import read_configuration
from penstock.server.config_model import ConfigurationFile
from penstock.server.server_configuration import ServerConfiguration

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "penstock"
ROOMS = sorted(path.parent for path in SOURCE.glob("*/__init__.py"))
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *SOURCE.glob("*/README.md"),
        ROOT / "bench" / "README.md",
        ROOT / "tests" / "interop" / "README.md",
    ]
)
README = (ROOT / "README.md").read_text("utf-8")

# A room's README is read in one glance.
SCREEN_LINES = 40
SERVED_URL = "amqp://guest:guest@localhost:5672/%2F"

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[a-z][\w./-]*\.(?:py|toml|md|cjs|go)\Z")
CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z")
CLASS_OR_MEMBER = re.compile(r"[A-Z][a-z]\w*(?:\.\w+)?\Z")
COMMAND = re.compile(r"(?:^|`)(?:\./)?penstock (\w[\w-]*)((?: --?\w[\w-]*)*)", re.MULTILINE)

# The options that all operators' commands have.
SHARED = (SOURCE / "cli" / "administering" / "session.py").read_text("utf-8")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchor_of(heading: str) -> str:
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def prose_of(path: Path) -> str:
    return BLOCK.sub("", path.read_text("utf-8"))


def code_spans(path: Path) -> list[str]:
    return CODE_SPAN.findall(prose_of(path))


def all_words() -> set[str]:
    """Every word of the sources, the tests and the tools."""
    words: set[str] = set()
    for folder in ("src", "tests", "tools", "bench"):
        for path in (ROOT / folder).rglob("*.py"):
            words.update(re.findall(r"\w+", path.read_text("utf-8")))
    return words


WORDS = all_words()
# The launcher's shell script reads the first; the others wait for the cluster's room.
ELSEWHERE = {"PENSTOCK_PYTHON", "Partition", "PRIMARY"}
FOLDERS = ("src", "tests", "tools", "bench", "docs", "spec", "examples")
FILES = [f"/{name_of(path)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
FILES += [f"/{path.name}" for path in ROOT.glob("*.*")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    for link in LINK.findall(prose_of(document)):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        assert target.exists(), f"{name_of(document)} links to {link}"
        if anchor:
            anchors = {anchor_of(heading) for heading in HEADING.findall(target.read_text("utf-8"))}
            assert anchor in anchors, f"{name_of(document)} links to {link}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_files_that_are_named_exist(document: Path) -> None:
    for span in code_spans(document):
        if PATH.match(span):
            assert any(file.endswith(f"/{span}") for file in FILES), f"{name_of(document)}: {span}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_classes_members_and_constants_that_are_named_exist(document: Path) -> None:
    for span in code_spans(document):
        if CONSTANT.match(span) or CLASS_OR_MEMBER.match(span):
            missing = set(re.findall(r"\w+", span)) - WORDS - ELSEWHERE
            assert not missing, f"{name_of(document)} names {span}"


def test_every_document_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        if document in reached or document.suffix != ".md":
            continue
        reached.add(document)
        for link in LINK.findall(prose_of(document)):
            file = link.partition("#")[0]
            if file and "://" not in link:
                waiting.append((document.parent / file).resolve())
    # Those that people look for by name.
    apart = {ROOT / "SECURITY.md"}
    assert set(DOCUMENTS) - apart <= reached


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_every_room_has_a_readme_of_one_screen(room: Path) -> None:
    text = (room / "README.md").read_text("utf-8")
    assert text.startswith(f"# {room.name}\n")
    for part in ("**Nouns.**", "**Invariants**", "**May import**", "**Tests.**"):
        assert part in text
    assert len(text.splitlines()) <= SCREEN_LINES


@pytest.mark.parametrize(
    "block", [text for language, text in BLOCK.findall(README) if language == "python"]
)
def test_the_readmes_python_runs(block: str, tmp_path: Path) -> None:
    if "def test_" in block:
        run_as_test(block, tmp_path)
        return
    with Broker() as broker:
        exec(compile(block.replace(SERVED_URL, broker.url), "README.md", "exec"), {})


def run_as_test(block: str, folder: Path) -> None:
    (folder / "test_readme.py").write_text(block, "utf-8")
    settings = folder / "pytest.ini"
    settings.write_text("[pytest]\n", "utf-8")
    plugin = "penstock.server.pytest_plugin"
    # Named here, because the package under test need not be the installed one.
    options = ["-p", "no:penstock", "-p", plugin, "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", "-q", *options, "-c", str(settings)]
    command.append(str(folder))
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_commands_that_are_named_exist(document: Path) -> None:
    for name, options in COMMAND.findall(document.read_text("utf-8")):
        if name == "ready":  # not a command: the line that `serve` prints
            continue
        assert name in COMMANDS, f"{name_of(document)}: penstock {name}"
        source = ROOT / "src" / Path(*COMMANDS[name].module.split(".")).with_suffix(".py")
        known = source.read_text("utf-8") + (SHARED if "operators" in source.parts else "")
        for option in options.split():
            word = option.lstrip("-").replace("-", "_")
            assert word in known or option in known, f"{name_of(document)}: {name} {option}"


def test_the_readme_names_the_two_commands() -> None:
    blocks = [text for language, text in BLOCK.findall(README) if language == "sh"]
    assert "./penstock demo" in blocks[0] and "./penstock test" in blocks[0]


def test_the_changelog_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heading = re.search(r"^## \[(\S+)\] - (?:unreleased|\d{4}-\d\d-\d\d)$", text, re.MULTILINE)
    assert heading is not None
    assert heading[1] == penstock.__version__


def test_the_clients_versions_are_those_that_are_tested() -> None:
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    package = ROOT / "tests" / "interop" / "amqplib" / "package.json"
    pinned["amqplib"] = json.loads(package.read_text())["dependencies"]["amqplib"]
    rows = {
        cells[1].split(" ")[0].lower(): cells[2]
        for cells in (re.split(r" *\| *", line) for line in README.splitlines())
        if len(cells) > 3
    }
    for client in ("pika", "aio-pika", "kombu", "celery", "amqplib"):
        assert rows[client].split(" ")[0] == pinned[client]
    assert f"aiormq {pinned['aiormq']}" in rows["aio-pika"]
    assert f"py-amqp {pinned['amqp']}" in rows["kombu"]


def test_the_configuration_page_shows_every_key_with_its_default(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "CONFIGURATION.md").read_text("utf-8")
    shown = next(block for language, block in BLOCK.findall(text) if language == "toml")
    file = tmp_path / "penstock.toml"
    file.write_text(shown, "utf-8")
    assert read_configuration(file).configuration == ServerConfiguration()
    tables = tomllib.loads(shown)
    known = ConfigurationFile().model_dump()
    assert {table: set(keys) for table, keys in tables.items()} == {
        table: set(keys) for table, keys in known.items()
    }
    for table, keys in known.items():
        for key in keys:
            assert f"| `{table}.{key}` |" in text


def test_the_configuration_page_shows_every_option_of_serve() -> None:
    text = (ROOT / "docs" / "CONFIGURATION.md").read_text("utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "penstock", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    options = set(re.findall(r"--[a-z-]+", result.stdout)) - {"--help"}
    assert options
    for option in options:
        assert f"| `{option}" in text
