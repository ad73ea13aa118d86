"""The data source under another name, which kills the driver and its JVM at a named step.

The option `killed` is a JSON list: the driver's process group, a step, a number. Steps:

- `asked`: the reader has said the end of a micro-batch, and Spark has not written it down; the
  number counts how often this reader was asked;
- `staging`: a task of the micro-batch of this number has staged its rows, others perhaps not;
- `staged`: all have, and nothing is committed;
- `published`: the broker has committed, and Spark does not know.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

from penstock.spark.lease_reader import LeaseReader
from penstock.spark.source import PenstockDataSource
from penstock.spark.stream_reader import StreamReader
from penstock.spark.stream_writer import StreamWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage


@dataclass(frozen=True)
class Killing:
    group: int
    step: str
    number: int

    def reached(self, step: str, number: int) -> None:
        if (step, number) == (self.step, self.number):
            os.killpg(self.group, signal.SIGKILL)
            # Spark's Python processes have groups of their own.
            os.kill(os.getpid(), signal.SIGKILL)


class KillingStreamReader(StreamReader):
    def __init__(self, options: Any, killing: Killing) -> None:
        super().__init__(options)
        self._killing = killing
        self._asked = 0

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        answer = super().latestOffset(start, limit)
        self._asked += 1
        self._killing.reached("asked", self._asked)
        return answer


class KillingLeaseReader(LeaseReader):
    def __init__(self, options: Any, killing: Killing) -> None:
        super().__init__(options)
        self._killing = killing
        self._asked = 0

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        answer = super().latestOffset(start, limit)
        self._asked += 1
        self._killing.reached("asked", self._asked)
        return answer


class KillingWriter(StreamWriter):
    def __init__(self, options: Any, killing: Killing) -> None:
        super().__init__(options)
        self._killing = killing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        staged = super().write(iterator)
        task = TaskContext.get()
        assert task is not None
        self._killing.reached("staging", int(task.getLocalProperty("streaming.sql.batchId") or -1))
        return staged

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._killing.reached("staged", batchId)
        super().commit(messages, batchId)
        self._killing.reached("published", batchId)


class KillingSource(PenstockDataSource):
    @classmethod
    def name(cls) -> str:
        return "killing"

    def __init__(self, options: dict[str, str]) -> None:
        given = dict(options)
        self._killing = Killing(*json.loads(given.pop("killed")))
        super().__init__(given)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        options = self._read_options(schema).for_streaming()
        reader = KillingStreamReader if options.queue is None else KillingLeaseReader
        return reader(options, self._killing)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        return KillingWriter(self._write_options(schema, overwrite), self._killing)
