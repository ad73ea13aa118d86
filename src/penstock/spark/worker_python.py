"""The Python that Spark's workers on this machine run in.

Spark puts `pyspark.zip` in front of the module path of its Python workers. From there every worker
compiles PySpark anew, which takes 1.3 seconds of CPU; the installed package, which has the same
files, is imported in 0.4 seconds. Spark has no setting for that path, so workers are started by a
script that takes the archives out of it. Only workers on this machine: on a cluster the script
would not be there.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.spark.launchers import written_launcher

if TYPE_CHECKING:
    from collections.abc import Mapping

# What is taken out: the archives, and Spark's jar, which holds no Python and is searched as well.
_SCRIPT: Final = """\
#!/bin/sh
# Runs {python} with PySpark from the installed package instead of from pyspark.zip.
kept=
IFS=:
for entry in $PYTHONPATH; do
    case "$entry" in
        */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip | */jars/spark-core_*.jar) ;;
        *) kept="$kept${{kept:+:}}$entry" ;;
    esac
done
PYTHONPATH=$kept
export PYTHONPATH
unset IFS
exec "{python}" "$@"
"""


def worker_python(
    master: str, environment: Mapping[str, str] | None = None, package: Path | None = None
) -> str:
    """The program for PYSPARK_PYTHON: a script on this machine, else this very Python. `package` is
    where PySpark was imported from.
    """
    environment = os.environ if environment is None else environment
    folder = _pyspark_folder() if package is None else package
    if not master.startswith("local") or os.name != "posix" or not _is_found(folder, environment):
        return sys.executable
    text = _SCRIPT.format(python=sys.executable)
    return str(written_launcher("python", Path(sys.executable), text) / "bin" / "python")


def _pyspark_folder() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent.parent


def _is_found(folder: Path, environment: Mapping[str, str]) -> bool:
    """Whether a worker finds PySpark there by itself; one that a program has put on its own path is
    not found.
    """
    places = [*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("purelib")]
    places += environment.get("PYTHONPATH", "").split(os.pathsep)
    return folder.resolve() in {Path(place).resolve() for place in places if place}
