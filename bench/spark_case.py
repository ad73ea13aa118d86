"""The case `spark`: a broker, a stream, Spark on two cores; reads, writes, and the audit."""

import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from bench.loader import LoadFailedError
from bench.results import Results
from bench.running import BrokerUnavailableError
from bench.spark import AUDIT_LEDGER, SPARK, SparkSample
from bench.spark_broker import CpuTimes, PenstockWithHttp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2]"
# Of the ledger that is audited; a message has three events, in runs of so many.
AUDIT_QUEUES = 10
AUDIT_RUN = 100
EVENTS_OF_MESSAGE = 3
# The audit's ledger has so many events for each message that is read.
AUDIT_FACTOR = 8


@dataclasses.dataclass(frozen=True, slots=True)
class SparkOptions:
    """How much; the defaults of the command are in `run.py`."""

    messages: int
    rounds: int
    parts: Sequence[str]


def run_spark(options: SparkOptions, results: Results, console: Console) -> None:
    """Raises `BrokerUnavailableError`; a failure in one part does not stop the others."""
    try:
        from pyspark.errors import PySparkException

        from penstock.spark.errors import PipelineError
        from penstock.spark.session import spark_session
    except ImportError as missing:
        raise BrokerUnavailableError(
            f"the case needs Spark (pip install 'penstock[spark]'): {missing}"
        ) from None

    def tell(sample: SparkSample) -> None:
        results.spark.append(sample)
        console.print(
            f"spark {sample.work.name}: {sample.rate:,.0f} rows/s,"
            f" {sample.microseconds:.2f} us/row, broker {sample.broker_microseconds:.3f}"
        )

    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        broker = PenstockWithHttp()
        stack.callback(broker.stop)
        results.versions[broker.name] = broker.version
        console.print(f"{broker.name} {broker.version} up, starting Spark, {MASTER}")
        spark = spark_session(MASTER, "penstock bench", spark__sql__shuffle__partitions="2")
        stack.callback(spark.stop)
        spark.sparkContext.setLogLevel("ERROR")
        results.versions["spark"] = spark.version
        run = PartOfRun(spark, broker, folder, options, console, tell)
        for name in options.parts:
            try:
                PARTS[name](run)
            except (LoadFailedError, PipelineError, PySparkException) as failure:
                results.failures.append(f"{SPARK} {name}: {failure}")
                console.print(f"[red]{SPARK} {name} failed: {escape(str(failure))}[/]")


@dataclasses.dataclass(frozen=True, slots=True)
class PartOfRun:
    """What every part needs."""

    spark: "SparkSession"
    broker: PenstockWithHttp
    folder: Path
    options: SparkOptions
    console: Console
    tell: Callable[[SparkSample], None]


def run_reads(run: PartOfRun) -> None:
    from bench.spark_reads import ReadBench, fill, read_rounds

    fill(run.broker, run.options.messages, run.console.print)
    bench = ReadBench(run.spark, run.broker, run.folder, run.options.messages)
    run.console.print("writing the same rows to Parquet, then a round to warm up")
    bench.write_parquet()
    read_rounds(bench, run.options.rounds, run.tell)


def run_writes(run: PartOfRun) -> None:
    from bench.spark_writes import WriteBench, write_rounds

    bench = WriteBench(run.spark, run.broker, run.options.messages)
    write_rounds(bench, run.options.rounds, run.tell)


def run_audits(run: PartOfRun) -> None:
    """Of a ledger without faults, as ledgers are; the first round only warms."""
    from bench.synthetic_ledger import Traffic, write_server
    from penstock.spark.jobs.audit import audit
    from penstock.spark.jobs.ledger_reading import open_ledgers

    messages = run.options.messages * AUDIT_FACTOR // (EVENTS_OF_MESSAGE * AUDIT_QUEUES)
    server = run.folder / "server"
    written = write_server(server, Traffic(AUDIT_QUEUES, messages, AUDIT_RUN))
    for round_index in range(run.options.rounds + 1):
        cpu = CpuTimes(run.broker)
        began = time.perf_counter()
        found = audit(open_ledgers(run.spark, [server]))
        seconds = time.perf_counter() - began
        if found.events != written:
            raise LoadFailedError(f"the audit saw {found.events:,} events of {written:,}")
        if round_index:
            rate = written / seconds
            used, _ = cpu.passed()
            run.tell(SparkSample(AUDIT_LEDGER, round_index, written, seconds, seconds, rate, used))


PARTS: dict[str, Callable[[PartOfRun], None]] = {
    "read": run_reads,
    "write": run_writes,
    "audit": run_audits,
}


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-spark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
