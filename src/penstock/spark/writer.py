"""Writing a DataFrame: all rows are published when the job succeeds, none when it fails.

Each job has a sink of its own, which is deleted afterwards. Should the driver die before that, the
broker deletes it within a day.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from penstock.spark.direct_publish import publish_rows
from penstock.spark.staging import commit_rows, forget, stage_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock.spark.write_options import WriteOptions

_NAME_OCTETS: Final = 12


class BatchWriter(DataSourceArrowWriter):
    """Made in the driver; a copy is sent with each task."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._sink = f"{options.sink or 'spark'}.{secrets.token_hex(_NAME_OCTETS)}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return stage_rows(self._options, self._sink, 0, iterator, temporary=True)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_rows(self._options, 0, messages)
        forget(self._options, self._sink)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        del messages
        forget(self._options, self._sink)


class DirectWriter(DataSourceArrowWriter):
    """For deduplicate=false: rows are published as they come."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        publish_rows(self._options, iterator)
        return WriterCommitMessage()
