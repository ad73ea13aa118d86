"""A batch of rows through a sink: tasks stage, the driver commits, the broker publishes once.

An attempt has a random number, drawn when a task begins: Spark counts attempts from zero when a
driver is restarted, and rows in another order must not be mixed with those of a dead task.
"""

from __future__ import annotations

import logging
import secrets
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from penstock.formats.row_block import NO_ROWS
from penstock.spark.errors import PipelineError
from penstock.spark.http_client import BrokerClient, client_for
from penstock.spark.rows_encoding import encode_rows
from penstock.spark.worker_memory import settle_worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.spark.write_options import WriteOptions

log = logging.getLogger(__name__)

# Octets of one request: half of what the broker takes. More would hold its loop for longer.
REQUEST_BYTES: Final = 4 * 1024 * 1024
# What the broker takes: a single message may be this large.
REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
# Arrow's octets that are encoded at once.
GATHERED_BYTES: Final = 2 * 1024 * 1024
_ATTEMPT_BITS: Final = 62


@dataclass(frozen=True)
class StagedPartition(WriterCommitMessage):
    """The message of a task to the driver."""

    sink: str
    partition: int
    attempt: int
    count: int


def check_target(options: WriteOptions, is_first_contact: bool) -> None:
    """In the driver, before a job starts: check the broker, the permission and the exchange."""
    access = options.access.at_first_contact() if is_first_contact else options.access
    client = client_for(access)
    query = {} if options.exchange is None else {"exchange": options.exchange}
    path = client.path(
        "sinks", client.access.vhost, options.sink or "spark", "batches", 0,
        "partitions", 0, "attempts", 0, **query,
    )  # fmt: skip
    client.ask("POST", path, NO_ROWS)


def stage_rows(
    options: WriteOptions,
    sink: str,
    batch: int,
    batches: Iterator[pa.RecordBatch],
    *,
    temporary: bool = False,
) -> StagedPartition:
    """On an executor. Returns when everything is durable in the broker."""
    settle_worker()
    task = TaskContext.get()
    partition = 0 if task is None else task.partitionId()
    attempt = secrets.randbits(_ATTEMPT_BITS)
    with Stager(options, sink, batch, partition, attempt, temporary) as stager:
        for gathered in gather(batches):
            rows = encode_rows(gathered, options.exchange, options.routing_key)
            for size, octets in rows.blocks(REQUEST_BYTES, options.window):
                if len(octets) > REQUEST_BYTES_MAX:
                    raise PipelineError(
                        f"a message has {len(octets)} bytes; the maximum for a sink is "
                        f"{REQUEST_BYTES_MAX}"
                    )
                stager.send(size, octets)
        stager.wait()
        return StagedPartition(sink, partition, attempt, stager.count)


class Stager:
    """Sends the rows of one task, one request at a time, while the next one is being made. Held by
    the task. The client belongs to the task's thread; only the sender uses it meanwhile.
    """

    def __init__(
        self,
        options: WriteOptions,
        sink: str,
        batch: int,
        partition: int,
        attempt: int,
        temporary: bool,
    ) -> None:
        self._client = client_for(options.access)
        self._parts = (
            "sinks", self._client.access.vhost, sink, "batches", batch, "partitions", partition,
            "attempts", attempt,
        )  # fmt: skip
        self._query = {"mandatory": int(options.mandatory), "temporary": int(temporary)}
        self._sender = ThreadPoolExecutor(1, "penstock-staging")
        self._sent: Future[Any] | None = None
        # Rows that were handed over.
        self.count = 0

    def send(self, count: int, octets: bytes) -> None:
        """Waits for the request before. Raises what that one raised."""
        query = {**self._query, "first": self.count, "crc32": zlib.crc32(octets)}
        path = self._client.path(*self._parts, **query)
        self.wait()
        self._sent = self._sender.submit(self._client.ask, "POST", path, octets)
        self.count += count

    def wait(self) -> None:
        if self._sent is not None:
            sent, self._sent = self._sent, None
            sent.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A request under way ends first: the next task has the same client.
        self._sender.shutdown()


def commit_rows(options: WriteOptions, batch: int, staged: list[Any]) -> None:
    """In the driver. Returns when everything is published, now or before."""
    partitions = [part for part in staged if isinstance(part, StagedPartition) and part.count]
    if not partitions:
        return
    client = client_for(options.access)
    sink = partitions[0].sink
    asked = {
        "attempts": [[part.partition, part.attempt, part.count] for part in partitions],
        "mandatory": options.mandatory,
        "when_full": options.when_full,
    }
    path = client.path("sinks", client.access.vhost, sink, "batches", batch, "commit")
    answer = client.send_json("POST", path, asked)
    while not answer["published"]:
        if "waits_for" in answer:
            log.warning(
                "batch %d of sink '%s' is waiting for room in queue '%s', which is full",
                batch, sink, answer["waits_for"],
            )  # fmt: skip
        else:
            log.info("sink '%s' is still publishing batch %d", sink, batch)
        answer = client.send_json("POST", path, asked)
    if batch < answer["last_batch"]:
        raise PipelineError(
            f"sink '{sink}' has already committed batch {answer['last_batch']}, but this is batch "
            f"{batch}: another query uses the sink, or this one has lost its checkpoint. Nothing "
            "of this batch was published. Name another sink, or delete this one: "
            f"DELETE {client.path('sinks', client.access.vhost, sink)}"
        )
    if answer["unroutable"]:
        lost = f"{answer['unroutable']} messages of batch {batch} were not routed to any queue"
        if options.mandatory:
            raise PipelineError(
                f"{lost}: a binding, queue or exchange was deleted while they were published. The "
                "other messages are published, and retrying this batch has no effect"
            )
        log.warning(lost)


def forget(options: WriteOptions, sink: str) -> None:
    client: BrokerClient = client_for(options.access)
    client.ask("DELETE", client.path("sinks", client.access.vhost, sink))


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of some size: Spark's may be small, and a request each would be many."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= GATHERED_BYTES:
            yield _together(waiting)
            waiting, size = [], 0
    if waiting:
        yield _together(waiting)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
