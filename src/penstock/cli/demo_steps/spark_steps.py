"""The third part: the stream archived to Parquet, and the ledgers audited, both by Spark."""

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.jobs.verdict import Audit

NEEDED: Final = ("pyspark", "pyarrow", "numpy", "pandas")

# Enough for some hundred thousand small messages, and small for a laptop.
DRIVER_MEMORY: Final = "512m"
# As many tasks as the two cores that the demo is made for.
MASTER: Final = "local[2]"
PARTITIONS: Final = "2"

LOOK_SECONDS: Final = 1

Tell = Callable[[str], None]


class SparkFailed(Exception):
    """The third part failed; the text is for people."""


def missing_packages() -> list[str]:
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def why_no_java() -> str:
    """Empty when Spark finds Java here. Call it only when no package is missing."""
    from penstock.spark.java import NoJava, java_home

    try:
        java_home()
    except NoJava as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True)
class Archived:
    """What the archive holds of the stream."""

    rows: int
    # Distinct messages: one that was sent again may be there twice.
    distinct: int
    sent_again: int
    octets: int
    seconds: float


@contextmanager
def spark(log: Path, tell: Tell) -> Iterator["SparkSession"]:
    """Spark's own log goes into `log`, so that it does not disturb the display."""
    from pyspark.errors import PySparkException

    from penstock.cli.pipeline_session import errors_into, told_by_spark
    from penstock.spark.errors import PipelineError
    from penstock.spark.session import spark_session

    tell("starting Spark")
    warnings.simplefilter("ignore")
    session: SparkSession | None = None
    try:
        with errors_into(log):
            session = spark_session(
                MASTER,
                "penstock demo",
                spark__driver__memory=DRIVER_MEMORY,
                spark__sql__shuffle__partitions=PARTITIONS,
                spark__log__level="ERROR",
            )
        yield session
    except (PipelineError, PySparkException) as error:
        raise SparkFailed(f"Spark failed: {told_by_spark(str(error))}") from error
    finally:
        if session is not None:
            session.stop()


def archive_stream(
    session: "SparkSession", http_uri: str, stream: str, root: Path, tell: Tell
) -> Archived:
    """Run the job of `penstock pipeline archive`; then count what the archive holds."""
    from penstock.spark.jobs.archive import archive, read_archive

    began = time.monotonic()
    options = {"uri": http_uri, "stream": stream, "startingOffsets": "earliest"}
    tell("archiving the stream to Parquet")
    query = archive(session, str(root), options)
    while not query.awaitTermination(LOOK_SECONDS):
        told = query.lastProgress
        if told is not None:
            tell(f"archiving the stream to Parquet, {told['numInputRows']:,} messages")
    seconds = time.monotonic() - began
    tell("counting the archive")
    row = (
        read_archive(session, str(root))
        .selectExpr(
            # As `marked_body` lays them out, counted from 1: publisher and sequence, then the mark.
            "substring(body, 5, 10) AS message",
            "substring(body, 23, 1) != X'00' AS again",
        )
        .selectExpr(
            "count(*) AS rows",
            "count(DISTINCT message) AS distinct",
            "count_if(again) AS sent_again",
        )
        .first()
    )
    assert row is not None
    octets = sum(path.stat().st_size for path in root.rglob("*.parquet"))
    return Archived(row["rows"], row["distinct"], row["sent_again"], octets, seconds)


def audit_ledgers(
    session: "SparkSession", ledgers: list[Path], tell: Tell
) -> tuple["Audit", float]:
    """Run the job of `penstock pipeline audit`; also returns how many seconds it took."""
    from penstock.spark.jobs.audit import audit
    from penstock.spark.jobs.ledger_reading import open_ledgers

    began = time.monotonic()
    tell("auditing the ledgers")
    found = audit(open_ledgers(session, ledgers), tell=lambda text: tell(f"auditing: {text}"))
    return found, time.monotonic() - began
