"""The progress of each sink of a virtual host, as recorded by the commands in the journal.

What a sink does is in `sinks`, which depends on virtual hosts; so the part that a virtual host
holds is here.
"""

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.timers import Timer
from penstock.broker.topology import AdvanceSink, CommitSink, OpenSink


class TakenBlock:
    """A block of rows that is being published, and the stage it was taken from."""

    def __init__(self, stage: MessageQueue, entry: QueueEntry) -> None:
        self.stage: MessageQueue = stage
        self.entry: QueueEntry = entry


class Sink:
    """The progress of a sink; see `sinks`. Held by its virtual host."""

    def __init__(self, name: str, owner: str, temporary: bool) -> None:
        self.name: str = name
        # The user who staged first; empty for nobody.
        self.owner: str = owner
        # Whether it is for one job only.
        self.temporary: bool = temporary
        # The last batch that was committed; -1 before the first.
        self.batch: int = -1
        # Stages of it that are not published yet.
        self.pending: list[str] = []
        self.is_publishing: bool = False
        # Blocks that were taken out of their stages and not settled yet, in order.
        self.taken: list[TakenBlock] = []
        # The queue that a step waits for because it is full; empty when it does not.
        self.waits_for: str = ""
        # Rows by stage, as far as they were counted; those of the first pending stage that are
        # taken.
        self.staged: dict[str, int] = {}
        self.published_rows: int = 0
        # The progress of a stage when a step had to wait in the middle of a block.
        self.advanced_stage: str = ""
        self.advanced_rows: int = 0
        # Messages of the batch that reached no queue, as far as this process has published it.
        self.unroutable: int = 0
        # When it last staged, committed or published something; at the earliest, the start of the
        # broker.
        self.touched_at: int = 0
        # Deletes it when it is idle for too long; None until the first use in this process.
        self.expiry: Timer | None = None


class SinkTable:
    """Held by a virtual host."""

    def __init__(self) -> None:
        self.sinks: dict[str, Sink] = {}

    def change(self, command: OpenSink | AdvanceSink | CommitSink) -> None:
        if isinstance(command, CommitSink) and command.batch < 0:
            self.sinks.pop(command.sink, None)
            return
        sink = self.sinks.get(command.sink)
        if sink is None:
            sink = Sink(command.sink, "", False)
            self.sinks[command.sink] = sink
        if isinstance(command, OpenSink):
            sink.owner = command.owner
            sink.temporary = command.temporary
        elif isinstance(command, AdvanceSink):
            sink.advanced_stage = command.stage
            sink.advanced_rows = command.rows
        else:
            sink.batch = command.batch
            sink.pending.extend(command.stages)
