"""What ./penstock does before the command itself: environment, packages, compiled copy.

Three things are made when they are missing or out of date, each known by a key that covers what
it was made from:

- .venv, with the package installed from src as the pure build, and the exact versions of
  constraints.txt;
- in it the extras that the command needs (`EXTRAS`);
- .penstock/compiled-<key>: the shared objects of the hot rooms, with links to the files of src
  for everything else. It comes first on the PYTHONPATH, so src never holds a shared object and an
  edit of an interpreted file needs no build.

A call that finds all three costs some 50 ms. Only the standard library is used here.

`.venv/bin/penstock` is replaced by a script that starts ./penstock: the one that pip writes would
run the pure build without saying so.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import toolchain
from set_up_step import SetUpStep
from toolchain import ROOT, SOURCE

ENVIRONMENT: Final = ROOT / ".venv"
PYTHON: Final = ENVIRONMENT / "bin" / "python"
STATE: Final = ROOT / ".penstock"

# Extras of the package that a command cannot do without.
EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "test": ("test", "spark"),
    "demo": ("spark",),
    "pipeline": ("spark",),
}

# Asking what a command does must not install anything for it.
HELP_OPTIONS: Final = ("--help", "-h")
TEST_HELP: Final = """\
Usage: ./penstock test [PYTEST ARGUMENTS]...

Runs ruff, mypy, pytest on the pure and on the compiled build, and the Spark tests.
Every stage runs even when an earlier one failed; the exit code is 1 when any stage failed.
Without arguments the whole suite runs (about 25 minutes on two cores). Arguments are passed
to pytest, and the Spark stage is then skipped:

  ./penstock test tests/broker -k expires

The first call creates a virtual environment in .venv, installs what the tests need there, and
compiles the performance-critical packages if there is a C compiler.

Environment:
  PENSTOCK_TEST_BUILDS=pure|compiled|both   the builds to test (default: both; without a C
                                            compiler only the pure one)
"""

# How much of a failed step's log is shown: enough for the last error, not a screenful of pip.
LOG_LINES_SHOWN: Final = 25


class StepFailedError(Exception):
    """A step of the set-up ended with an error; its log is named in the text."""


def say(text: str) -> None:
    print(f"penstock: {text}", file=sys.stderr, flush=True)


def key_of(*parts: object) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else json.dumps(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def constraints() -> list[str]:
    return (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def installed_key(project: dict[str, Any]) -> str:
    # The folder is part of it: an editable install points at the place it was made in.
    return key_of(
        str(ROOT), sys.version, project["project"], project["build-system"], constraints()
    )


def compiled_key(project: dict[str, Any]) -> str:
    files = toolchain.compiled_files(project)
    compiler_versions = [line for line in constraints() if line.startswith(("mypy==", "librt=="))]
    return key_of(
        sys.version,
        compiler_versions,
        project["tool"]["penstock"],
        project["tool"]["mypy"],
        (ROOT / "setup.py").read_bytes(),
        *(part for path in files for part in (str(path.relative_to(ROOT)), path.read_bytes())),
    )


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One set-up at a time in this folder; the others wait and then find the work done.

    The processes that do it inherit the lock, so it is held until all of them are gone.
    """
    STATE.mkdir(exist_ok=True)
    with (STATE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another call is setting up this directory; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), True)
        yield


def step(what: str, log_name: str, command: list[str], **environment: str) -> None:
    """Runs one slow command with its output in a log, and says what it does and how long it took.

    pip's settings in the caller's environment (index, certificates) are left as they are.
    """
    say(f"{what} ...")
    begun = time.monotonic()
    log = STATE / log_name
    if SetUpStep(command, ROOT, log, {**os.environ, **environment}).run() != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-LOG_LINES_SHOWN:]), file=sys.stderr)
        raise StepFailedError(f"{what}: failed, the whole log is {log.relative_to(ROOT)}")
    say(f"  done in {time.monotonic() - begun:.0f} s")


def read_stamp(name: str) -> str:
    try:
        return (ENVIRONMENT / name).read_text(encoding="utf-8")
    except OSError:
        return ""


def base_python() -> str:
    """The Python outside any virtual environment: the launcher may run in the one it replaces."""
    return getattr(sys, "_base_executable", None) or sys.executable


def ensure_environment() -> None:
    """A Python of our own in .venv, made anew when the system's Python has changed under it."""
    if read_stamp("penstock-created") == sys.version:
        return
    try:
        step(
            "creating the virtual environment .venv (some seconds)",
            "environment.log",
            [base_python(), "-m", "venv", "--clear", str(ENVIRONMENT)],
        )
    except StepFailedError:
        say("the venv module may be missing: on Debian and Ubuntu install python3-venv")
        raise
    (ENVIRONMENT / "penstock-created").write_text(sys.version, encoding="utf-8")


def extras_of(arguments: list[str]) -> tuple[str, ...]:
    """What a command needs beside the package's own needs."""
    if not arguments or asks_for_help(arguments):
        return ()
    return EXTRAS.get(arguments[0], ())


def asks_for_help(arguments: list[str]) -> bool:
    return any(word in HELP_OPTIONS for word in arguments)


def stamp_of(extra: str) -> str:
    return f"penstock-installed-{extra}" if extra else "penstock-installed"


def is_installed(key: str, extras: tuple[str, ...]) -> bool:
    return all(read_stamp(stamp_of(extra)) == key for extra in ("", *extras))


def ensure_installed(key: str, extras: tuple[str, ...]) -> None:
    if is_installed(key, extras):
        return
    ensure_environment()
    pip = [str(PYTHON), "-m", "pip", "install", "-c", "constraints.txt"]
    # A question would wait for ever: it goes to the log, and nobody can answer.
    pip += ["--disable-pip-version-check", "--no-input"]
    if read_stamp(stamp_of("")) != key:
        step(
            "installing the build tools (about 10 s)",
            "install-build.log",
            [*pip, "setuptools", "mypy"],
        )
    what = f"the dependencies ({'with Spark about a minute' if 'spark' in extras else '10 s'})"
    step(
        f"installing {what}",
        "install.log",
        [*pip, "--no-build-isolation", "-e", f".[{','.join(extras)}]" if extras else "."],
        PENSTOCK_PURE="1",
        PENSTOCK_REQUIRE_COMPILED="0",
    )
    link_command()
    for extra in ("", *extras):
        (ENVIRONMENT / stamp_of(extra)).write_text(key, encoding="utf-8")


def link_command() -> None:
    """The environment's own `penstock` command starts this launcher, and with it the same build."""
    command = ENVIRONMENT / "bin" / "penstock"
    command.unlink(missing_ok=True)
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(str(ROOT / "penstock"))} "$@"\n')
    command.chmod(0o755)


def ensure_compiled(project: dict[str, Any]) -> Path:
    """The compiled copy of the sources as they are now, even if they are edited meanwhile."""
    while True:
        key = compiled_key(project)
        copy = STATE / f"compiled-{key}"
        if copy.exists():
            return copy
        unfinished = compile_sources()
        if compiled_key(project) == key:
            unfinished.rename(copy)
            remove_old_copies(copy)
            return copy
        say("the sources changed during the build; building again")


def compile_sources() -> Path:
    """Builds the shared objects into a folder that nobody uses yet."""
    unfinished = STATE / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [str(PYTHON), "setup.py", "build_ext"]
    command += ["--build-lib", str(unfinished), "--build-temp", str(STATE / "build" / "objects")]
    step(
        "compiling (a minute or two; later calls compile only what changed)",
        "compile.log",
        command,
        PENSTOCK_REQUIRE_COMPILED="1",
        PENSTOCK_PURE="0",
        PENSTOCK_BUILD_DIR=str((STATE / "build" / "c").relative_to(ROOT)),
    )
    (unfinished / "in-use").touch()
    return unfinished


def link_sources(copy: Path) -> None:
    """Mirrors src in the copy with links, so that what is not compiled is always the current file.

    Runs on every call: files come and go without any change to the compiled ones.
    """
    wanted: set[str] = set()
    for folder, folders, files in os.walk(SOURCE / "penstock"):
        folders[:] = [name for name in folders if name != "__pycache__"]
        mirror = copy / os.path.relpath(folder, SOURCE)
        mirror.mkdir(parents=True, exist_ok=True)
        there = set(os.listdir(mirror))
        for name in files:
            wanted.add(str(mirror / name))
            if name not in there:
                with contextlib.suppress(FileExistsError):  # another call was quicker
                    (mirror / name).symlink_to(os.path.relpath(os.path.join(folder, name), mirror))
    for folder, folders, files in os.walk(copy / "penstock"):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            path = os.path.join(folder, name)
            if path not in wanted and os.path.islink(path):
                Path(path).unlink(missing_ok=True)


def remove_old_copies(current: Path) -> None:
    """Removes compiled copies of earlier sources, except those a running process still uses."""
    for copy in STATE.glob("compiled-*"):
        if copy == current:
            continue
        with contextlib.suppress(OSError), (copy / "in-use").open("w") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(copy)
    for failure in STATE.glob("failed-*"):
        failure.unlink(missing_ok=True)


def hold(copy: Path) -> None:
    """Marks the copy as used for as long as this process lives; the mark outlives the exec."""
    mark = os.open(copy / "in-use", os.O_RDONLY)
    fcntl.flock(mark, fcntl.LOCK_SH)
    os.set_inheritable(mark, True)


def prepare_copy(project: dict[str, Any]) -> tuple[Path | None, str]:
    """The compiled copy to run, or None and the reason why the pure build runs instead."""
    for name, value in (("PENSTOCK_PURE", "1"), ("PENSTOCK_TEST_BUILDS", "pure")):
        if os.environ.get(name) == value:
            return None, f"{name}={value}"
    key = compiled_key(project)
    copy = STATE / f"compiled-{key}"
    failed = STATE / f"failed-{key}"
    if not copy.exists():
        missing = toolchain.what_is_missing()
        if missing is not None:
            say(f"{missing}, so the pure Python build is used: correct, but several times slower.")
            say("install what is missing and run the command again to get the compiled build.")
            return None, missing
        if not failed.exists():
            try:
                with alone():
                    copy = ensure_compiled(project)
            except StepFailedError as problem:
                failed.write_text(str(problem), encoding="utf-8")
    if not copy.exists():
        say("compilation FAILED, so the pure Python build is used: several times slower.")
        say(f"the reason is in .penstock/compile.log; remove .penstock/{failed.name} to try again.")
        return None, "compilation failed, see .penstock/compile.log"
    hold(copy)
    link_sources(copy)
    return copy, ""


def run(arguments: list[str], copy: Path | None, why_pure: str) -> NoReturn:
    environment = dict(os.environ)
    if copy is not None:
        others = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{copy}{os.pathsep}{others}" if others else str(copy)
    else:
        environment["PENSTOCK_WHY_PURE"] = why_pure
    os.execve(PYTHON, [str(PYTHON), "-P", "-m", "penstock", *arguments], environment)


def main() -> NoReturn:
    arguments = sys.argv[1:]
    if arguments[:1] == ["test"] and asks_for_help(arguments):
        sys.stdout.write(TEST_HELP)
        sys.exit(0)
    extras = extras_of(arguments)
    project = toolchain.read_project()
    key = installed_key(project)
    try:
        if not is_installed(key, extras):
            with alone():
                ensure_installed(key, extras)
        copy, why_pure = prepare_copy(project)
    except StepFailedError as problem:
        sys.exit(f"penstock: {problem}")
    if copy is None and os.environ.get("PENSTOCK_REQUIRE_COMPILED") == "1":
        sys.exit(
            f"penstock: PENSTOCK_REQUIRE_COMPILED=1, but there is no compiled build: {why_pure}"
        )
    run(arguments, copy, why_pure)


if __name__ == "__main__":
    main()
