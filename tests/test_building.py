"""setup.py, tried on a toy project with two modules, so that a build takes seconds.

The project is the real one with another package: real setup.py, toolchain.py and build rules.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import toolchain

ROOT = toolchain.ROOT

LEAF = "def double(number: int) -> int:\n    return number * 2\n"
# The toy's list of compiled files in place of the project's.
TOY_RULES = """
[tool.penstock]
compiled = ["penstock/*.py"]
interpreted = ["penstock/__init__.py"]
cold = ["penstock/cold.py"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "src" / "penstock").mkdir(parents=True)
    shutil.copy(ROOT / "setup.py", tmp_path)
    shutil.copy(ROOT / "tools" / "toolchain.py", tmp_path / "tools")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = re.sub(r"(?ms)^\[tool\.penstock\].*?(?=^\[tool\.pytest)", TOY_RULES, project)
    project = re.sub(r"(?m)^license-files = .*$", "", project)
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    package = tmp_path / "src" / "penstock"
    (package / "__init__.py").write_text('__version__ = "0.0.1"\n')
    (package / "hot.py").write_text(LEAF)
    (package / "cold.py").write_text(LEAF)
    return tmp_path


def build(folder: Path, **environment: str) -> tuple[int, str, list[str]]:
    """Builds a wheel as pip does, without fetching anything; the files that it holds."""
    ours = {name: value for name, value in os.environ.items() if "PENSTOCK" not in name}
    result = subprocess.run(
        [sys.executable, "-P", "setup.py", "bdist_wheel", "--dist-dir", "wheels"],
        cwd=folder,
        env={**ours, "PYTHONPATH": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        start_new_session=True,  # no terminal: the warning is read from the output
    )
    wheels = list((folder / "wheels").glob("*.whl"))
    names = zipfile.ZipFile(wheels[0]).namelist() if wheels else []
    return result.returncode, result.stdout, names


def shared_objects(names: list[str]) -> list[str]:
    return sorted(name.partition(".")[0] for name in names if name.endswith(".so"))


needs_compiler = pytest.mark.skipif(
    toolchain.what_is_missing() is not None, reason="there is no C compiler here"
)


def test_the_build_has_what_the_checked_source_imports() -> None:
    """Installers build in an environment of its own, which holds what is listed and nothing else;
    mypyc follows imports there.
    """
    project = toolchain.read_project()
    needed = set(project["project"]["dependencies"])
    assert needed <= set(project["build-system"]["requires"])


@needs_compiler
def test_a_wheel_is_compiled_where_there_is_a_compiler(folder: Path) -> None:
    code, output, names = build(folder)
    assert code == 0, output
    assert shared_objects(names) == ["penstock/cold", "penstock/hot", "penstock__mypyc"]


@needs_compiler
def test_only_hot_modules_are_optimized_to_the_utmost(folder: Path) -> None:
    _, output, _ = build(folder)
    levels = {
        Path(source).stem: re.findall(r" -O(\d)", line)[-1]
        for line in output.splitlines()
        for source in re.findall(r" -c (\S+\.c) ", line)
    }
    assert levels["__native_penstock___hot"] == "3"
    assert levels["list_ops"] == "3"  # mypyc's runtime, which hot modules call
    assert levels["__native_penstock___cold"] == "1"
    assert levels["hot"] == "0"


def test_without_a_compiler_a_pure_wheel_is_built_with_a_loud_warning(folder: Path) -> None:
    nothing = folder / "nothing"
    nothing.mkdir()
    code, output, names = build(folder, PATH=str(nothing), CC="")
    assert code == 0, output
    assert "building the PURE package" in output
    assert "no C compiler" in output
    assert "penstock/hot.py" in names
    assert shared_objects(names) == []


def test_without_a_compiler_a_compiled_wheel_that_was_asked_for_is_refused(folder: Path) -> None:
    nothing = folder / "nothing"
    nothing.mkdir()
    code, output, names = build(folder, PATH=str(nothing), CC="", PENSTOCK_REQUIRE_COMPILED="1")
    assert (code != 0, names) == (True, [])
    assert "cannot build the compiled package: no C compiler" in output


@needs_compiler
def test_a_compiler_that_fails_fails_the_build_and_names_the_way_out(folder: Path) -> None:
    broken = folder / "cc"
    broken.write_text("#!/bin/sh\necho the toy compiler failed >&2\nexit 1\n")
    broken.chmod(0o755)
    code, output, names = build(folder, CC=str(broken))
    assert (code != 0, names) == (True, [])
    assert "the toy compiler failed" in output
    assert "PENSTOCK_PURE=1" in output


def test_the_pure_wheel_is_built_without_a_word_when_asked_for(folder: Path) -> None:
    code, output, names = build(folder, PENSTOCK_PURE="1")
    assert code == 0, output
    assert "PURE" not in output
    assert shared_objects(names) == []
