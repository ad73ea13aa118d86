"""Streams as a streaming source: exactly once, whatever is killed, by offsets in the checkpoint.

Spark calls in its driver `latestOffset` for the end and `partitions` for the tasks; then tasks
`read`. A plan is a function of two offsets and of streams that only grow at their end, so a plan
that is made again after a crash gives the same rows.

An object of this class stays in Spark's planning process; a copy of it is sent with each task.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.spark.admission import admit
from penstock.spark.broker_streams import move_cursor
from penstock.spark.errors import PipelineError
from penstock.spark.http_client import BrokerClient, client_for
from penstock.spark.offset_choice import LATEST
from penstock.spark.progress import (
    Position,
    Progress,
    ends_of,
    extents_between,
    is_behind,
    read_progress,
    write_progress,
)
from penstock.spark.read_limits import AvailableNow, default_limit, is_unlimited
from penstock.spark.slices import StreamSlice, plan_slices, read_slice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.spark.broker_streams import Stream
    from penstock.spark.options import ReadOptions

log = logging.getLogger(__name__)

# Until then a server of a cluster shows what another one has shown: some heartbeats of the root, or
# an election. A broker that runs on an older copy of its data is reported after this time.
LAG_SECONDS_MAX: Final = 10.0
LAG_POLL_SECONDS: Final = 0.1


class StreamReader(DataSourceStreamReader, AvailableNow):
    """Made by the data source, once in the planning process and once for each plan of tasks."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        # Ends that a query with Trigger.AvailableNow works towards.
        self._target: Progress | None = None
        self._ends: Progress = {}
        self._cursors: dict[str, int] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        client = self._client()
        streams = self._options.subscription.resolve(client)
        choice = self._options.starting_or(LATEST)
        choice.check_names(streams)
        progress: Progress = {}
        for name, stream in streams.items():
            begin = choice.in_stream(client, stream, self._options.fail_on_loss)
            progress[name] = Position(stream.identity, begin, begin)
        return write_progress(progress)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        return default_limit(self._options.messages_max, self._options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        streams = self._options.subscription.resolve(self._client(), may_be_empty=True)
        self._target = ends_of(streams, None, self._options.fail_on_loss)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Spark 4.0 and 4.1 pass neither argument and read all present messages."""
        client = self._client()
        options = self._options
        begun = None if start is None else read_progress(start)
        if begun is not None:
            # Everything before `start` is committed: Spark says so by asking.
            self._move_cursors(client, begun)
        # Streams that a query has read and that are all gone are reported as lost data.
        streams = self._reaching(client, begun or {})
        self._ends = ends_of(streams, begun, options.fail_on_loss)
        ends = self._ends if self._target is None else self._up_to_target(begun or {})
        if begun is None or is_unlimited(limit):
            return write_progress(ends)
        return write_progress(
            admit(client, streams, begun, ends, options.messages_max, options.bytes_max)
        )

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return write_progress(self._ends) if self._ends else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        client = self._client()
        ends = read_progress(end)
        streams = self._reaching(client, ends)
        extents = extents_between(streams, read_progress(start), ends, self._options.fail_on_loss)
        return plan_slices(client, extents, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamSlice)
        return read_slice(partition, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        self._move_cursors(self._client(), read_progress(end))

    def stop(self) -> None:
        self._client().close()

    def _client(self) -> BrokerClient:
        return client_for(self._options.access)

    def _reaching(self, client: BrokerClient, known: Progress) -> dict[str, Stream]:
        """The streams, at least as far as they are known to go. A server of a cluster may hear a
        moment later than another one that more can be read.
        """
        deadline = time.monotonic() + min(self._options.access.retry_seconds, LAG_SECONDS_MAX)
        while True:
            streams = self._options.subscription.resolve(client, may_be_empty=True)
            if not is_behind(streams, known) or time.monotonic() > deadline:
                return streams
            time.sleep(LAG_POLL_SECONDS)

    def _up_to_target(self, begun: Progress) -> Progress:
        """What was there when the query began; a stream that is newer waits for the next run."""
        assert self._target is not None
        ends: Progress = {}
        for name, end in self._ends.items():
            known = begun.get(name)
            target = self._target.get(name)
            if target is not None and target.identity == end.identity:
                reached = end.begin if known is None else known.next
                ends[name] = replace(end, next=max(reached, min(end.next, target.next)))
            elif known is not None:
                ends[name] = known
        return ends

    def _move_cursors(self, client: BrokerClient, progress: Progress) -> None:
        cursor = self._options.cursor
        if cursor is None:
            return
        for name, position in progress.items():
            if self._cursors.get(name) == position.next:
                continue
            try:
                move_cursor(client, name, cursor, position.next)
            except PipelineError as error:
                # A cursor shows the progress of the query to people; only the checkpoint counts.
                log.warning("cursor '%s' of stream '%s' was not moved: %s", cursor, name, error)
            else:
                self._cursors[name] = position.next
