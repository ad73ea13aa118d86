"""What every kind of queue promises, whether its messages leave it (`Queue`) or stay (`Stream`).

Publishing, dialects, stores and pages know this class alone; each kind is created by the maker that
the virtual host was given for it. What all kinds share is here: the name and the flags, the
consumers, who observes, the counts for people, and the list of queues to dispatch.

Invariants
- an entry that was delivered is counted in `unacked_count` until its holder settles it or gives it
  back; a settlement by anybody else, or a second one, changes nothing (`entry.take_back`);
- a consumer gets an entry only while it says it can take one;
- a queue stands at most once on its owner's list of touched queues.
"""

from array import array
from enum import Enum
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.arguments import QueueArguments, QueueType
from penstock.broker.consumer import Consumer
from penstock.broker.discarded import Discarded
from penstock.broker.entry import BROKER_ITSELF, QueueEntry
from penstock.broker.errors import AccessRefused
from penstock.broker.message import Message
from penstock.broker.observers import QueueObserver
from penstock.broker.queues.ages import TimeInQueue
from penstock.broker.queues.consumers import Consumers
from penstock.broker.queues.death_budget import DeathBudget
from penstock.broker.queues.following import Following
from penstock.broker.queues.priority import PriorityReadyList
from penstock.broker.queues.queue_journal import JournalledMessages, QueueJournal
from penstock.broker.queues.reading import Reading, ReadPosition
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.walk import Walk
from penstock.broker.replication_level import ReplicationLevel
from penstock.broker.timers import Timers

# In place of an age: nothing is there that could have one.
NO_AGE: Final = -1


class DeathReason(Enum):
    """Why a message left its queue without being acknowledged. The value goes into `x-death`."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAX_LENGTH = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueOwner:
    """The virtual host as its queues see it. `VirtualHost` is the one real owner."""

    def __init__(
        self,
        name: str,
        timers: Timers,
        touched: "list[MessageQueue]",
        discarded: Discarded,
        death_budget: DeathBudget,
    ) -> None:
        self.name: str = name
        self.timers: Timers = timers
        # Queues that have something to dispatch at the end of this tick; the broker's virtual
        # hosts share one list.
        self.touched: list[MessageQueue] = touched
        # What was dropped and is not freed yet; shared as well.
        self.discarded: Discarded = discarded
        # How many messages may die in a tick; shared as well.
        self.death_budget: DeathBudget = death_budget

    def decides(self) -> bool:
        """Whether time and limits apply; not on a backup, which does what its root decides."""
        return True

    def make_ready_list(self, max_priority: int) -> ReadyList:
        """The list of a new queue: one that can outgrow memory where there is a disk."""
        if max_priority > 0:
            return PriorityReadyList(max_priority)
        return ReadyList()

    def paged_out_gone(
        self,
        queue: "MessageQueue",
        positions: "array[int]",
        locations: "array[int]",
        body_bytes: int,
    ) -> None:
        """Messages that a queue had paged out were purged; their bodies have so many octets."""

    def dead_letter(
        self, queue: "MessageQueue", entry: QueueEntry, reason: DeathReason, now: int
    ) -> None:
        raise NotImplementedError

    def first_consumer(self, queue: "MessageQueue") -> None:
        """An auto-delete queue has got one, so it will be deleted."""

    def returned(self, queue: "MessageQueue", entries: list[QueueEntry]) -> None:
        """Deliveries failed, and these entries were counted and are ready again."""

    def queue_unused(self, queue: "MessageQueue", now: int) -> None:
        """An auto-delete queue lost its last consumer, or `x-expires` ran out."""
        raise NotImplementedError


class MessageQueue:
    """One queue of one virtual host. Held by the virtual host, its bindings and its consumers.

    Unlike other hooks it has no interpreted subclasses in the compiled build: there every publish
    looks at the class of every queue that it reaches, which is quick only while all are known.
    """

    def __init__(
        self,
        vhost: QueueOwner,
        name: str,
        durable: bool,
        exclusive_owner: int,
        auto_delete: bool,
        settings: QueueArguments,
        arguments: dict[str, object],
    ) -> None:
        self.vhost: QueueOwner = vhost
        self.name: str = name
        self.durable: bool = durable
        # Number of the connection that alone may use it; -1 when it is shared.
        self.exclusive_owner: int = exclusive_owner
        self.auto_delete: bool = auto_delete
        self.arguments: dict[str, object] = arguments
        # What arguments and policy say now; the type never changes.
        self.settings: QueueArguments = settings
        self.queue_type: QueueType = settings.queue_type
        # How much of it the next root of the cluster has; set by whoever makes it, and never changed.
        self.level: ReplicationLevel = ReplicationLevel.ALL
        self.is_deleted: bool = False
        # Whether it stands on its virtual host's list of queues to dispatch.
        self.is_touched: bool = False

        # Identifies this incarnation of the queue in the journal; 0 when it is not journalled.
        self.number: int = 0
        # Where persistent messages are written; None for a queue that is not durable.
        self.journal: QueueJournal | None = None
        # Whether those that are not persistent are written too: the queue is replicated.
        self.journals_all: bool = False
        self.consumers: Consumers = Consumers()
        self.observers: list[QueueObserver] = []
        # What it is a replica of; None for a queue that clients use.
        self.following: Following | None = None
        # Whether a delivery of AMQP 0-9-1 says how often its message was delivered before; and
        # whether any message may have come back.
        self.counts_deliveries: bool = False
        self.has_returns: bool = False
        # Whether it ever had one; set for auto-delete queues only.
        self.had_consumer: bool = False

        # Of the bodies of messages that are ready.
        self.ready_bytes: int = 0
        self.unacked_count: int = 0
        # Counters since the queue was declared, for people and metrics.
        self.published_total: int = 0
        self.delivered_total: int = 0
        self.acknowledged_total: int = 0
        self.redelivered_total: int = 0
        # Those of the delivered that somebody asked for one by one.
        self.got_total: int = 0

    # Facts.

    @property
    def is_lasting(self) -> bool:
        """Whether its persistent messages outlive the process, and in a cluster the root."""
        return self.durable and self.level is ReplicationLevel.ALL

    @property
    def message_count(self) -> int:
        """What a declaration answers."""
        raise NotImplementedError

    @property
    def ready_count(self) -> int:
        """Messages that count against the queue's length."""
        raise NotImplementedError

    @property
    def consumer_count(self) -> int:
        return self.consumers.count

    @property
    def keeps_messages(self) -> bool:
        """Whether a message stays for other readers when it is acknowledged."""
        raise NotImplementedError

    def journals(self, message: Message) -> bool:
        """Whether the journal has this message while it is here."""
        return self.journal is not None and (self.journals_all or message.properties.persistent)

    def check_used_here(self) -> None:
        """Raises `AccessRefused` for a replica: what it has belongs to the queue that it follows."""
        if self.following is not None:
            raise AccessRefused(
                f"queue '{self.name}' in vhost '{self.vhost.name}' is a replica of "
                f"{self.following.source()}; it is used there until it is released here"
            )

    def held_bytes(self, message_bytes: int) -> int:
        """Memory that its messages take; `message_bytes` is what one costs beside its body."""
        raise NotImplementedError

    def oldest_age_ms(self, now: int) -> int:
        """How long the oldest message that is ready has been here, about; NO_AGE for none. Of what
        was here before the last start it is the time since then.
        """
        raise NotImplementedError

    def age_ms_of(self, position: int, now: int) -> int:
        """How long the message of a position has been here, about; NO_AGE when that is not known."""
        raise NotImplementedError

    def head_in_memory(self) -> QueueEntry | None:
        """The entry that is delivered next, where it need not be read from disk; it stays."""
        return None

    def time_in_queue(self) -> TimeInQueue | None:
        """How long messages were here before they were delivered; None when that is not known."""
        return None

    # Its life.

    def apply_settings(self, settings: QueueArguments, now: int) -> None:
        """Take over what arguments and policy say; what no longer fits is dropped at once."""
        raise NotImplementedError

    def begin(self, now: int) -> None:
        """The queue was declared, and has its journal number if it gets one. Not called while
        definitions are read back.
        """

    def restore(self, found: JournalledMessages) -> int:
        """Restore the messages that the journal has for it; returns how many there are."""
        raise NotImplementedError

    def begin_epoch(self, epoch: int) -> None:
        """A root of a cluster numbers what it enqueues from here on by its epoch."""

    def resume(self, now: int) -> None:
        """Everything is restored: drop what died meanwhile and what does not fit."""

    def may_expire(self) -> bool:
        """Whether a message with a time to live was ever in it."""
        return False

    def waiting_entries(self) -> list[QueueEntry]:
        """What is in the journal, but not ready yet, in order."""
        return []

    def waiting_ticks(self) -> list[tuple[int, int]]:
        """Of these: where the journal ended with the tick that brought them, and how many there are.
        What the present tick has brought is not counted.
        """
        return []

    def replace_list(self, ready: ReadyList) -> None:
        """Its messages are in this list from now on: the server became the root of its cluster."""
        raise NotImplementedError

    def journal_list(self) -> ReadyList:
        """Where the journal finds the entries of this queue that are not out with consumers."""
        raise NotImplementedError

    def used(self, now: int) -> None:
        """Declared again or read with get: the time until `x-expires` begins anew."""
        raise NotImplementedError

    def purge(self, now: int) -> int:
        """Drop what is ready and return how much; what is out with consumers stays theirs."""
        raise NotImplementedError

    def deleted(self, now: int) -> None:
        """The virtual host has removed it: consumers hear of it, messages go with it."""
        raise NotImplementedError

    # Messages in.

    def enqueue(self, message: Message, now: int, seen: bool = False) -> bool:
        """Accept a message, or return False when the queue is full and refuses publishes. `seen`
        is for one that is taken back: somebody may have seen it.
        """
        raise NotImplementedError

    def run_start(self) -> int:
        """The next position, if enqueueing depends on nothing else; -1 otherwise."""
        return -1

    def enqueue_run(self, entries: list[QueueEntry], octets: int, now: int) -> None:
        """Accept entries with positions from `run_start` on, or later; its journal knows of
        them.
        """
        raise NotImplementedError

    def has_room(self, octets: int, now: int) -> bool:
        """Whether a message with a body of so many octets would be taken without dropping another."""
        return True

    # Messages out.

    def touch(self) -> None:
        """Ask for a dispatch at the end of this tick."""
        raise NotImplementedError

    def dispatch(self, now: int) -> None:
        """Give messages to consumers until either runs out."""
        raise NotImplementedError

    def get(self, now: int, holder: int = BROKER_ITSELF) -> QueueEntry | None:
        """Take the first entry for a client that asks once; it is unacknowledged until settled."""
        raise NotImplementedError

    def browse(self, limit: int) -> list[QueueEntry]:
        """Look at the first entries without taking them."""
        raise NotImplementedError

    def browse_on(self, walk: Walk) -> QueueEntry | None:
        """The next entry for somebody who looks through the queue; None at its end for now."""
        raise NotImplementedError

    def look_on(self, walk: Walk) -> QueueEntry | None:
        """As `browse_on`, for operators, who look at every kind of queue."""
        raise NotImplementedError

    def entry_from(self, position: int) -> QueueEntry | None:
        """Look at the first entry with this position or a higher one."""
        raise NotImplementedError

    def end_position(self) -> int:
        """The offset of the next message."""
        raise NotImplementedError

    # For replicas, of queues whose messages leave.

    def positions_from(self, position: int, count: int) -> list[int]:
        """Of the first entries at or after a position that are ready, so many at the most."""
        raise NotImplementedError

    def entry_at(self, position: int) -> QueueEntry | None:
        """Look at the entry of a position; None when it is not ready."""
        raise NotImplementedError

    def set_following(self, following: Following | None, now: int) -> None:
        """It is a replica of a queue elsewhere from now on, or is released."""
        raise NotImplementedError

    def follow(self, entry: QueueEntry, now: int) -> None:
        """Accept an entry of the queue that this one is a replica of, under its position there."""
        raise NotImplementedError

    def unfollow(self, first: int, count: int) -> int:
        """Drop the entries of these positions; returns how many there were."""
        raise NotImplementedError

    # For moves, of queues whose messages leave: `take_out`, then one of the other two.

    def take_out(self, walk: Walk, position: int) -> QueueEntry:
        """Take an entry that a walk has just seen, without delivering it."""
        raise NotImplementedError

    def moved_away(self, entry: QueueEntry) -> None:
        """It is elsewhere now, and gone from here."""
        raise NotImplementedError

    def put_back(self, entry: QueueEntry) -> None:
        """It is not, and stays where it was."""
        raise NotImplementedError

    def message_of(self, entry: QueueEntry) -> Message | None:
        """The message of an entry that is out, for whoever gets it again; None when it is gone."""
        return entry.message

    # Settlement, also in a queue that was deleted meanwhile.

    def acknowledge(self, entry: QueueEntry, holder: int = BROKER_ITSELF) -> None:
        raise NotImplementedError

    def acknowledge_many(self, entries: list[QueueEntry], holder: int = BROKER_ITSELF) -> None:
        raise NotImplementedError

    def lease_many(self, entries: list[QueueEntry]) -> None:
        """Delivered entries move into a lease; they are settled here as if acknowledged."""
        raise NotImplementedError

    def requeue(
        self, entries: list[QueueEntry], now: int, failed: bool = True, holder: int = BROKER_ITSELF
    ) -> None:
        """Entries come back unsettled, in order. The caller says whether the delivery `failed`, and
        so counts.
        """
        raise NotImplementedError

    def reject(self, entry: QueueEntry, now: int, holder: int = BROKER_ITSELF) -> None:
        """Settled as unwanted."""
        raise NotImplementedError

    # Consumers.

    def add_consumer(self, consumer: Consumer) -> None:
        """Deliver to it from now on. Raises `AccessRefused` if another consumer uses the queue
        exclusively.
        """
        raise NotImplementedError

    def subscribe(self, consumer: Consumer, reading: Reading, now: int) -> None:
        """As `add_consumer`, for a consumer that says where it begins. That matters only where
        messages stay.
        """
        self.add_consumer(consumer)

    def read_position(self, consumer: Consumer) -> ReadPosition | None:
        """How far a consumer has read, to be kept while it is away; None where messages leave."""
        return None

    def resume_consumer(self, consumer: Consumer, position: ReadPosition) -> None:
        """A detached consumer resumes; what was delivered to it before is still unacknowledged."""
        self.add_consumer(consumer)

    def remove_consumer(self, consumer: Consumer, now: int) -> None:
        """Cancelled or gone. The last one to leave deletes an auto-delete queue."""
        raise NotImplementedError

    def register(self, consumer: Consumer) -> None:
        """For the kinds: register a consumer unless another one uses the queue exclusively."""
        self.check_used_here()
        if self.consumers.exclusive or (consumer.exclusive and self.consumers.count):
            raise AccessRefused(
                f"queue '{self.name}' in vhost '{self.vhost.name}' in exclusive use"
            )
        self.consumers.add(consumer)
