"""Publishing what was staged, block by block: out of a stage, and to where each row's exchange says.

For queues both happen in one tick and so in one batch of the journal. A stream has files of its
own, so a step appends to streams first and takes the block out of the stage when that is safe. A
restart in between repeats the step; the stream then knows the messages by publisher and sequence,
which the step has put into their headers. Nothing is appended before the commit itself is safe: a
power loss could keep the append and lose the commit, and another attempt would then be taken for
the repetition of one that never counted.

A queue that is full and refuses publishes makes the step wait, for as long as it takes: what was
committed is published. How far a block has come by then is written down in the same tick.
"""

from typing import Final

from penstock.broker.delayed_publish import hold_back
from penstock.broker.header_values import Long
from penstock.broker.message import NOBODY, Message, Properties
from penstock.broker.queues.queue import Queue
from penstock.broker.row_targets import RowTargets, first_full
from penstock.broker.sent import ID_HEADER, SEQUENCE_HEADER
from penstock.broker.sink_expiry import rest_sink
from penstock.broker.staged_rows import NO_ROWS, BlockRows, RowRun
from penstock.broker.stages import first_sequence
from penstock.broker.streams.stream import SAFE_POLL_MS, Stream, are_safe
from penstock.broker.timers import Timer
from penstock.broker.topology import AdvanceSink, DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.broker.vhost_view import Sink
from penstock.storage.flush_waiter import FlushWaiter

# How soon a full queue is looked at again: consumers that empty it do so in batches.
ROOM_POLL_MS: Final = 20


class PublishStep(Timer):
    """Publishes a committed batch step by step. Held by the timers while there is more."""

    def __init__(self, vhost: VirtualHost, sink: Sink) -> None:
        super().__init__()
        self._vhost: VirtualHost = vhost
        self._sink: Sink = sink
        # Ends of streams that must be safe before the step goes on.
        self._awaited: dict[Stream, int] = {}
        # Stages whose commit is safe.
        self._safe: set[str] = set()
        self._targets: RowTargets = RowTargets(vhost)
        # Of the block that was taken out of the stage.
        self._rows: BlockRows = BlockRows(NO_ROWS)
        self._runs: list[RowRun] = []

    def fire(self, now: int) -> None:
        sink = self._sink
        if sink.stage is None:
            self._skip_missing()
            if sink.pending and sink.pending[0] not in self._safe:
                gate = CommitGate(self, list(sink.pending), now)
                self._vhost.streams.wrote(gate, [])
                return
            self._begin(now)
        if sink.stage is not None:
            if not are_safe(self._awaited):
                self._vhost.timers.schedule(self, now + SAFE_POLL_MS)
                return
            if not self._finish(sink.stage, now):
                self._vhost.timers.schedule(self, now + ROOM_POLL_MS)
                return
        if sink.pending:
            # Everybody else has a turn first.
            self._vhost.timers.schedule(self, now + 1)
        else:
            sink.is_publishing = False
            rest_sink(self._vhost, sink)

    def commits_are_safe(self, stages: list[str], now: int) -> None:
        self._safe = set(stages)
        self._vhost.timers.schedule(self, now)

    def _skip_missing(self) -> None:
        pending = self._sink.pending
        while pending and pending[0] not in self._vhost.queues:
            pending.pop(0)

    def _begin(self, now: int) -> None:
        """Take a block out of the next stage and append to streams what belongs there."""
        sink = self._sink
        self._awaited = {}
        if not sink.pending:
            return
        stage = self._vhost.queues[sink.pending[0]]
        entry = stage.get(now)
        if entry is None:
            self._close(stage, now)
            return
        sink.stage = stage
        sink.taken.append(entry)
        self._rows = BlockRows(entry.message.body)
        self._runs = self._rows.runs()
        sequence = first_sequence(stage) + self._rows.first
        for run in self._runs:
            self._append_to_streams(run, sequence, now)
            sequence += run.count

    def _append_to_streams(self, run: RowRun, sequence: int, now: int) -> None:
        properties = self._targets.properties_of(run)
        target = self._targets.target_of(run, properties)
        if target.is_fixed and not target.streams:
            return
        publisher = f"sink {self._sink.name}"[:250]
        for body in run.bodies(0):
            if not target.is_fixed:
                target = self._targets.target_of(run, properties)
            if target.streams:
                sequenced = _sequenced(properties, publisher, sequence)
                if not target.is_fixed:
                    # Partitions that take turns tell a repeated message by its sequence.
                    target = self._targets.target_of(run, sequenced)
                message = Message(target.address, sequenced, body, NOBODY)
                for stream in target.streams:
                    stream.enqueue(message, now)
                    self._awaited[stream] = stream.end_offset
            sequence += 1

    def _finish(self, stage: Queue, now: int) -> bool:
        """Put the block's rows into their queues; False when one of them is full."""
        sink = self._sink
        rows = self._rows
        done = self._done_before(stage.name, rows)
        published = self._publish(done, now)
        if published < rows.count - done:
            if published:
                self._vhost.apply(
                    AdvanceSink(sink.name, stage.name, rows.first + done + published), now
                )
            return False
        stage.acknowledge_many(sink.taken)
        sink.taken = []
        sink.stage = None
        self._runs = []
        sink.published_rows = rows.first + rows.count
        if stage.message_count == 0:
            self._close(stage, now)
        return True

    def _done_before(self, stage: str, rows: BlockRows) -> int:
        """How many rows of the block were published before its step had to wait."""
        if self._sink.advanced_stage != stage:
            return 0
        return min(max(self._sink.advanced_rows - rows.first, 0), rows.count)

    def _publish(self, skipped: int, now: int) -> int:
        """Returns how many rows behind the skipped ones are published; not all of them when a queue
        is full, which the sink then waits for.
        """
        self._sink.waits_for = ""
        published = 0
        for run in self._runs:
            if skipped >= run.count:
                skipped -= run.count
                continue
            done = self._publish_run(run, skipped, now)
            published += done
            if done < run.count - skipped:
                break
            skipped = 0
        return published

    def _publish_run(self, run: RowRun, skipped: int, now: int) -> int:
        vhost = self._vhost
        sink = self._sink
        properties = self._targets.properties_of(run)
        target = self._targets.target_of(run, properties)
        bodies = run.bodies(skipped)
        for published, body in enumerate(bodies):
            if not target.is_fixed or target.generation != vhost.generation:
                target = self._targets.target_of(run, properties)
            if target.refusing:
                full = first_full(target.refusing, len(body), now)
                if full is not None:
                    sink.waits_for = full.name
                    return published
            if target.count is not None:
                target.count.count += 1
            message = Message(target.address, properties, body, NOBODY)
            for delayed in target.delayed:
                hold_back(vhost, delayed, message, now)
            for queue in target.queues:
                queue.enqueue(message, now)
            if not target.reaches_any:
                sink.unroutable += 1
        return len(bodies)

    def _close(self, stage: Queue, now: int) -> None:
        """A stage is published entirely."""
        self._vhost.apply(DeleteQueue(stage.name), now)
        self._sink.pending.pop(0)
        self._sink.staged.pop(stage.name, None)
        self._sink.published_rows = 0
        self._sink.touched_at = now


def _sequenced(properties: Properties, publisher: str, sequence: int) -> Properties:
    headers = dict(properties.headers())
    headers[ID_HEADER] = publisher
    headers[SEQUENCE_HEADER] = Long(sequence)
    return properties.rewritten(headers, drop_expiration=False)


class CommitGate(FlushWaiter):
    """Lets a step go on once the commits that it knows of are safe. Held by the stream store."""

    def __init__(self, step: PublishStep, stages: list[str], now: int) -> None:
        self._step: PublishStep = step
        self._stages: list[str] = stages
        self._asked_at: int = now

    def mark(self) -> int:
        return 0

    def became_durable(self, mark: int, now: int) -> None:
        # Where nothing is flushed this is called at once, without a time.
        self._step.commits_are_safe(self._stages, max(now, self._asked_at))
