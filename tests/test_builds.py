"""The two switches, tried on a package of toys with a shared object beside a source."""

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from penstock import builds

PACKAGE = Path(builds.__file__).parent


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A package named penstock whose hot module has a (broken) shared object beside its source."""
    formats = tmp_path / "penstock" / "formats"
    formats.mkdir(parents=True)
    (formats.parent / "__init__.py").write_text("from penstock import builds\nbuilds.choose()\n")
    (formats.parent / "builds.py").write_bytes((PACKAGE / "builds.py").read_bytes())
    (formats / "__init__.py").touch()
    (formats / "octets.py").touch()
    (formats / f"octets{EXTENSION_SUFFIXES[0]}").write_bytes(b"no shared object at all")
    return tmp_path


def run_in(folder: Path, program: str, **switches: str) -> subprocess.CompletedProcess[str]:
    names = {"PENSTOCK_PURE", "PENSTOCK_REQUIRE_COMPILED"}
    environment = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "PYTHONPATH": str(folder), **switches},
        capture_output=True,
        text=True,
        check=False,
    )


def test_pure_imports_the_source_though_a_shared_object_lies_beside_it(toy: Path) -> None:
    program = "from penstock.builds import build_mode; print(build_mode())"
    result = run_in(toy, program, PENSTOCK_PURE="1")
    assert result.stdout == "pure\n", result.stderr


def test_without_a_switch_the_shared_object_wins(toy: Path) -> None:
    result = run_in(toy, "import penstock.formats.octets")
    assert result.returncode != 0
    assert EXTENSION_SUFFIXES[0] in result.stderr


def test_require_compiled_refuses_a_package_without_shared_objects(toy: Path) -> None:
    (toy / "penstock" / "formats" / f"octets{EXTENSION_SUFFIXES[0]}").unlink()
    result = run_in(toy, "import penstock", PENSTOCK_REQUIRE_COMPILED="1")
    assert result.returncode != 0
    assert "this is the pure build" in result.stderr


def test_require_compiled_accepts_a_package_with_shared_objects(toy: Path) -> None:
    assert run_in(toy, "import penstock", PENSTOCK_REQUIRE_COMPILED="1").returncode == 0


def test_the_two_switches_exclude_each_other(toy: Path) -> None:
    result = run_in(toy, "import penstock", PENSTOCK_PURE="1", PENSTOCK_REQUIRE_COMPILED="1")
    assert result.returncode != 0
    assert "cannot be combined" in result.stderr


def test_importing_the_package_loads_no_server_and_no_third_party_library() -> None:
    program = (
        "import sys, penstock; print([name for name in sys.modules if name.split('.')[0] in "
        "('asyncio', 'pydantic', 'rich', 'typer', 'uvloop', 'structlog')"
        " or name.startswith('penstock.server')])"
    )
    assert run_in(PACKAGE.parent, program).stdout == "[]\n"


def test_an_unknown_name_is_an_ordinary_attribute_error() -> None:
    program = "import penstock\ntry: penstock.Brokr\nexcept AttributeError as e: print(e)"
    result = run_in(PACKAGE.parent, program)
    assert result.stdout == "module 'penstock' has no attribute 'Brokr'\n", result.stderr


def test_the_pure_build_that_nobody_asked_for_is_told_from_the_one_that_was() -> None:
    assert builds.is_pure_by_accident({}) == (builds.build_mode() == "pure")
    assert not builds.is_pure_by_accident({"PENSTOCK_PURE": "1"})
