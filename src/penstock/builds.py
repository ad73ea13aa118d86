"""Which build runs: the hot rooms compiled by mypyc, or the same files interpreted.

Two switches, read from the environment when the package is imported:

- PENSTOCK_PURE=1 imports every module from its source, even where a compiled one exists beside it.
- PENSTOCK_REQUIRE_COMPILED=1 refuses to import the package when the compiled build is not there.

With neither, Python's own rule holds: a compiled module wins over its source. Nothing falls back
silently: the server says at its start which build runs, from `build_mode`.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from types import ModuleType

# The module that represents the whole compiled list: every connection needs it, and the list is
# built as one group, so it is there when the others are.
WITNESS = "penstock.formats.octets"


class SourceOnly:
    """Finds this package's modules as source files and nothing else. Held by sys.meta_path."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        del target
        if path is None or not fullname.startswith("penstock."):
            return None
        for folder in path:
            finder = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
            spec = finder.find_spec(fullname)
            if spec is not None:
                return spec
        return None


def choose(environment: Mapping[str, str] = os.environ) -> None:
    """Obeys the two switches. Called once, by the package itself, before any room is imported."""
    pure = environment.get("PENSTOCK_PURE") == "1"
    compiled = environment.get("PENSTOCK_REQUIRE_COMPILED") == "1"
    if pure and compiled:
        raise ImportError("PENSTOCK_PURE=1 and PENSTOCK_REQUIRE_COMPILED=1 cannot be combined")
    if pure:
        sys.meta_path.insert(0, SourceOnly())
    if compiled and not compiled_witness_exists(os.path.dirname(__file__)):
        raise ImportError(
            "PENSTOCK_REQUIRE_COMPILED=1, but this is the pure build: "
            f"{WITNESS} has no shared object in {os.path.dirname(__file__)}. "
            "Install with a C compiler and Python's headers, or start with ./penstock."
        )


def compiled_witness_exists(package_folder: str) -> bool:
    stem = os.path.join(package_folder, *WITNESS.split(".")[1:])
    return any(os.path.exists(stem + suffix) for suffix in EXTENSION_SUFFIXES)


def build_mode() -> str:
    """Says "compiled" or "pure", by where the hot code was really loaded from."""
    origin = import_module(WITNESS).__file__ or ""
    return "compiled" if origin.endswith(tuple(EXTENSION_SUFFIXES)) else "pure"


def is_pure_by_accident(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the slow build runs although it was not requested."""
    return build_mode() == "pure" and environment.get("PENSTOCK_PURE") != "1"
