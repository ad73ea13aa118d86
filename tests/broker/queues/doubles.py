"""A queue with a virtual host that writes down what it is asked, and consumers that remember."""

from penstock.broker.arguments import settings_of
from penstock.broker.consumer import UNLIMITED, Consumer
from penstock.broker.discarded import Discarded
from penstock.broker.entry import QueueEntry
from penstock.broker.message import NO_EXPIRATION, Address, Message, Properties
from penstock.broker.queues.death_budget import DEATHS_MAX, DeathBudget
from penstock.broker.queues.message_queue import DeathReason, MessageQueue, QueueOwner
from penstock.broker.queues.queue import Queue
from penstock.broker.timers import Timers


class StubProperties(Properties):
    def headers(self) -> dict[str, object]:
        return {}


class RecordingOwner(QueueOwner):
    """Held by the test; says which messages died and why."""

    def __init__(self, deaths_max: int = DEATHS_MAX) -> None:
        super().__init__("/", Timers(), [], Discarded(), DeathBudget(deaths_max))
        self.deaths: list[tuple[bytes, str]] = []
        self.unused: list[str] = []

    def dead_letter(
        self, queue: MessageQueue, entry: QueueEntry, reason: DeathReason, now: int
    ) -> None:
        self.deaths.append((entry.message.body, reason.value))

    def queue_unused(self, queue: MessageQueue, now: int) -> None:
        self.unused.append(queue.name)
        queue.deleted(now)


class RecordingConsumer(Consumer):
    """Takes while it has credit and keeps what it took."""

    def __init__(
        self,
        credit: int = UNLIMITED,
        *,
        priority: int = 0,
        exclusive: bool = False,
        automatic: bool = False,
    ) -> None:
        super().__init__("tag", priority, exclusive, automatic)
        self.credit = credit
        self.taken: list[QueueEntry] = []
        self.unwanted: set[bytes] = set()
        self.heard_cancel = False

    @property
    def bodies(self) -> list[bytes]:
        return [entry.message.body for entry in self.taken]

    def can_take(self) -> bool:
        return self.credit > 0

    def wants(self, entry: QueueEntry) -> bool:
        return entry.message.body not in self.unwanted

    def take(self, entry: QueueEntry) -> None:
        self.credit -= 1
        self.taken.append(entry)

    def cancelled(self) -> None:
        self.heard_cancel = True


def make_queue(
    arguments: dict[str, object] | None = None,
    *,
    auto_delete: bool = False,
    deaths_max: int = DEATHS_MAX,
) -> tuple[Queue, RecordingOwner]:
    owner = RecordingOwner(deaths_max)
    given = arguments or {}
    queue = Queue(owner, "q", False, -1, auto_delete, settings_of(given, {}), given, 0)
    return queue, owner


def message(body: bytes, *, expiration_ms: int = NO_EXPIRATION, priority: int = 0) -> Message:
    return Message(Address("", "q", b""), StubProperties(False, priority, expiration_ms), body, 7)


def put(queue: MessageQueue, *bodies: bytes, now: int = 0) -> list[bool]:
    return [queue.enqueue(message(body), now) for body in bodies]


def ready_bodies(queue: MessageQueue) -> list[bytes]:
    return [entry.message.body for entry in queue.browse(1000)]


def dispatch(owner: RecordingOwner, now: int = 0) -> None:
    """What a node does at the end of a tick."""
    touched = owner.touched[:]
    owner.touched.clear()
    for queue in touched:
        queue.dispatch(now)
