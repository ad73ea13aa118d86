"""The stages of sinks: queues that the broker declares for itself, and their content.

A stage holds what one attempt at one partition of one batch has sent, as blocks of rows
(`formats.stage_block`), until a commit publishes it or drops it.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import PreconditionFailed
from penstock.broker.internal_queues import STAGE_OF, STAGE_PREFIX
from penstock.broker.names import NAME_OCTETS_MAX
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.sink_table import Sink
from penstock.broker.topology import DeclareQueue, DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.formats.stage_block import BlockRows

BATCH: Final = "x-stage-batch"
PARTITION: Final = "x-stage-partition"
ATTEMPT: Final = "x-stage-attempt"
# A sequence is batch, partition and number of the row in its stage, in 63 bits.
_ROW_BITS: Final = 24
_PARTITION_BITS: Final = 16
PARTITIONS_MAX: Final = 1 << _PARTITION_BITS
BATCHES_MAX: Final = 1 << (63 - _ROW_BITS - _PARTITION_BITS)
STAGE_MESSAGES_MAX: Final = (1 << _ROW_BITS) - 1


@dataclass(frozen=True, slots=True)
class StageKey:
    """Whose messages these are: one attempt at one partition of one batch."""

    sink: str
    batch: int
    partition: int
    attempt: int


def stage_name(key: StageKey) -> str:
    digest = hashlib.sha256(key.sink.encode(errors="surrogateescape")).hexdigest()[:32]
    return f"{STAGE_PREFIX}{digest}.{key.batch}.{key.partition}.{key.attempt}"


def check_key(key: StageKey) -> None:
    size = len(key.sink.encode(errors="surrogateescape"))
    if not 0 < size <= NAME_OCTETS_MAX:
        raise PreconditionFailed(f"the name of a sink must have 1 to {NAME_OCTETS_MAX} bytes")
    if min(key.batch, key.partition, key.attempt) < 0:
        raise PreconditionFailed("batch, partition and attempt must not be negative")
    if key.partition >= PARTITIONS_MAX or key.batch >= BATCHES_MAX:
        raise PreconditionFailed(
            f"a sink has at most {PARTITIONS_MAX} partitions and {BATCHES_MAX} batches"
        )


def declare_stage(vhost: VirtualHost, key: StageKey, now: int) -> MessageQueue:
    """The queue of a stage, made when it is not there."""
    name = stage_name(key)
    known = vhost.queues.get(name)
    if known is not None:
        return known
    arguments: dict[str, object] = {
        STAGE_OF: key.sink,
        BATCH: key.batch,
        PARTITION: key.partition,
        ATTEMPT: key.attempt,
    }
    vhost.apply(DeclareQueue(name, durable=True, arguments=arguments, server_named=True), now)
    return vhost.queue(name)


def rows_in(vhost: VirtualHost, sink: Sink | None, name: str) -> int:
    """How many rows a stage that is not being published holds. The last block knows."""
    queue = vhost.queues.get(name)
    if queue is None or sink is None:
        return 0
    known = sink.staged.get(name)
    if known is None:
        known = _end_of(queue)
        sink.staged[name] = known
    return known


def _end_of(queue: MessageQueue) -> int:
    first = queue.entry_from(0)
    if first is None:
        return 0
    # Blocks leave a stage from its head, so that its positions have gaps only where a root of a
    # cluster went on with what another had begun.
    last = queue.entry_from(first.position + queue.ready_count - 1) or first
    if queue.entry_from(last.position + 1) is not None:
        last = _last_of(queue, last)
    rows = BlockRows(last.message.body)
    return rows.first + rows.count


def _last_of(queue: MessageQueue, known: QueueEntry) -> QueueEntry:
    """The entry with the highest position, from a known one on: in as many steps as a position has
    bits.
    """
    end = queue.end_position()
    while known.position + 1 < end:
        middle = (known.position + 1 + end) // 2
        found = queue.entry_from(middle)
        if found is None:
            end = middle
        else:
            known = found
    return known


def unpublished_rows(vhost: VirtualHost, sink: Sink, name: str) -> int:
    """Of any stage of a sink, for people."""
    if name not in sink.staged and any([taken.stage.name == name for taken in sink.taken]):
        # Resumed after a restart: what was published before is not known.
        return 0
    count = rows_in(vhost, sink, name)
    return count - sink.published_rows if sink.pending and sink.pending[0] == name else count


def stages_of(vhost: VirtualHost, sink: str) -> list[MessageQueue]:
    return [queue for queue in vhost.queues.values() if queue.arguments.get(STAGE_OF) == sink]


def drop_stages(vhost: VirtualHost, sink: Sink, batch: int, now: int) -> None:
    """Attempts that do not count, of this and of earlier batches."""
    for queue in stages_of(vhost, sink.name):
        of_batch = queue.arguments.get(BATCH)
        if isinstance(of_batch, int) and of_batch <= batch and queue.name not in sink.pending:
            sink.staged.pop(queue.name, None)
            vhost.apply(DeleteQueue(queue.name), now)


def first_sequence(stage: MessageQueue) -> int:
    """Of a stage's first row, by which partitions that take turns recognise it."""
    batch = stage.arguments[BATCH]
    partition = stage.arguments[PARTITION]
    assert isinstance(batch, int)
    assert isinstance(partition, int)
    return (batch << _PARTITION_BITS | partition) << _ROW_BITS


def lasting_name(stage: MessageQueue) -> str:
    """The name by which streams know a stage: no other stage has or gets this name. Queue numbers
    are never used twice; without a journal there is no number, but no restart either.
    """
    return f"{stage.number} {stage.name}"
