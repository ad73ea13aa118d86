"""Streaming reads: of a stream by the source `penstock`, and of Parquet files with the same rows."""

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench.loader import LoadFailedError
from bench.spark import ALL, COUNT, KEY, PARQUET, READS, USUAL, SparkSample, SparkWork
from bench.spark_broker import CpuTimes, PenstockWithHttp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

STREAM_NAME = "bench"
EXCHANGE = "bench.topic"
KEYS = 200
REGIONS = ("eu", "us", "asia", "africa")
BODY_BYTES = 100
PUBLISH_MESSAGES = 2_000
PUBLISH_WINDOW = 20_000
CONFIRM_SECONDS_MAX = 120.0

# Each micro-batch takes so many messages, in two tasks: one for each core.
TRIGGER_MESSAGES = 1_000_000
TASKS = 2


def bodies(first: int, count: int) -> Iterator[bytes]:
    """Of 100 bytes that never come twice: a column of equal bodies would cost Parquet nothing."""
    noise = random.Random(first).randbytes(count * BODY_BYTES // 2).hex().encode()
    for row in range(count):
        opening = b'{"number":%010d,"token":"' % (first + row)
        at = row * BODY_BYTES
        yield opening + noise[at : at + BODY_BYTES - len(opening) - 2] + b'"}'


def fill(broker: PenstockWithHttp, messages: int, tell: Callable[[str], None]) -> None:
    """Returns when all are confirmed, so on disk."""
    from penstock.client import blocking
    from penstock.client.calls import bind_queue, declare_exchange, declare_queue
    from penstock.wire.amqp091.content import PERSISTENT, BasicProperties

    heads = [
        BasicProperties(delivery_mode=PERSISTENT, headers={"region": region, "version": 5})
        for region in REGIONS
    ]
    with blocking.connect(broker.amqp_uri) as connection, connection.channel() as channel:
        stream: dict[str, object] = {"x-queue-type": "stream"}
        channel.call(declare_queue(STREAM_NAME, durable=True, arguments=stream))
        channel.call(declare_exchange(EXCHANGE, "topic", durable=True))
        channel.call(bind_queue(STREAM_NAME, EXCHANGE, "#"))
        channel.select_confirms(window=PUBLISH_WINDOW)
        for first in range(0, messages, PUBLISH_MESSAGES):
            count = min(PUBLISH_MESSAGES, messages - first)
            batch = [
                (f"orders.{number % KEYS:03d}", body)
                for number, body in enumerate(bodies(first, count), first)
            ]
            head = heads[first // PUBLISH_MESSAGES % len(heads)]
            channel.publish_batch(EXCHANGE, batch, head)
            if first % TRIGGER_MESSAGES == 0:
                tell(f"{first:,} of {messages:,} messages published")
        channel.wait_for_confirms(CONFIRM_SECONDS_MAX)


class ReadBench:
    """A stream that is filled and Parquet files of it. Held by the Spark case."""

    def __init__(
        self, spark: "SparkSession", broker: PenstockWithHttp, folder: Path, messages: int
    ) -> None:
        self._spark = spark
        self._broker = broker
        self._folder = folder
        self._messages = messages
        self._trigger = min(TRIGGER_MESSAGES, max(TASKS, messages // 2))
        self._schemas: dict[str, StructType] = {}

    def write_parquet(self) -> None:
        """One file for each task of a micro-batch, with all columns, as an archive has them."""
        rows = str(-(-self._trigger // TASKS))
        every = self._batch(ALL).option("rowsPerPartition", rows).load()
        every.write.option("compression", "zstd").parquet(self._files)
        self._schemas = {ALL: every.schema, USUAL: self._batch(USUAL).load().schema}

    def run(self, work: SparkWork, round_index: int) -> SparkSample:
        frame = self._frame(work)
        checkpoint = tempfile.mkdtemp(dir=self._folder)
        writer = frame.writeStream.format("noop")
        if work.work == COUNT:
            counted = frame.groupBy("routing_key").count()
            writer = counted.writeStream.format("noop").outputMode("complete")
        cpu = CpuTimes(self._broker)
        began = time.perf_counter()
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        whole = time.perf_counter() - began
        used = cpu.passed()
        shutil.rmtree(checkpoint, ignore_errors=True)
        told = [batch for batch in query.recentProgress if batch["numInputRows"]]
        rows = sum(batch["numInputRows"] for batch in told)
        if rows != self._messages:
            raise LoadFailedError(f"{work.name}: {rows:,} rows of {self._messages:,} came")
        return SparkSample(
            work,
            round_index,
            rows,
            sum(batch["durationMs"]["triggerExecution"] for batch in told) / 1000,
            whole,
            max(batch["processedRowsPerSecond"] for batch in told),
            *used,
        )

    @property
    def _files(self) -> str:
        return str(self._folder / "parquet")

    def _batch(self, columns: str) -> "DataFrameReader":
        reader = self._spark.read.format("penstock")
        return reader.options(**self._options(columns))

    def _options(self, columns: str) -> dict[str, str]:
        given = {"uri": self._broker.uri, "stream": STREAM_NAME, "startingOffsets": "earliest"}
        if columns == ALL:
            given["columns"] = "*"
        if columns == KEY:
            given["columns"] = "routing_key"
        return given

    def _frame(self, work: SparkWork) -> "DataFrame":
        stream = self._spark.readStream
        if work.rows_of == PARQUET:
            schema = self._schemas[work.columns or ALL]
            return stream.schema(schema).option("maxFilesPerTrigger", TASKS).parquet(self._files)
        limits = {"maxMessagesPerTrigger": str(self._trigger), "minPartitions": str(TASKS)}
        return stream.format("penstock").options(**self._options(work.columns), **limits).load()


def read_rounds(bench: ReadBench, rounds: int, tell: Callable[[SparkSample], None]) -> None:
    """The first round only warms: Spark compiles what it runs."""
    for round_index in range(rounds + 1):
        for work in READS:
            sample = bench.run(work, round_index)
            if round_index:
                tell(sample)
