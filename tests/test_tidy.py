"""The style guide, executable: what a reviewer should not have to say twice.

Each rule is a function from a file to its complaints, with a test that it complains about a bad
example and a test that the tree gives it nothing to complain about. Import cycles are the import
contracts' business (test_architecture), style and types are ruff's and mypy's.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
BANNED_WORDS = frozenset(
    {"manager", "util", "utils", "helper", "helpers", "common"}
    | {"misc", "base", "impl", "handler", "processor"}
)

# Path -> why the rule does not hold there. An entry that is no longer needed fails a test.
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {
    "src/penstock/cli/serve.py": "a command's options are its parameters, each with its help",
}

# Addresses of package registries and folders of somebody's machine have no place in a repository.
MACHINE_PLACES = re.compile(
    r"(?<![\w.])/(?:root|home/\w+|Users/\w+|work|opt/(?:pypi|wheels))/"
    r"|--(?:extra-)?index-url|//[\w.-]*(?:pypi|pythonhosted|npmjs|artifactory|nexus)[\w.-]*/"
)
UNREFERENCED_TODO = re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!.*#\d)")
PATCHING = re.compile(r"\bmonkeypatch\b|\bMonkeyPatch\b|unittest\.mock|from unittest import mock")


def tracked_files() -> list[Path]:
    """What is in the repository or would be after `git add`; in an archive, every file."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        hidden = {".venv", ".penstock", "__pycache__", "build", "dist", "node_modules"}
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(
                part in hidden or part.endswith(("_cache", ".egg-info", ".hypothesis"))
                for part in path.relative_to(ROOT).parts
            )
        ]
    # This file quotes what it forbids, and pictures hold no text.
    return sorted(
        path
        for path in paths
        if path.is_file() and path.suffix != ".png" and path != Path(__file__).resolve()
    )


FILES = tracked_files()
PYTHON_FILES = [path for path in FILES if path.suffix == ".py"]
WRITTEN_FILES = [path for path in PYTHON_FILES if not path.stem.endswith("_generated")]
TEST_FILES = [path for path in PYTHON_FILES if (ROOT / "tests") in path.parents]


def twins(path: Path) -> list[Path]:
    """The module or package that a test file is named for."""
    place = path.parent.relative_to(ROOT / "tests")
    name = path.stem.removeprefix("test_")
    rooms = (ROOT / "src" / "penstock" / place, ROOT / place, ROOT / "tools")
    return [room / twin for room in rooms for twin in (f"{name}.py", name)]


# What they are for is what their module is for, and their tests are sentences.
NAMED_TESTS = {
    path
    for path in TEST_FILES
    if path.stem.startswith("test_") and any(twin.exists() for twin in twins(path))
}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def too_long(path: Path) -> Iterator[str]:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{relative(path)} has {lines} lines"


def long_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{relative(path)}:{node.name} has {lines} lines"


def missing_docstring(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_bytes())
    if tree.body and not ast.get_docstring(tree):
        yield f"{relative(path)} does not say what it is for"


def banned_names(path: Path) -> Iterator[str]:
    classes = [
        n.name for n in ast.walk(ast.parse(path.read_bytes())) if isinstance(n, ast.ClassDef)
    ]
    for name in [path.stem, path.parent.name, *classes]:
        words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
        for word in BANNED_WORDS.intersection(word.lower() for word in words):
            yield f"{relative(path)}: {name} says {word}, which says nothing"


def patching(path: Path) -> Iterator[str]:
    """Compiled callers ignore a patched method without a word, so a patch proves nothing."""
    yield from matching_lines(path, PATCHING)


def machine_places(path: Path) -> Iterator[str]:
    yield from matching_lines(path, MACHINE_PLACES)


def unreferenced_todos(path: Path) -> Iterator[str]:
    yield from matching_lines(path, UNREFERENCED_TODO)


def matching_lines(path: Path, pattern: re.Pattern[str]) -> Iterator[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.search(line):
            yield f"{relative(path)}:{number}: {line.strip()[:100]}"


def name_of(part: object) -> str:
    return getattr(part, "__name__", "")


Rule = Callable[[Path], Iterator[str]]

RULES: list[tuple[Rule, list[Path], dict[str, str]]] = [
    (too_long, WRITTEN_FILES, LONG_FILES),
    (long_functions, WRITTEN_FILES, LONG_FUNCTIONS),
    (missing_docstring, [path for path in PYTHON_FILES if path not in NAMED_TESTS], {}),
    (banned_names, PYTHON_FILES, {}),
    (patching, TEST_FILES, {}),
    (machine_places, FILES, {}),
    (unreferenced_todos, FILES, {}),
]

BAD_EXAMPLES: list[tuple[Rule, str]] = [
    (too_long, "pass\n" * (FILE_LINES_MAX + 1)),
    (long_functions, "def f():\n" + "    pass\n" * FUNCTION_LINES_MAX),
    (long_functions, "def f(\n" + "    a,\n" * FUNCTION_LINES_MAX + "): ...\n"),
    (missing_docstring, "import sys\n"),
    (banned_names, "class QueueManager: ...\n"),
    (patching, "def test_it(monkeypatch): ...\n"),
    (machine_places, "cache = '/root/cache'\n"),
    (machine_places, "pip install --index-url somewhere\n"),
    (machine_places, '"resolved": "https://registry.npmjs.org/a.tgz"\n'),
    (unreferenced_todos, "# TODO: later\n"),
]

GOOD_EXAMPLES: list[tuple[Rule, str]] = [
    (too_long, "pass\n" * FILE_LINES_MAX),
    (long_functions, "def f():\n" + "    pass\n" * (FUNCTION_LINES_MAX - 1)),
    (banned_names, "class DatabaseReader: ...\n"),
    (unreferenced_todos, "# TODO #12: later\n"),
]


@pytest.mark.parametrize(("rule", "files", "excused"), RULES, ids=name_of)
def test_the_tree_keeps_the_rule(rule: Rule, files: list[Path], excused: dict[str, str]) -> None:
    assert files
    complaints = [
        complaint for path in files if relative(path) not in excused for complaint in rule(path)
    ]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(("rule", "files", "excused"), RULES, ids=name_of)
def test_every_exception_from_the_rule_is_still_needed(
    rule: Rule, files: list[Path], excused: dict[str, str]
) -> None:
    needed = {relative(path) for path in files if any(rule(path))}
    assert set(excused) <= needed


@pytest.mark.parametrize(("rule", "text"), BAD_EXAMPLES, ids=name_of)
def test_the_rule_complains_about_a_bad_example(rule: Rule, text: str, tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(text)
    assert len(list(rule(path))) == 1


@pytest.mark.parametrize(("rule", "text"), GOOD_EXAMPLES, ids=name_of)
def test_the_rule_is_silent_about_a_good_example(rule: Rule, text: str, tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(text)
    assert list(rule(path)) == []
