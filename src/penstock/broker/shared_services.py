"""What the virtual hosts of one broker share, who watches their queues, and the kinds of queue that a
broker begins with.
"""

from mypy_extensions import mypyc_attr

from penstock.broker.arguments import CLASSIC, QUORUM, STREAM
from penstock.broker.definition_log import DefinitionLog
from penstock.broker.discarded import Discarded
from penstock.broker.entry import QueueEntry
from penstock.broker.move_table import MoveGate
from penstock.broker.queues.ages import TimeInQueue
from penstock.broker.queues.death_budget import DeathBudget
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.plain_queues import PlainQueueMaker
from penstock.broker.queues.queue_journal import ReadyLists
from penstock.broker.queues.queue_kinds import QueueKinds
from penstock.broker.replication_level import ON_ITS_OWN, ReplicationTest
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.opening import StreamMaker
from penstock.broker.timers import Timers, WallClock


class Totals:
    """The counts of deleted queues, so that sums over all queues never decrease. A queue keeps its
    own counts, on the message path; they are added here once, when it is deleted.
    """

    def __init__(self) -> None:
        self.published: int = 0
        self.delivered: int = 0
        self.acknowledged: int = 0
        self.redelivered: int = 0
        self.got: int = 0
        self.time_in_queue: TimeInQueue = TimeInQueue()
        # Queues and streams since the process started; those that were recovered count too.
        self.queues_declared: int = 0
        self.queues_deleted: int = 0

    def declared(self) -> None:
        self.queues_declared += 1

    def deleted(self, queue: MessageQueue) -> None:
        """Called when the queue counts nothing any more."""
        assert queue.is_deleted, "only a deleted queue is added"
        self.queues_deleted += 1
        self.published += queue.published_total
        self.delivered += queue.delivered_total
        self.acknowledged += queue.acknowledged_total
        self.redelivered += queue.redelivered_total
        self.got += queue.got_total
        waited = queue.time_in_queue()
        if waited is not None:
            self.time_in_queue.merge(waited)


class RouteCount:
    """How many messages were published to one exchange with one routing key, since it was last
    read. Held by the targets of publishes, which add to it, and by the ledger, which gave it to
    them and reads it.
    """

    def __init__(self, text: bytes) -> None:
        self.count: int = 0
        # What the ledger calls it, and the number of that name in which of its files.
        self.text: bytes = text
        self.name: int = 0
        self.file: int = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueWatcher:
    """Who wants to see every queue there is, and what is published where: the ledger. Given to the
    broker's state, which tells it of queues that come and go.
    """

    def watch(self, queue: MessageQueue) -> None:
        raise NotImplementedError

    def forget(self, queue: MessageQueue) -> None:
        raise NotImplementedError

    def is_member(self, cluster: str, server: str, members: list[str]) -> None:
        """This server is a member of a cluster."""
        raise NotImplementedError

    def inherit(self, epoch: int, before: int, wall: int) -> None:
        """This server is the root of its cluster from now on. What the queues hold was published at
        another one, last at the root of the epoch `before`.
        """
        raise NotImplementedError

    def route(self, vhost: str, exchange: str, key: str) -> RouteCount:
        """Where publishes with this exchange and key are to be counted, until the virtual host's
        generation changes.
        """
        raise NotImplementedError


class SharedServices:
    """Held by the broker's state and by every virtual host. What is replaced here, when a store is
    opened or a ledger begins, is replaced for all of them at once.
    """

    def __init__(self) -> None:
        self.timers: Timers = Timers()
        self.wall: WallClock = WallClock()
        # Queues that have something to dispatch at the end of this tick.
        self.touched: list[MessageQueue] = []
        # What was dropped and is not freed yet.
        self.discarded: Discarded = Discarded()
        self.death_budget: DeathBudget = DeathBudget()
        # Where definitions that must outlive the process are recorded.
        self.definitions: DefinitionLog = DefinitionLog()
        # The maker of ready lists that can outgrow memory; None without a disk.
        self.ready_lists: ReadyLists | None = None
        # Where streams are stored.
        self.streams: StreamStore = StreamStore()
        # The observer of every queue; None when there is none.
        self.watcher: QueueWatcher | None = None
        # Whether moves may go on.
        self.move_gate: MoveGate = MoveGate()
        self.totals: Totals = Totals()
        # Whether this broker decides anything by itself: what expires, what exceeds a limit, what goes
        # with the last one that used it. A backup does not, nor does a start that reads back what was
        # decided before.
        self.decides: bool = True
        # Decides how much of what is declared other servers have.
        self.replication: ReplicationTest = ON_ITS_OWN
        # By queue and position: messages that came back in this tick, of which backups must hear. The
        # store writes that at the end of the tick; as many as consumers were sent.
        self.returned: dict[MessageQueue, dict[int, QueueEntry]] = {}
        # Whether queues may begin to follow others elsewhere; not without a data directory.
        self.keeps_replicas: bool = False
        # Queues that follow others elsewhere, each with the name of its virtual host.
        self.replicas: dict[MessageQueue, str] = {}
        # The makers of queues by type.
        self.kinds: QueueKinds = QueueKinds()
        self.kinds.add(CLASSIC, PlainQueueMaker())
        self.kinds.add(QUORUM, PlainQueueMaker())
        self.kinds.add(STREAM, StreamMaker(self.streams, self.wall))

    @property
    def is_replicated(self) -> bool:
        """Whether other servers have copies of what is durable: a member of a cluster."""
        return self.replication.is_replicated
