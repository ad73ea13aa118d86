"""Publishing what was staged, block by block: out of a stage, and to where each row's exchange says.

For queues both happen in one tick and so in one batch of the journal. A stream has files of its
own, so a step appends to streams first and takes the block out of the stage when that is durable. A
restart in between repeats the step. The stream then recognises the block: beside what it appends it
notes how many rows of the stage it has (`streams.notes`), and has both or neither. Nothing is
appended before the commit itself is durable: a power loss could keep the append and lose the
commit.

A queue that is full and refuses publishes makes the step wait, for as long as it takes: what was
committed is published. How far a block has come by then is written down in the same tick. So does a
row that a queue holds, or refuses all the same (`unfinished_row`).
"""

from collections import deque
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.header_values import Long
from penstock.broker.message import NOBODY, Message, Properties
from penstock.broker.publishing.publish import Outcome, publish_resolved
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.sent import ID_HEADER, SEQUENCE_HEADER
from penstock.broker.sink_table import Sink, TakenBlock
from penstock.broker.sinks.expiry import rest_sink
from penstock.broker.sinks.row_targets import RowTargets, first_full
from penstock.broker.sinks.stages import first_sequence, lasting_name
from penstock.broker.sinks.unfinished_row import UnfinishedRow
from penstock.broker.streams.rows import StreamRows
from penstock.broker.streams.stream import Stream, are_durable
from penstock.broker.timers import Timer
from penstock.broker.topology import AdvanceSink, DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.formats.stage_block import BlockRows, RepeatedRows
from penstock.storage.flush_waiter import FlushWaiter

# How soon a full queue is looked at again: consumers that empty it do so in batches.
ROOM_POLL_MS: Final = 20
# When the next step runs: as soon as all others have had a turn.
NEXT_STEP_MS: Final = 1

# Blocks that are appended to streams and not known to be durable yet. A flush takes some
# milliseconds, in which as many blocks can be appended; the next ones wait for the first to be
# durable. Each has half a mebibyte, or is one large row.
BLOCKS_AHEAD_MAX: Final = 8


class BlockAhead(TakenBlock):
    """A block that is being published. Held by its sink until it is settled."""

    def __init__(self, stage: MessageQueue, entry: QueueEntry) -> None:
        super().__init__(stage, entry)
        self.rows: BlockRows = BlockRows(entry.message.body)
        self.runs: list[RepeatedRows] = self.rows.runs()
        # Ends of streams that must be durable before it is settled.
        self.awaited: dict[Stream, int] = {}


class PublishStep(Timer):
    """Publishes committed batches of a sink, block by block. Held by the timers while there is more.

    Blocks are settled in the order in which they were taken. A stream that loses one in a crash has
    lost those behind it, too, so appending ahead leaves no gaps.
    """

    def __init__(self, vhost: VirtualHost, sink: Sink) -> None:
        super().__init__()
        self._vhost: VirtualHost = vhost
        self._sink: Sink = sink
        # Blocks that were taken, as the sink has them.
        self._ahead: deque[BlockAhead] = deque()
        # How many of the pending stages, from the first on, have nothing left to be taken.
        self._drained: int = 0
        # Stages whose commit is durable, and whether a mark waits for those of others.
        self._durable: set[str] = set()
        self._is_gated: bool = False
        # Whether an append gate waits for a flush.
        self._awaits_appends: bool = False
        # Streams that rows of a stage went to, by its name.
        self._reached: dict[str, dict[Stream, None]] = {}
        self._targets: RowTargets = RowTargets(vhost)
        # The first row that is not published; None unless a queue refused or holds it.
        self._unfinished: UnfinishedRow | None = None
        # Whether the last block that was finished had rows for queues.
        self._published_any: bool = False

    def fire(self, now: int) -> None:
        sink = self._sink
        if self._vhost.delay_line.is_closed:
            # Its virtual host is deleted, or made anew.
            return
        if len(self._ahead) < BLOCKS_AHEAD_MAX:
            self._take(now)
        while self._ahead and are_durable(self._ahead[0].awaited):
            if not self._finish(self._ahead[0], now):
                self._vhost.timers.schedule(self, now + ROOM_POLL_MS)
                return
            if self._published_any:
                # All others have a turn first.
                break
        if self._can_go_on():
            self._vhost.timers.schedule(self, now + NEXT_STEP_MS)
        elif self._ahead:
            self._await_appends(now)
        elif not sink.pending:
            sink.is_publishing = False
            rest_sink(self._vhost, sink)

    def _can_go_on(self) -> bool:
        """Whether there is something to take or to finish, whatever is flushed meanwhile."""
        if self._ahead and are_durable(self._ahead[0].awaited):
            return True
        is_left = not self._ahead or self._drained < len(self._sink.pending)
        return (
            is_left
            and bool(self._sink.pending)
            and not self._is_gated
            and len(self._ahead) < BLOCKS_AHEAD_MAX
        )

    def _await_appends(self, now: int) -> None:
        if not self._awaits_appends:
            self._awaits_appends = True
            self._vhost.streams.wrote(AppendGate(self, now), [])

    def appends_flushed(self, now: int) -> None:
        """A flush has ended that covers what was appended when it was requested."""
        self._awaits_appends = False
        self._vhost.timers.schedule(self, now)

    def commits_became_durable(self, stages: list[str], now: int) -> None:
        self._durable = set(stages)
        self._is_gated = False
        self._vhost.timers.schedule(self, now)

    def _take(self, now: int) -> None:
        """Take the next block out of its stage and append to streams what belongs there."""
        pending = self._sink.pending
        while self._drained < len(pending):
            name = pending[self._drained]
            if name not in self._vhost.queues:
                pending.pop(self._drained)
                continue
            if name not in self._durable:
                if not self._is_gated:
                    self._is_gated = True
                    self._vhost.streams.wrote(CommitGate(self, list(pending), now), [])
                return
            stage = self._vhost.queues[name]
            entry = stage.get(now)
            if entry is not None:
                self._begin(BlockAhead(stage, entry), now)
                return
            if self._ahead and self._ahead[-1].stage is stage:
                self._drained += 1
            else:
                self._close(stage, now)

    def _begin(self, block: BlockAhead, now: int) -> None:
        self._ahead.append(block)
        self._sink.taken.append(block)
        name = lasting_name(block.stage)
        end = block.rows.first + block.rows.count
        found: dict[Stream, StreamRows] = {}
        sequence = first_sequence(block.stage) + block.rows.first
        for run in block.runs:
            self._find_streams(run, sequence, found, name, end)
            sequence += run.count
        reached = self._reached.setdefault(block.stage.name, {})
        for stream, rows in found.items():
            stream.append_rows(rows, now)
            block.awaited[stream] = stream.end_offset
            reached[stream] = None

    def _find_streams(
        self, run: RepeatedRows, sequence: int, found: dict[Stream, StreamRows], name: str, end: int
    ) -> None:
        """Which rows of a run go to which streams."""
        properties = self._targets.properties_of(run)
        target = self._targets.target_of(run, properties)
        if target.is_fixed:
            for stream in target.streams:
                rows = found.setdefault(stream, StreamRows(name, end))
                rows.add(run, 0, run.count, target.address, properties)
            return
        publisher = f"sink {self._sink.name}"[:250]
        for place in range(run.count):
            target = self._targets.target_of(run, properties)
            if target.streams:
                # Partitions that take turns recognise a repeated message by its sequence.
                sequenced = _sequenced(properties, publisher, sequence + place)
                target = self._targets.target_of(run, sequenced)
                for stream in target.streams:
                    rows = found.setdefault(stream, StreamRows(name, end))
                    rows.add(run, place, 1, target.address, properties)

    def _finish(self, block: BlockAhead, now: int) -> bool:
        """Put the block's rows into their queues; False when one of them is full."""
        sink = self._sink
        rows = block.rows
        stage = block.stage
        done = self._done_before(stage.name, rows)
        published = self._publish(block, done, now)
        if published < rows.count - done:
            if published:
                self._vhost.apply(
                    AdvanceSink(sink.name, stage.name, rows.first + done + published), now
                )
            return False
        stage.acknowledge_many([block.entry])
        self._ahead.popleft()
        sink.taken.pop(0)
        sink.published_rows = rows.first + rows.count
        is_last = not self._ahead or self._ahead[0].stage is not stage
        if is_last and stage.message_count == 0:
            self._close(stage, now)
        return True

    def _done_before(self, stage: str, rows: BlockRows) -> int:
        """How many rows of the block were published before its step had to wait."""
        if self._sink.advanced_stage != stage:
            return 0
        return min(max(self._sink.advanced_rows - rows.first, 0), rows.count)

    def _publish(self, block: BlockAhead, skipped: int, now: int) -> int:
        """Returns how many rows behind the skipped ones are published; not all of them when a queue
        is full or has not decided, which the sink then waits for.
        """
        self._sink.waits_for = ""
        self._published_any = False
        published = 0
        unfinished = self._unfinished
        if unfinished is not None:
            if not unfinished.finish(now):
                self._sink.waits_for = unfinished.waits_for()
                return 0
            self._unfinished = None
            published = 1
            skipped += 1
        for run in block.runs:
            if skipped >= run.count:
                skipped -= run.count
                continue
            done = self._publish_run(run, skipped, now)
            published += done
            if done < run.count - skipped:
                break
            skipped = 0
        return published

    def _publish_run(self, run: RepeatedRows, skipped: int, now: int) -> int:
        vhost = self._vhost
        sink = self._sink
        properties = self._targets.properties_of(run)
        target = self._targets.target_of(run, properties)
        if target.is_fixed and target.streams and not target.queues and not target.delayed:
            # The streams have them.
            target.counted(run.count - skipped)
            return run.count - skipped
        self._published_any = True
        bodies = run.bodies(skipped)
        refusing: list[MessageQueue] = []
        for published, body in enumerate(bodies):
            if not target.is_fixed or target.generation != vhost.generation:
                target = self._targets.target_of(run, properties)
            if target.refusing:
                full = first_full(target.refusing, len(body), now)
                if full is not None:
                    sink.waits_for = full.name
                    return published
            message = Message(target.address, properties, body, NOBODY)
            outcome = publish_resolved(vhost.routing, target, message, None, now, refusing)
            if outcome is Outcome.UNROUTED:
                sink.unroutable += 1
            if refusing or message.holds:
                self._unfinished = UnfinishedRow(vhost.routing, target, message, refusing)
                sink.waits_for = self._unfinished.waits_for()
                return published
        return len(bodies)

    def _close(self, stage: MessageQueue, now: int) -> None:
        """A stage is published entirely."""
        sink = self._sink
        place = sink.pending.index(stage.name)
        sink.pending.pop(place)
        if place < self._drained:
            self._drained -= 1
        self._vhost.apply(DeleteQueue(stage.name), now)
        for stream in self._reached.pop(stage.name, {}):
            if not stream.is_deleted:
                stream.files.forget_stage(lasting_name(stage))
        sink.staged.pop(stage.name, None)
        sink.published_rows = 0
        sink.touched_at = now


def _sequenced(properties: Properties, publisher: str, sequence: int) -> Properties:
    headers = dict(properties.headers())
    headers[ID_HEADER] = publisher
    headers[SEQUENCE_HEADER] = Long(sequence)
    return properties.rewritten(headers, drop_expiration=False)


class CommitGate(FlushWaiter):
    """Lets a step go on once the commits that it knows of are durable. Held by the stream store."""

    def __init__(self, step: PublishStep, stages: list[str], now: int) -> None:
        self._step: PublishStep = step
        self._stages: list[str] = stages
        self._asked_at: int = now

    def mark(self) -> int:
        return 0

    def became_durable(self, mark: int, now: int) -> None:
        # Where nothing is flushed this is called at once, without a time.
        self._step.commits_became_durable(self._stages, max(now, self._asked_at))


class AppendGate(FlushWaiter):
    """Lets a step go on once what it has appended may be durable. Held by the stream store."""

    def __init__(self, step: PublishStep, now: int) -> None:
        self._step: PublishStep = step
        self._asked_at: int = now

    def mark(self) -> int:
        return 0

    def became_durable(self, mark: int, now: int) -> None:
        # Where nothing is flushed this is called at once, before the tick has written anything.
        self._step.appends_flushed(max(now, self._asked_at + NEXT_STEP_MS))
