"""The import contracts hold, and each of them bites when a violation is planted."""

import ast
import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINT = "from importlinter.cli import lint_imports_command as run; run(['--no-cache', '--no-logo'])"

# Where a violation goes, what it imports, and the contract that must break.
PLANTS = [
    ("broker/planted.py", "penstock.node", "Rooms import only downwards"),
    ("dialects/planted.py", "penstock.client", "Rooms import only downwards"),
    ("server/planted.py", "penstock.simulation", "Rooms import only downwards"),
    ("simulation/planted.py", "penstock.server", "Rooms import only downwards"),
    ("world/planted.py", "penstock.wire", "Rooms import only downwards"),
    ("formats/planted.py", "penstock.world", "Rooms import only downwards"),
    ("utilities/__init__.py", "sys", "Rooms import only downwards"),
    ("broker/planted.py", "penstock.wire", "The broker never sees wire bytes"),
    (
        "broker/planted.py",
        "penstock.formats.amqp091_frames",
        "The broker never sees wire bytes",
    ),
    (
        "spark/planted.py",
        "penstock.storage",
        "The pipeline reaches the broker over the network only",
    ),
    ("formats/planted.py", "time", "No clock, socket, disk, thread or dice below the server"),
    ("client/planted.py", "penstock.broker", "The client knows the broker only through the wire"),
    ("client/planted.py", "penstock.storage", "The client knows the broker only through the wire"),
    ("broker/planted.py", "time", "No clock, socket, disk, thread or dice below the server"),
    ("wire/planted.py", "random", "No clock, socket, disk, thread or dice below the server"),
    ("dialects/planted.py", "asyncio", "No clock, socket, disk, thread or dice below the server"),
    ("client/planted.py", "socket", "No clock, socket, disk, thread or dice below the server"),
]

# The kinds of queue, and the only rooms that may ask which of them one is. All others ask the
# interface, `MessageQueue`, so that a new kind needs no change there.
KINDS = {"penstock.broker.queues.queue": "Queue", "penstock.broker.streams.stream": "Stream"}
KIND_ROOMS = ("broker/queues/", "broker/streams/")

# Rooms that live in the real world; every other one must be under the sans-IO contract.
WORLDLY_ROOMS = {"cli", "server", "spark"}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", LINT],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "PENSTOCK_REQUIRE_COMPILED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "penstock", tmp_path / "src" / "penstock", ignore=ignore)
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


def test_the_import_contracts_are_kept() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("place", "imported", "contract"), PLANTS)
def test_a_planted_violation_breaks_its_contract(
    copy: Path, place: str, imported: str, contract: str
) -> None:
    planted = copy / "src" / "penstock" / place
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(f"import {imported}\n")
    result = lint(copy)
    if planted.name == "__init__.py":  # a room that is not in the picture, whatever it imports
        assert "utilities" in result.stdout + result.stderr
    else:
        assert f"{contract} BROKEN" in result.stdout, result.stdout + result.stderr
        module = f"penstock.{place.removesuffix('.py').replace('/', '.')}"
        assert f"{module} -> {imported}" in result.stdout
    assert result.returncode != 0


def test_a_planted_cycle_inside_a_room_breaks_its_contract(copy: Path) -> None:
    broker = copy / "src" / "penstock" / "broker"
    (broker / "hen.py").write_text("import penstock.broker.egg\n")
    (broker / "egg.py").write_text("import penstock.broker.hen\n")
    result = lint(copy)
    assert "No cycles between siblings anywhere BROKEN" in result.stdout, result.stderr
    assert ".hen -> .egg" in result.stdout or ".egg -> .hen" in result.stdout


def test_every_room_without_a_world_is_under_the_sans_io_contract() -> None:
    configuration = configparser.ConfigParser()
    configuration.read(ROOT / ".importlinter")
    listed = configuration["importlinter:contract:sans-io"]["source_modules"].split()
    rooms = {path.parent.name for path in (ROOT / "src" / "penstock").glob("*/__init__.py")}
    assert {f"penstock.{room}" for room in rooms - WORLDLY_ROOMS} == set(listed)


def kind_tests(source: str) -> list[int]:
    """Lines on which somebody asks `isinstance` for a kind of queue."""
    tree = ast.parse(source)
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in KINDS:
            kind = KINDS[node.module]
            names |= {alias.asname or alias.name for alias in node.names if alias.name == kind}
    found: list[int] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            asked = {getattr(part, "id", "") for part in ast.walk(node.args[1])}
            if asked & names:
                found.append(node.lineno)
    return found


def test_nobody_asks_for_the_class_of_a_queue() -> None:
    package = ROOT / "src" / "penstock"
    complaints = [
        f"{path.relative_to(ROOT)}:{line}: ask the interface, MessageQueue, instead"
        for path in sorted(package.rglob("*.py"))
        if not path.relative_to(package).as_posix().startswith(KIND_ROOMS)
        for line in kind_tests(path.read_text())
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    "planted",
    [
        "from penstock.broker.streams.stream import Stream\nisinstance(queue, Stream)",
        "from penstock.broker.streams.stream import Stream as S\nisinstance(queue, S)",
        "from penstock.broker.queues.queue import Queue\nisinstance(queue, (int, Queue))",
        "from penstock.broker.queues.queue import Queue\nisinstance(queue, int | Queue)",
    ],
)
def test_a_planted_question_for_the_class_of_a_queue_is_found(planted: str) -> None:
    assert kind_tests(planted) == [2]


def test_other_classes_of_the_same_name_may_be_asked_for() -> None:
    assert not kind_tests("from penstock.spark.streams import Stream\nisinstance(x, Stream)")
