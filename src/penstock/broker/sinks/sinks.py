"""Sinks: batches that are published entirely and once, however often they are tried.

A job that writes in batches stages its messages first, by sink, batch, partition and attempt, and
then commits the batch with the attempts that count. The commit is one small record: from then on
the batch will be published, and a commit of the same or an earlier batch is dropped. Publishing
happens in steps after it, each of which takes a block of messages out of a stage and puts them
where their exchanges say within one tick, so a restart goes on where it was.

A stage is a durable queue with a name of its own, as a lease is. A sink belongs to the user who
first staged for it.

Invariants
- `batch` never goes down; every stage of a batch up to it is published or dropped;
- a stage that is being published is listed in `pending` and gone when it is empty;
- a stage's sink is known, and abandoned stages are dropped (`expiry`).
"""

from typing import Final

from penstock.broker.errors import AccessRefused, PreconditionFailed
from penstock.broker.internal_queues import STAGE_OF
from penstock.broker.sink_table import Sink
from penstock.broker.sinks.commit_check import CommitCheck
from penstock.broker.sinks.expiry import is_forgettable, touch_sink
from penstock.broker.sinks.publish_batch import PublishStep
from penstock.broker.sinks.stages import (
    BATCHES_MAX,
    STAGE_MESSAGES_MAX,
    StageKey,
    check_key,
    declare_stage,
    drop_stages,
    lasting_name,
    rows_in,
    stage_name,
)
from penstock.broker.streams.opening import streams_of
from penstock.broker.topology import CommitSink, OpenSink
from penstock.broker.vhost import VirtualHost
from penstock.formats.stage_block import StagedRows, block_of

# Sinks of one virtual host; each is a few hundred octets, kept until it is forgotten.
SINKS_MAX: Final = 10_000
Attempts = list[tuple[int, int, int]]


def _open_sink(vhost: VirtualHost, name: str, owner: str, temporary: bool, now: int) -> Sink:
    """The sink of the caller; created when it does not exist. Raises a `Refusal`."""
    known = vhost.sinks.get(name)
    if known is None and len(vhost.sinks) >= SINKS_MAX:
        raise PreconditionFailed(f"limit of {SINKS_MAX} sinks in vhost '{vhost.name}' is reached")
    if known is None or (owner and not known.owner):
        vhost.apply(OpenSink(name, owner, temporary), now)
        known = vhost.sinks[name]
    touch_sink(vhost, known, now)
    return known


def check_owner(vhost: VirtualHost, name: str, user: str) -> None:
    """Raises `AccessRefused` for another user's sink."""
    known = vhost.sinks.get(name)
    if known is not None and known.owner not in {"", user}:
        raise AccessRefused(
            f"sink '{name}' in vhost '{vhost.name}' belongs to user '{known.owner}'; "
            f"user '{user}' is neither its owner nor an administrator"
        )


def stage(
    vhost: VirtualHost,
    key: StageKey,
    rows: StagedRows,
    now: int,
    owner: str = "",
    temporary: bool = False,
) -> int:
    """Set messages apart for a commit; returns how many this attempt has staged by now. They are
    durable when the tick's journal batch is.
    """
    check_key(key)
    if is_committed(vhost, key.sink, key.batch):
        # The commit will be dropped, so nothing need be kept for it.
        return 0
    sink = _open_sink(vhost, key.sink, owner, temporary, now)
    queue = declare_stage(vhost, key, now)
    first = rows_in(vhost, sink, queue.name)
    if first + rows.count > STAGE_MESSAGES_MAX:
        raise PreconditionFailed(f"one attempt can stage at most {STAGE_MESSAGES_MAX} messages")
    for count, payloads in rows.parts:
        block = block_of(first, count, payloads)
        queue.enqueue(vhost.streams.decoder.wrap(block), now)
        first += count
    sink.staged[queue.name] = first
    return first


def stage_from(
    vhost: VirtualHost,
    key: StageKey,
    first: int,
    rows: StagedRows,
    now: int,
    owner: str = "",
    temporary: bool = False,
) -> int:
    """Like `stage`, for a caller that may have to retry: `first` is how many messages the attempt
    had staged before these. What is there already is not staged again.
    """
    if not is_committed(vhost, key.sink, key.batch):
        staged = rows_in(vhost, vhost.sinks.get(key.sink), stage_name(key))
        if rows.count and staged == first + rows.count:
            return staged
        if staged != first:
            raise _not_staged(key, staged, first)
    return stage(vhost, key, rows, now, owner, temporary)


def is_committed(vhost: VirtualHost, sink: str, batch: int) -> bool:
    known = vhost.sinks.get(sink)
    return known is not None and batch <= known.batch


def check_before_commit(
    vhost: VirtualHost, sink: str, batch: int, attempts: Attempts, mandatory: bool
) -> CommitCheck:
    """Counts what a commit would publish; there is nothing to count if the batch was committed
    before.
    """
    stages: tuple[str, ...] = ()
    if not is_committed(vhost, sink, batch):
        stages = _stages_of(vhost, sink, batch, attempts)
    return CommitCheck(vhost, stages, mandatory)


def commit(vhost: VirtualHost, sink: str, batch: int, attempts: Attempts, now: int) -> Sink:
    """Publish a batch: (partition, attempt, messages staged) of each partition that counts. A
    batch that was committed before is dropped. Whoever waits for the messages waits until nothing
    is `pending`.
    """
    check_key(StageKey(sink, batch, 0, 0))
    if not is_committed(vhost, sink, batch):
        stages = _stages_of(vhost, sink, batch, attempts)
        vhost.apply(CommitSink(sink, batch, stages), now)
        vhost.sinks[sink].unroutable = 0
    known = vhost.sinks[sink]
    touch_sink(vhost, known, now)
    drop_stages(vhost, known, batch, now)
    _publish(vhost, known, now)
    return known


def _stages_of(vhost: VirtualHost, sink: str, batch: int, attempts: Attempts) -> tuple[str, ...]:
    """The queues of these attempts, in order; refuses when one does not hold what it should."""
    names: list[str] = []
    for partition, attempt, count in sorted(attempts):
        if count == 0:
            continue
        key = StageKey(sink, batch, partition, attempt)
        staged = rows_in(vhost, vhost.sinks.get(sink), stage_name(key))
        if staged != count:
            raise _not_staged(key, staged, count)
        names.append(stage_name(key))
    return tuple(names)


def _not_staged(key: StageKey, staged: int, expected: int) -> PreconditionFailed:
    return PreconditionFailed(
        f"partition {key.partition}, attempt {key.attempt} of batch {key.batch} of sink "
        f"'{key.sink}' has {staged} messages staged, not {expected}; stage it again as a new "
        "attempt"
    )


def resume_sinks(vhost: VirtualHost, now: int) -> None:
    """After a restart: continue to publish what was committed, and to watch for idle sinks."""
    stages = [queue for queue in vhost.queues.values() if STAGE_OF in queue.arguments]
    staging = {queue.arguments[STAGE_OF] for queue in stages}
    lasting = {lasting_name(queue) for queue in stages}
    for stream in streams_of(vhost.queues.values()):
        stream.files.keep_stages(lasting)
    for sink in vhost.sinks.values():
        # A published stage is not recorded as such: it no longer exists.
        sink.pending = [name for name in sink.pending if name in vhost.queues]
        if sink.name in staging or is_forgettable(sink):
            touch_sink(vhost, sink, now)
        _publish(vhost, sink, now)


def _publish(vhost: VirtualHost, sink: Sink, now: int) -> None:
    if sink.pending and not sink.is_publishing:
        sink.is_publishing = True
        vhost.timers.schedule(PublishStep(vhost, sink), now)


def forget_sink(vhost: VirtualHost, name: str, now: int) -> bool:
    """Drop the staged messages and the data of a sink that is not used any more."""
    known = vhost.sinks.get(name)
    if known is None:
        return False
    if known.pending:
        raise PreconditionFailed(f"sink '{name}' is being published; try again later")
    drop_stages(vhost, known, BATCHES_MAX, now)
    if known.expiry is not None:
        vhost.timers.cancel(known.expiry)
    vhost.apply(CommitSink(name, -1, ()), now)
    return True
