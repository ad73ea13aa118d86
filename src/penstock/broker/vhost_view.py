"""A virtual host as routing and dead-lettering see it: names, and a count of changes."""

from array import array

from mypy_extensions import mypyc_attr

from penstock.broker.definition_log import DefinitionLog
from penstock.broker.delays.delay_line import DelayLine, DelayLineOwner
from penstock.broker.entry import QueueEntry
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.queue_watcher import QueueWatcher
from penstock.broker.queues.message_queue import MessageQueue, QueueOwner
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.shared_services import SharedServices
from penstock.broker.stream_store import StreamStore
from penstock.broker.timers import Timer


class TakenBlock:
    """A block of rows that is being published, and the stage it is out of."""

    def __init__(self, stage: MessageQueue, entry: QueueEntry) -> None:
        self.stage: MessageQueue = stage
        self.entry: QueueEntry = entry


class Sink:
    """How far a sink has come; see `sinks`. Held by its virtual host."""

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
        # Rows by stage, as far as somebody asked; those of the first pending stage that are out.
        self.staged: dict[str, int] = {}
        self.published_rows: int = 0
        # How far a stage had come when a step had to wait in the middle of a block.
        self.advanced_stage: str = ""
        self.advanced_rows: int = 0
        # Messages of the batch that reached no queue, as far as this process has published it.
        self.unroutable: int = 0
        # When somebody last staged or committed, or it was published; since the start at least.
        self.touched_at: int = 0
        # Forgets what nobody comes back to; None until the first use in this process.
        self.expiry: Timer | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class HeldMessages(DelayLineOwner):
    """Brings messages that waited before a restart back to their virtual host."""

    def __init__(self, vhost: "VirtualHostView") -> None:
        self._vhost: VirtualHostView = vhost

    def hold_again(self, entry: QueueEntry, now: int) -> None:
        self._vhost.hold_again(entry, now)


@mypyc_attr(allow_interpreted_subclasses=True)
class VirtualHostView(QueueOwner):
    """What `resolve` and `dead_letter` read. `VirtualHost` is the one that changes it."""

    def __init__(self, name: str, shared: SharedServices) -> None:
        super().__init__(name, shared.timers)
        self.shared: SharedServices = shared
        self.touched = shared.touched
        self.discarded = shared.discarded
        self.streams: StreamStore = shared.streams
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, MessageQueue] = {}
        # Goes up with every change that can alter a route; a cached route carries its own.
        self.generation: int = 0
        # What waits in delayed exchanges.
        self.delay_line: DelayLine = DelayLine(HeldMessages(self))
        self.sinks: dict[str, Sink] = {}

    @property
    def definitions(self) -> DefinitionLog:
        """Who writes down what must outlive the process."""
        return self.shared.definitions

    @property
    def watcher(self) -> QueueWatcher | None:
        """Who sees every queue; None when nobody does."""
        return self.shared.watcher

    def make_ready_list(self, max_priority: int) -> ReadyList:
        if self.shared.ready_lists is None:
            return super().make_ready_list(max_priority)
        return self.shared.ready_lists.make(max_priority)

    def paged_out_gone(
        self, queue: MessageQueue, positions: "array[int]", locations: "array[int]"
    ) -> None:
        if queue.journal is not None:
            queue.journal.dequeued_tail(positions, locations)
        if self.shared.ready_lists is not None:
            self.shared.ready_lists.gone(locations)

    def hold_again(self, entry: QueueEntry, now: int) -> None:
        """A message waits in a delayed exchange from now on, or as before a restart."""
        raise NotImplementedError

    def wall(self, now: int) -> int:
        """Milliseconds since 1970, for timestamps that people and clients read."""
        return self.shared.wall.at(now)
