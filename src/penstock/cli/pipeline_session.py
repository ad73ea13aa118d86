"""What all jobs of `penstock pipeline` have in common: options, Spark, progress, errors."""

import importlib.util
import json
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer
from rich.console import Console

from penstock.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FINE: Final = 0
FOUND: Final = 1
# A wrong option, an input that cannot be read, a missing package.
REFUSED: Final = 2

# The valid prefixes of a Spark master.
MASTERS: Final = ("local", "spark://", "k8s://")
STANDALONE: Final = "spark://"
MASTER_PORT: Final = 7077
# A running master accepts at once.
MASTER_SECONDS: Final = 5.0
STANDARD_ERROR: Final = 2

_NEEDED: Final = ("pyspark", "pyarrow", "numpy", "pandas")

MasterOption = Annotated[
    str,
    typer.Option(
        "--master", help="Spark master: local[*] for this machine, spark://HOST:7077 for a cluster."
    ),
]
MemoryOption = Annotated[
    str, typer.Option("--memory", help="Memory of the Spark driver, such as 1g or 512m.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", help="Write a plot to this file: .png, or .html with a table."),
]

Tell = Callable[[str], None]
errors: Final = Console(stderr=True)


def need_spark(needed: tuple[str, ...] = _NEEDED) -> None:
    """Report missing packages at once, instead of a traceback later."""
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        errors.print(
            f"This command needs Spark; missing packages: {', '.join(missing)}.\n"
            "Install with: pip install 'penstock[spark]'",
            style="red",
            highlight=False,
            markup=False,
        )
        raise typer.Exit(REFUSED)


@contextmanager
def refusals() -> Iterator[None]:
    """Errors that the user can correct are printed as a sentence, with exit code 2."""
    need_spark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PipelineError, OSError) as error:
        _say(str(error))
        raise typer.Exit(REFUSED) from error
    except (PySparkException, Py4JError) as error:
        _say("\n".join([told_by_spark(str(error)), *getattr(error, "__notes__", ())]))
        raise typer.Exit(REFUSED) from error


def _say(text: str) -> None:
    errors.print(text, style="red", highlight=False, markup=False)


def told_by_spark(text: str) -> str:
    """Penstock's own sentence in a Spark error, which is many lines long."""
    for line in reversed(text.splitlines()):
        name, mark, rest = line.strip().partition(": ")
        if mark and name.startswith("penstock.spark."):
            return rest
    return "\n".join(text.splitlines()[:8])


@contextmanager
def progress(quiet: bool) -> Iterator[Tell]:
    """A line on the terminal with the current step."""
    if quiet or not errors.is_terminal:
        yield _silent
        return
    with errors.status("starting") as status:
        yield status.update


def _silent(text: str) -> None:
    """For output that is read by a program."""


class MasterRefused(PipelineError):
    """The text is not a valid Spark master."""


def check_master(master: str) -> None:
    """Checked before Java is started, which would report it in many lines."""
    if master != "yarn" and not master.startswith(MASTERS):
        raise MasterRefused(
            f"--master {master} is not a valid Spark master. Use local[*] for this machine, "
            "spark://HOST:7077, yarn or k8s://HOST:443."
        )
    if master.startswith(STANDALONE):
        check_standalone(master)


def check_standalone(master: str) -> None:
    """Spark itself would try for a minute. It is enough that one of several masters listens."""
    hosts = master.removeprefix(STANDALONE).split(",")
    problem = ""
    for host in hosts:
        parts = urlsplit(f"//{host}")
        try:
            address = (parts.hostname or "", parts.port or MASTER_PORT)
            socket.create_connection(address, MASTER_SECONDS).close()
        except (OSError, ValueError) as error:
            problem = str(error)
        else:
            return
    raise MasterRefused(
        f"--master {master}: cannot connect ({problem}). Check that the Spark master is running "
        f"there; its default port is {MASTER_PORT}."
    )


@contextmanager
def spark(master: str, memory: str, name: str, tell: Tell) -> Iterator["SparkSession"]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from penstock.spark.session import spark_session

    check_master(master)
    tell("starting Spark")
    # Spark's own log matters to the user only if the job fails.
    warnings.simplefilter("ignore")
    descriptor, name_of_log = tempfile.mkstemp(prefix="penstock-spark-", suffix=".log")
    os.close(descriptor)
    log = Path(name_of_log)
    is_kept = False
    try:
        with errors_into(log):
            session = spark_session(
                master,
                f"penstock {name}",
                spark__driver__memory=memory,
                spark__sql__shuffle__partitions=_partitions(master),
                spark__log__level="ERROR",
            )
        try:
            yield session
        finally:
            session.stop()
    except (PySparkException, Py4JError) as error:
        is_kept = True
        error.add_note(f"Spark's log is in {log}")
        raise
    finally:
        if not is_kept:
            log.unlink()


@contextmanager
def errors_into(log: Path) -> Iterator[None]:
    """Processes that are started meanwhile, such as the JVM, keep writing their errors there."""
    sys.stderr.flush()
    mine = os.dup(STANDARD_ERROR)
    with log.open("ab") as file:
        os.dup2(file.fileno(), STANDARD_ERROR)
    try:
        yield
    finally:
        os.dup2(mine, STANDARD_ERROR)
        os.close(mine)


def _partitions(master: str) -> str:
    """Spark's default of 200 is too many for the cores of one machine."""
    return "8" if master.startswith("local") else "200"


def print_json(told: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
