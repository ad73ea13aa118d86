"""Batch writes of 100-byte rows to a queue: by the sink, directly, and one tuple after the other.

The tuple path is what a user would write without the sink: Spark's plain writer for Python, which
gets rows one by one, and a client that publishes them with confirms.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

from bench.loader import LoadFailedError
from bench.spark import WRITE_DIRECT, WRITE_SINK, WRITE_TUPLES, SparkSample, SparkWork
from bench.spark_broker import CpuTimes, PenstockWithHttp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

QUEUE = "bench.written"
CONFIRM_WINDOW = 20_000
# Of the rows that the others write; it is that slow.
TUPLES_PART = 5
WRITES = (WRITE_SINK, WRITE_DIRECT, WRITE_TUPLES)


class TupleWriter(DataSourceWriter):
    """Sent to Spark's workers."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def write(self, iterator: "Iterator[Row]") -> WriterCommitMessage:
        from penstock.client import blocking
        from penstock.wire.amqp091.content import PERSISTENT, BasicProperties

        messages = ((row.routing_key, bytes(row.body)) for row in iterator)
        with blocking.connect(self._uri) as connection, connection.channel() as channel:
            channel.select_confirms(CONFIRM_WINDOW)
            channel.publish_batch("", messages, BasicProperties(delivery_mode=PERSISTENT))
            channel.wait_for_confirms()
        return WriterCommitMessage()


class Tuples(DataSource):
    """The format `tuples`."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        del schema, overwrite
        return TupleWriter(self.options["uri"])


class WriteBench:
    """Held by the Spark case."""

    def __init__(self, spark: "SparkSession", broker: PenstockWithHttp, rows: int) -> None:
        self._spark = spark
        self._broker = broker
        self._rows = rows
        spark.dataSource.register(Tuples)

    def run(self, work: SparkWork, round_index: int) -> SparkSample:
        """The queue is emptied before; afterwards it must hold every row."""
        rows = self._rows // TUPLES_PART if work == WRITE_TUPLES else self._rows
        self._in_queue(purge=True)
        writer = self._frame(rows).write.format("penstock").option("exchange", "amq.default")
        options = {"uri": self._broker.uri}
        if work == WRITE_DIRECT:
            options |= {"deduplicate": "false", "amqpUri": self._broker.amqp_uri}
        if work == WRITE_TUPLES:
            writer = self._frame(rows).write.format("tuples")
            options = {"uri": self._broker.amqp_uri}
        cpu = CpuTimes(self._broker)
        began = time.perf_counter()
        writer.options(**options).mode("append").save()
        seconds = time.perf_counter() - began
        used = cpu.passed()
        if (written := self._in_queue()) != rows:
            raise LoadFailedError(f"{work.name}: {written:,} rows of {rows:,} are in the queue")
        return SparkSample(work, round_index, rows, seconds, seconds, rows / seconds, *used)

    def _frame(self, rows: int) -> "DataFrame":
        return self._spark.range(0, rows, 1, 2).selectExpr(
            f"'{QUEUE}' AS routing_key",
            "cast(lpad(cast(id AS string), 100, 'x') AS binary) AS body",
        )

    def _in_queue(self, *, purge: bool = False) -> int:
        from penstock.client import blocking
        from penstock.client.calls import declare_queue, purge_queue

        uri = self._broker.amqp_uri
        with blocking.connect(uri) as connection, connection.channel() as channel:
            declared: Any = channel.call(declare_queue(QUEUE, durable=True))
            if purge:
                channel.call(purge_queue(QUEUE))
        return int(declared.message_count)


def write_rounds(bench: WriteBench, rounds: int, tell: Callable[[SparkSample], None]) -> None:
    """The first round only warms."""
    for round_index in range(rounds + 1):
        for work in WRITES:
            sample = bench.run(work, round_index)
            if round_index:
                tell(sample)
