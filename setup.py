"""Builds the hot rooms with mypyc, from the list in pyproject.toml.

Everything else about the package stands in pyproject.toml. Three ways to build:

- PENSTOCK_PURE=1: no extension modules.
- PENSTOCK_REQUIRE_COMPILED=1: fail when they cannot be built.
- neither: build them where there is a C compiler, and fail when that does not succeed. Without a
  compiler the pure package is built, with a warning on the terminal.

PENSTOCK_BUILD_DIR names where the generated C code goes (default: build). Keeping that folder and
--build-temp between builds makes the next one compile only the C files that changed.
"""

import contextlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

import toolchain  # noqa: E402  (the line above makes it importable)

# mypyc is given relative paths, so that the C code and its tracebacks name no machine's folders.
os.chdir(ROOT)

REQUIRED = os.environ.get("PENSTOCK_REQUIRE_COMPILED") == "1"
CORES = os.cpu_count() or 1
PURE = os.environ.get("PENSTOCK_PURE") == "1"
BUILD = Path(os.environ.get("PENSTOCK_BUILD_DIR", "build"))
COLD = toolchain.cold_modules(toolchain.read_project())

# Installers also call this file to ask for the package's metadata; mypyc is too slow for that.
BUILDING_COMMANDS = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}


def refuse(reason: str) -> NoReturn:
    """A package that is silently several times slower helps nobody; the pure one must be asked for."""
    sys.exit(
        f"penstock: cannot build the compiled package: {reason}.\n"
        "penstock: set PENSTOCK_PURE=1 to build the pure package (correct, several times slower)."
    )


def warn_of_pure(reason: str) -> None:
    """Says that the slow build is being made, also on the terminal: installers hide our output."""
    line = "*" * 78
    text = (
        f"{line}\npenstock: building the PURE package (correct, several times slower): {reason}.\n"
        "penstock: for the compiled one install a C compiler and Python's headers, then reinstall.\n"
        f"{line}\n"
    )
    sys.stderr.write(text)
    sys.stderr.flush()
    with contextlib.suppress(OSError), Path("/dev/tty").open("w", encoding="utf-8") as terminal:
        terminal.write(text)


def extensions() -> list[Extension]:
    """One group of extension modules, so that calls between our modules are plain C calls."""
    if PURE or not BUILDING_COMMANDS.intersection(sys.argv):
        return []
    missing = toolchain.what_is_missing()
    if missing is not None:
        if REQUIRED:
            refuse(missing)
        warn_of_pure(missing)
        return []
    os.environ.setdefault("CC", toolchain.compiler() or "cc")
    files = toolchain.compiled_files(toolchain.read_project())
    if not files:
        refuse("no file matches [tool.penstock] compiled")
    from mypyc.build import mypycify

    try:
        modules: list[Extension] = mypycify(
            [str(path.relative_to(ROOT)) for path in files],
            group_name="penstock",
            opt_level="3",
            debug_level="0",
            multi_file=True,  # a C file per module: they compile side by side, and only when changed
            target_dir=str(BUILD),
        )
    except SystemExit:  # how mypycify reports source that it cannot compile
        refuse("mypyc rejected the source, see above")
    return modules


class BuildSideBySide(build_ext):  # type: ignore[misc]
    """Compiles C files on every core and leaves alone those whose object file is fresh."""

    extensions: list[Extension]
    parallel: int | None

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or CORES

    def run(self) -> None:
        try:
            super().run()
        except Exception as problem:
            refuse(f"the C compiler failed ({problem}), see above")

    def build_extensions(self) -> None:
        self.compiler.compile = partial(compile_side_by_side, self.compiler, self.compiler.compile)
        super().build_extensions()


def compile_side_by_side(
    compiler: Any, compile_one: Any, sources: list[str], **options: Any
) -> list[str]:
    objects: list[str] = compiler.object_filenames(sources, output_dir=options["output_dir"])
    for built in objects:
        # Not left to the threads, each of which would find the folder missing and make it.
        Path(built).parent.mkdir(parents=True, exist_ok=True)
    stale = [
        source for source, built in zip(sources, objects, strict=True) if is_stale(source, built)
    ]
    stale.sort(key=os.path.getsize, reverse=True)  # the largest first, or it runs alone at the end
    with ThreadPoolExecutor(CORES) as pool:
        for _ in pool.map(partial(compile_source, compile_one, options), stale):
            pass
    return objects


def compile_source(compile_one: Any, options: dict[str, Any], source: str) -> None:
    # mypyc turns warnings into errors, and warnings differ between compilers and Python versions.
    flags = [*(options.get("extra_postargs") or ()), "-Wno-error", *optimization_of(source)]
    compile_one([source], **{**options, "extra_postargs": flags})


def optimization_of(source: str) -> list[str]:
    """Less work for the compiler where no message passes. The last -O wins.

    mypyc writes a module's code to __native_<name>.c beside its own runtime; the file in a folder
    of the package's name only starts the module.
    """
    path = Path(source)
    if path.parent != BUILD:
        return ["-O0"]
    return ["-O1"] if path.stem.removeprefix("__native_") in COLD else []


def is_stale(source: str, built: str) -> bool:
    """Whether a C file must be compiled: it, or any header generated with it, changed since.

    mypyc leaves a generated file untouched when its text would be the same.
    """
    try:
        compiled_at = Path(built).stat().st_mtime
    except FileNotFoundError:
        return True
    headers = BUILD.rglob("*.h")
    return any(path.stat().st_mtime >= compiled_at for path in (Path(source), *headers))


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildSideBySide})
