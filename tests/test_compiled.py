"""The compiled list is true: what it names exists, and is compiled exactly in the compiled run."""

import importlib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
import toolchain

from penstock.builds import build_mode

PROJECT = toolchain.read_project()
FILES = toolchain.compiled_files(PROJECT)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(toolchain.SOURCE).with_suffix("").parts)


@pytest.mark.parametrize("pattern", PROJECT["tool"]["penstock"]["compiled"])
def test_every_pattern_of_the_compiled_list_names_a_file(pattern: str) -> None:
    assert toolchain.matching([pattern])


@pytest.mark.parametrize("pattern", PROJECT["tool"]["penstock"]["interpreted"])
def test_every_exception_takes_a_file_out_of_the_compiled_list(pattern: str) -> None:
    listed = toolchain.matching(PROJECT["tool"]["penstock"]["compiled"])
    assert listed & toolchain.matching([pattern])


@pytest.mark.parametrize("pattern", PROJECT["tool"]["penstock"]["cold"])
def test_every_pattern_of_the_cold_list_names_a_compiled_file(pattern: str) -> None:
    assert toolchain.matching([pattern]) & set(FILES)


@pytest.mark.parametrize("name", [module_name(path) for path in FILES])
def test_a_listed_module_is_loaded_from_a_shared_object_only_in_the_compiled_build(
    name: str,
) -> None:
    origin = importlib.import_module(name).__file__
    assert origin is not None
    is_shared_object = origin.endswith(tuple(EXTENSION_SUFFIXES))
    assert is_shared_object == (build_mode() == "compiled")


def test_the_source_folder_holds_no_shared_object() -> None:
    assert not list(toolchain.SOURCE.rglob("*.so"))
