"""The streaming sink: each micro-batch is published once, whatever is killed and started again.

Spark tries a micro-batch again under the same number until its commit log has it. The broker drops
the second commit of a number, so each pair of sink and number is published once. The sink is the
one that the option names, or one named after the query's id, which Spark keeps in the checkpoint.
So a query with a new checkpoint, whose numbers begin anew, has a new sink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.spark.direct_publish import publish_rows
from penstock.spark.errors import PipelineError
from penstock.spark.staging import commit_rows, stage_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock.spark.write_options import WriteOptions

# What Spark tells its tasks about their query.
_BATCH_PROPERTY: Final = "streaming.sql.batchId"
_QUERY_PROPERTY: Final = "sql.streaming.queryId"


class StreamWriter(DataSourceStreamArrowWriter):
    """Made in the driver when the query starts; a copy is sent with each task."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        batch = int(_told(_BATCH_PROPERTY))
        sink = self._options.sink or f"spark.{_told(_QUERY_PROPERTY)}"
        return stage_rows(self._options, sink, batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        commit_rows(self._options, batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Does nothing: the micro-batch will be tried again, and its commit drops other
        attempts.
        """


class DirectStreamWriter(DataSourceStreamArrowWriter):
    """For deduplicate=false: a micro-batch that is tried again is published again."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        publish_rows(self._options, iterator)
        return WriterCommitMessage()


def _told(name: str) -> str:
    task = TaskContext.get()
    value = None if task is None else task.getLocalProperty(name)
    if value is None:
        raise PipelineError(
            f"Spark does not pass '{name}' to its tasks, so a repeated micro-batch cannot be "
            "recognised; "
            "name a sink with the option 'sink', or use deduplicate=false"
        )
    return value
