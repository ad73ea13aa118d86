"""Whether this machine can compile the hot rooms, and which files those are.

Read by setup.py, the launcher and the tests, so it uses the standard library only and must work
before anything is installed.
"""

import os
import shlex
import shutil
import sysconfig
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src"

# In the order a build machine is likely to have them.
COMPILERS: Final = ("cc", "gcc", "clang")


def read_project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def matching(patterns: list[str], source: Path = SOURCE) -> set[Path]:
    return {path for pattern in patterns for path in source.glob(pattern) if path.is_file()}


def compiled_files(project: dict[str, Any], source: Path = SOURCE) -> list[Path]:
    """The files mypyc compiles, in a fixed order: the order decides the shape of the C code."""
    rules = project["tool"]["penstock"]
    return sorted(matching(rules["compiled"], source) - matching(rules["interpreted"], source))


def cold_modules(project: dict[str, Any], source: Path = SOURCE) -> set[str]:
    """Compiled modules that no message passes through, as mypyc writes them in the names of its C
    files: with three underscores for each dot.
    """
    return {
        "___".join(path.relative_to(source).with_suffix("").parts)
        for path in matching(project["tool"]["penstock"]["cold"], source)
    }


def compiler() -> str | None:
    """The C compiler's command, or None. CC wins, then what built this Python, then the usual."""
    configured = (os.environ.get("CC", ""), str(sysconfig.get_config_var("CC") or ""))
    for command in configured + COMPILERS:
        words = shlex.split(command)
        if words and shutil.which(words[0]):
            return command
    return None


def what_is_missing() -> str | None:
    """What keeps this machine from compiling, in words for its owner; None when nothing does."""
    if compiler() is None:
        return "no C compiler (cc, gcc or clang) on the PATH"
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        return "this Python's C headers are not installed (python3-dev on Debian and Ubuntu)"
    return None
