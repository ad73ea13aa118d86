"""A streaming write that kills its whole driver, JVM included, around the commit of a micro-batch.

    python killed_write.py OPTIONS-JSON CHECKPOINT - STEP BATCH

Options are the source's, and `target`, the queue to write to. Steps: `staged` (everything is
staged, nothing committed), `published` (the broker has committed, Spark has not); `never` lets it
end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from penstock.spark.session import spark_session
from penstock.spark.source import PenstockDataSource
from penstock.spark.stream_writer import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import WriterCommitMessage


class KillingWriter(StreamWriter):
    def __init__(self, writer: StreamWriter, group: int, step: str, batch: int) -> None:
        super().__init__(writer._options)
        self._group = group
        self._step = step
        self._batch = batch

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._reached("staged", batchId)
        super().commit(messages, batchId)
        self._reached("published", batchId)

    def _reached(self, step: str, batch: int) -> None:
        if (step, batch) == (self._step, self._batch):
            os.killpg(self._group, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


class KillingSource(PenstockDataSource):
    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        killed = json.loads(self.options.pop("killed"))
        writer = super().streamWriter(schema, overwrite)
        assert isinstance(writer, StreamWriter)
        return KillingWriter(writer, *killed)


def main() -> None:
    options = json.loads(sys.argv[1])
    target = options.pop("target")
    session = spark_session(
        "local[2]", "killed", spark__driver__memory="512m", spark__sql__shuffle__partitions="2"
    )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KillingSource)
    stream = session.readStream.format("penstock").options(**options, columns="body").load()
    killed = json.dumps([os.getpgid(0), sys.argv[4], int(sys.argv[5])])
    query = (
        # A shuffle, so that rows come in another order each time.
        stream.repartition(3)
        .writeStream.format("killing")
        .options(uri=options["uri"], exchange="", routingKey=target, killed=killed)
        .option("checkpointLocation", sys.argv[2])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    main()
