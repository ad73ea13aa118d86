"""Code that only tests use is no part of the product: this lists it.

By name alone: a function or class whose name occurs once in all of `src`, `bench`, `tools` and
`examples`, where it is defined, is called by nobody there. What others call by name (a framework, a
user of the library) is named below.
"""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
USERS = ("src", "bench", "tools", "examples")
WORD = re.compile(r"[A-Za-z_]\w*")

# What users of the library call, and files whose methods a framework calls.
PUBLIC_FILES = {
    "src/penstock/server/in_process.py": "the methods of `Broker`",
    "src/penstock/client/calls.py": "the calls that a channel takes",
    "src/penstock/client/asynchronous_reconnect.py": "a way to connect",
    "src/penstock/spark/bodies.py": "expressions for a user's `select`",
    "src/penstock/spark/jobs/ledger_reading.py": "sources for jobs of users",
}
# Verbs of commands, which Typer calls.
COMMAND_FILES = (
    "src/penstock/cli/operators/",
    "src/penstock/cli/cluster.py",
    "src/penstock/cli/config.py",
)
CALLED_BY_FRAMEWORKS = {
    *("emit", "eof_received", "main_loop", "render", "send_400_response"),
    *("timeout_keep_alive_handler", "streamReader", "streamWriter", "pushFilters"),
    "reportLatestOffset",
}
# Name -> why only tests use it.
FOR_TESTS = {
    "has_thread": "whether a disk's thread has ended can be seen in no other way",
    "listed_bindings": "the bindings of a virtual host, with those of the default exchange",
    "listed_leases": "the leases of a virtual host",
    "stamp_count": "that ages cost a queue little memory",
    "seed_isr": "the formula of seed 000, against which the job's own is checked",
}


def unused(root: Path) -> set[tuple[str, str]]:
    """Path and name of what is defined in `src` and named nowhere else."""
    counts: Counter[str] = Counter()
    for folder in USERS:
        for path in (root / folder).rglob("*.py"):
            counts.update(WORD.findall(path.read_text(encoding="utf-8")))
    found: set[tuple[str, str]] = set()
    for path in (root / "src").rglob("*.py"):
        if path.name.endswith("_generated.py"):
            continue
        for part in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if counts[part.name] == 1 and not part.name.startswith("__"):
                    found.add((path.relative_to(root).as_posix(), part.name))
    return found


def test_everything_in_the_product_is_used_by_it() -> None:
    excused = CALLED_BY_FRAMEWORKS | set(FOR_TESTS)
    assert not {
        (path, name)
        for path, name in unused(ROOT)
        if path not in PUBLIC_FILES and not path.startswith(COMMAND_FILES) and name not in excused
    }


@pytest.mark.parametrize(
    ("second", "expected"),
    [("", {("src/a.py", "lonely")}), ("from a import lonely\n", set())],
)
def test_what_nobody_uses_is_found(
    second: str, expected: set[tuple[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("def lonely() -> None: ...\n", encoding="utf-8")
    (tmp_path / "src/b.py").write_text(second, encoding="utf-8")
    assert unused(tmp_path) == expected
