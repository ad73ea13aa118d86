"""A classic queue as a streaming source, by leases: each message once, as long as leases last.

A lease is a bounded batch of messages that the broker sets apart under an owner and a number
(docs/HTTP.md). The offset in Spark's checkpoint is the number of the last lease:

    {"lease": 12}

Asking for a number that is already leased gives the same messages, so whatever is killed, a
restarted query finds its messages under the numbers it had planned. Leases are settled when Spark
asks what comes after them: it does so only when everything before is committed, also once more
before a query with Trigger.AvailableNow ends. Asynchronous progress tracking breaks this guarantee
of Spark and must not be used with queues.

With `leaseTimeout` the messages of a lease whose query is not restarted in time return to the
queue, flagged as redelivered: they may then be seen twice. Without it leases never expire.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.formats.row_block import BLOCK_HEAD
from penstock.formats.stream_index import ENTRY_SIZE
from penstock.spark.columns import LEASE_OFFSET_STEP
from penstock.spark.errors import BrokerRefused, OptionError, PipelineError, SegmentDamaged
from penstock.spark.http_client import BrokerClient, client_for
from penstock.spark.read_limits import AvailableNow, default_limit, is_unlimited
from penstock.spark.segments import SPARE_BYTES, RowDecoder, read_index
from penstock.spark.worker_memory import settle_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.spark.options import ReadOptions

log = logging.getLogger(__name__)

# The broker's limit: it moves the messages of a lease in one step.
LEASE_MESSAGES_MAX: Final = 20_000
LEASE_BYTES_MAX: Final = 16 * 1024 * 1024
# Of one micro-batch without a limit of its own: a million messages, and far from the number of
# leases that the broker allows an owner.
LEASES_PER_TRIGGER: Final = 50


@dataclass
class LeaseSlice(InputPartition):
    """One lease is one task. Pickled by Spark."""

    number: int
    messages: int

    def __init__(self, number: int, messages: int) -> None:
        super().__init__(number)
        self.number = number
        self.messages = messages


class LeaseReader(DataSourceStreamReader, AvailableNow):
    """Made by the data source; a copy is sent with each task."""

    def __init__(self, options: ReadOptions) -> None:
        assert options.queue is not None
        assert options.owner is not None
        self._options = options
        self._queue = options.queue
        self._owner = options.owner
        self._settled = 0
        # With Trigger.AvailableNow a query ends when it has once seen the end of the queue.
        self._ends_when_empty = False
        self._has_seen_end = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"lease": 0}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        return default_limit(self._options.messages_max, self._options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ends_when_empty = True

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        if start is None:
            raise PipelineError("reading a queue needs Spark 4.2 or later")
        client = self._client()
        done = _number_in(start)
        self._settle(client, done)
        if self._ends_when_empty and self._has_seen_end:
            return {"lease": done}
        messages = LEASES_PER_TRIGGER * LEASE_MESSAGES_MAX
        octets = LEASES_PER_TRIGGER * LEASE_BYTES_MAX
        if not is_unlimited(limit):
            messages = self._options.messages_max or messages
            octets = self._options.bytes_max or octets
        return {"lease": self._take(client, done, messages, octets)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        client = self._client()
        path = client.path("leases", client.access.vhost, self._queue, self._owner)
        held = {
            int(facts["number"]): int(facts["messages"])
            for facts in client.get_json(path)["leases"]
        }
        slices: list[InputPartition] = []
        for number in range(_number_in(start) + 1, _number_in(end) + 1):
            if number in held:
                slices.append(LeaseSlice(number, held[number]))
            else:
                log.warning(
                    "lease %d of '%s' on queue '%s' has expired: its messages were returned to "
                    "the queue",
                    number,
                    self._owner,
                    self._queue,
                )
        return slices

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LeaseSlice)
        settle_worker()
        client = self._client()
        path = self._path(client, partition.number, **{"from": 0, "to": partition.messages})
        rows = client.ask("GET", path).body
        count, log_size = BLOCK_HEAD.unpack_from(rows, 0)
        log_at = BLOCK_HEAD.size + count * ENTRY_SIZE
        if count != partition.messages or len(rows) != log_at + log_size:
            raise SegmentDamaged(
                f"lease {partition.number} has only {count} of {partition.messages} messages"
            )
        decoder = RowDecoder(
            self._options.columns, self._queue, 0, self._options.row_filter, self._options.verify
        )
        octets = bytearray(log_size + SPARE_BYTES)
        octets[:log_size] = memoryview(rows)[log_at:]
        index = read_index(memoryview(rows)[BLOCK_HEAD.size : log_at])
        first = partition.number * LEASE_OFFSET_STEP
        yield from decoder.batches(index, octets, log_size, 0, first)

    def commit(self, end: dict[str, Any]) -> None:
        self._settle(self._client(), _number_in(end))

    def stop(self) -> None:
        self._client().close()

    def _take(self, client: BrokerClient, number: int, messages: int, octets: int) -> int:
        """Leases after a number until a limit or the queue's end; the number of the last one."""
        while messages > 0 and octets > 0:
            asked = min(messages, LEASE_MESSAGES_MAX)
            facts = self._lease(client, number + 1, asked, min(octets, LEASE_BYTES_MAX))
            count = int(facts["messages"])
            if count == 0:
                self._drop_empty(client, number + 1)
                self._has_seen_end = True
                break
            number += 1
            messages -= count
            octets -= int(facts["octets"])
            # A lease from before a restart says nothing about the present queue.
            if facts["created"] and count < asked and int(facts["octets"]) < LEASE_BYTES_MAX:
                self._has_seen_end = octets > 0
                break
        return number

    def _lease(self, client: BrokerClient, number: int, messages: int, octets: int) -> Any:
        try:
            return client.send_json(
                "POST",
                client.path("leases", client.access.vhost, self._queue),
                {
                    "owner": self._owner,
                    "number": number,
                    "messages": messages,
                    "octets": octets,
                    "expires_ms": int(self._options.lease_seconds * 1000),
                },
            )
        except BrokerRefused as refusal:
            if refusal.status not in {400, 404}:
                raise
            raise OptionError(
                "queue",
                str(refusal.facts.get("reason")),
                "It must be a durable classic queue of the virtual host in 'uri'.",
            ) from None

    def _drop_empty(self, client: BrokerClient, number: int) -> None:
        """An empty lease would stay empty. Settling it would settle those before it."""
        try:
            client.ask("POST", self._path(client, number) + "/return")
        except BrokerRefused as refusal:
            # Its answer was lost and it was asked for again.
            if refusal.status != 404:
                raise

    def _settle(self, client: BrokerClient, number: int) -> None:
        if number > self._settled:
            client.ask("DELETE", self._path(client, number))
            self._settled = number

    def _path(self, client: BrokerClient, number: int, **query: object) -> str:
        return client.path("leases", client.access.vhost, self._queue, self._owner, number, **query)

    def _client(self) -> BrokerClient:
        return client_for(self._options.access)


def _number_in(offset: dict[str, Any]) -> int:
    number = offset.get("lease")
    if not isinstance(number, int):
        raise PipelineError(
            f"the checkpoint holds {offset!r}, which is not a lease: it belongs to another query. "
            "Give this query its own checkpoint location."
        )
    return number
