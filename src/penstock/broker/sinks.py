"""Sinks: batches that are published entirely and once, however often they are tried.

A job that writes in batches stages its messages first, by sink, batch, partition and attempt, and
then commits the batch with the attempts that count. The commit is one small record: from then on
the batch will be published, and a commit of the same or an earlier batch is dropped. Publishing
happens in steps after it, each of which takes messages out of a stage and puts them where their
exchanges say within one tick, so a restart goes on where it was.

A stage is a durable queue with a name of its own, as a lease is.

Invariants
- `batch` never goes down; every stage of a batch up to it is published or dropped;
- a stage that is being published is listed in `pending` and gone when it is empty.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.message import Message
from penstock.broker.set_apart import STAGE_OF, STAGE_PREFIX
from penstock.broker.staged_publish import (
    BATCH,
    BATCHES_MAX,
    PARTITION,
    PARTITIONS_MAX,
    STAGE_MESSAGES_MAX,
    PublishStep,
)
from penstock.broker.topology import CommitSink, DeclareQueue, DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.broker.vhost_view import Sink

ATTEMPT: Final = "x-stage-attempt"
NAME_OCTETS_MAX: Final = 255
# Sinks of one virtual host; each is a few hundred octets, kept until it is forgotten.
SINKS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class StageKey:
    """Whose messages these are: one attempt at one partition of one batch."""

    sink: str
    batch: int
    partition: int
    attempt: int


def stage(vhost: VirtualHost, key: StageKey, messages: list[Message], now: int) -> int:
    """Set messages apart for a commit; returns how many this attempt has staged by now. They are
    safe when the tick's journal batch is.
    """
    _check(key)
    if is_committed(vhost, key.sink, key.batch):
        # The commit will be dropped, so nothing need be kept for it.
        return 0
    name = stage_name(key)
    queue = vhost.queues.get(name)
    if queue is None:
        arguments: dict[str, object] = {
            STAGE_OF: key.sink,
            BATCH: key.batch,
            PARTITION: key.partition,
            ATTEMPT: key.attempt,
        }
        vhost.apply(DeclareQueue(name, durable=True, arguments=arguments, server_named=True), now)
        queue = vhost.queue(name)
    if queue.message_count + len(messages) > STAGE_MESSAGES_MAX:
        raise PreconditionFailed(f"one attempt stages at most {STAGE_MESSAGES_MAX} messages")
    for message in messages:
        queue.enqueue(message, now)
    return queue.message_count


def stage_from(
    vhost: VirtualHost, key: StageKey, first: int, messages: list[Message], now: int
) -> int:
    """As `stage`, for somebody who may have to ask twice: `first` is how many messages the attempt
    had staged before these. What is there already is not staged again.
    """
    if not is_committed(vhost, key.sink, key.batch):
        queue = vhost.queues.get(stage_name(key))
        staged = 0 if queue is None else queue.message_count
        if messages and staged == first + len(messages):
            return staged
        if staged != first:
            raise PreconditionFailed(
                f"partition {key.partition}, attempt {key.attempt} of batch {key.batch} of sink "
                f"'{key.sink}' has {staged} messages staged, not {first}; stage it again under a "
                "new attempt"
            )
    return stage(vhost, key, messages, now)


def is_committed(vhost: VirtualHost, sink: str, batch: int) -> bool:
    known = vhost.sinks.get(sink)
    return known is not None and batch <= known.batch


def commit(
    vhost: VirtualHost, sink: str, batch: int, attempts: list[tuple[int, int, int]], now: int
) -> Sink:
    """Publish a batch: (partition, attempt, messages staged) of each partition that counts. A
    batch that was committed before is dropped. Whoever waits for the messages waits until nothing
    is `pending`.
    """
    _check(StageKey(sink, batch, 0, 0))
    known = vhost.sinks.get(sink)
    if known is None and len(vhost.sinks) >= SINKS_MAX:
        raise PreconditionFailed(f"limit of {SINKS_MAX} sinks in vhost '{vhost.name}' is reached")
    if known is not None and batch <= known.batch:
        _drop_stages(vhost, sink, batch, known.pending, now)
        return known
    stages = _stages_of(vhost, sink, batch, attempts)
    vhost.apply(CommitSink(sink, batch, stages), now)
    committed = vhost.sinks[sink]
    committed.unroutable = 0
    _drop_stages(vhost, sink, batch, committed.pending, now)
    resume_sinks(vhost, now)
    return committed


def _stages_of(
    vhost: VirtualHost, sink: str, batch: int, attempts: list[tuple[int, int, int]]
) -> tuple[str, ...]:
    """The queues of these attempts, in order; refuses when one does not hold what it should."""
    names: list[str] = []
    for partition, attempt, count in sorted(attempts):
        if count == 0:
            continue
        name = stage_name(StageKey(sink, batch, partition, attempt))
        queue = vhost.queues.get(name)
        staged = 0 if queue is None else queue.message_count
        if staged != count:
            raise PreconditionFailed(
                f"partition {partition}, attempt {attempt} of batch {batch} of sink '{sink}' has "
                f"{staged} messages staged, not {count}; stage it again under a new attempt"
            )
        names.append(name)
    return tuple(names)


def _drop_stages(vhost: VirtualHost, sink: str, batch: int, pending: list[str], now: int) -> None:
    """Attempts that do not count, of this and of earlier batches."""
    for queue in list(vhost.queues.values()):
        if queue.arguments.get(STAGE_OF) != sink or queue.name in pending:
            continue
        of_batch = queue.arguments.get(BATCH)
        if isinstance(of_batch, int) and of_batch <= batch:
            vhost.apply(DeleteQueue(queue.name), now)


def resume_sinks(vhost: VirtualHost, now: int) -> None:
    """Go on publishing what was committed: after a commit, and after a restart."""
    for sink in vhost.sinks.values():
        if sink.pending and not sink.is_publishing:
            sink.is_publishing = True
            vhost.timers.schedule(PublishStep(vhost, sink), now)


def forget_sink(vhost: VirtualHost, sink: str, now: int) -> bool:
    """Drop what is staged and what is known of a sink that is not used any more."""
    known = vhost.sinks.get(sink)
    if known is not None and known.pending:
        raise PreconditionFailed(f"sink '{sink}' is being published; try again")
    for queue in list(vhost.queues.values()):
        if queue.arguments.get(STAGE_OF) == sink:
            vhost.apply(DeleteQueue(queue.name), now)
    if known is None:
        return False
    vhost.apply(CommitSink(sink, -1, ()), now)
    return True


def stage_name(key: StageKey) -> str:
    digest = hashlib.sha256(key.sink.encode(errors="surrogateescape")).hexdigest()[:32]
    return f"{STAGE_PREFIX}{digest}.{key.batch}.{key.partition}.{key.attempt}"


def _check(key: StageKey) -> None:
    size = len(key.sink.encode(errors="surrogateescape"))
    if not 0 < size <= NAME_OCTETS_MAX:
        raise PreconditionFailed(f"the name of a sink has 1 to {NAME_OCTETS_MAX} octets")
    if min(key.batch, key.partition, key.attempt) < 0:
        raise PreconditionFailed("batch, partition and attempt are counted from 0")
    if key.partition >= PARTITIONS_MAX or key.batch >= BATCHES_MAX:
        raise PreconditionFailed(
            f"a sink has at most {PARTITIONS_MAX} partitions and {BATCHES_MAX} batches"
        )
