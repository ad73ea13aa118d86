"""The record of a run: the clients' side and the broker's side, compared as it happens.

The clients' side is what programs report; the broker's side comes from an observer on every queue.
What must be true at every moment is checked here, at once; what must be true at the end is in
`checkers`.
"""

from abc import ABC, abstractmethod
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.observers import QueueObserver
from penstock.node.node import Node
from penstock.simulation.copies import Copy, Fate, name_in
from penstock.simulation.history import History
from penstock.simulation.plans import QueuePlan, Topology

ENQUEUED: Final = "enqueued"
ACKNOWLEDGED: Final = "acknowledged"
DEQUEUED: Final = "dequeued"
TAKEN: Final = "taken"
# Of a whole queue: its name says which, and there is no copy.
DELETED: Final = "deleted"
DECLARED: Final = "declared"
# Queue, what happened, name of the copy, its position in the queue.
Happening = tuple[str, str, bytes, int]


class PromiseKeeper(ABC):
    """A program with guarantees that a restart must not break."""

    @abstractmethod
    def broken(self, node: Node) -> list[str]:
        """The guarantees that a node, just started, violates."""

    def root_ticked(self, node: Node, epoch: int) -> None:
        """The newest root of a cluster has ended a tick, perhaps the one in which it stepped down."""
        del node, epoch

    def unfinished(self, node: Node) -> list[str]:
        """What is still to be done before the run is over."""
        return []


class Ledger:
    """Held by the run, one for each node, and by the programs that use that node."""

    def __init__(self, name: str, topology: Topology, history: History) -> None:
        self.name = name
        self.topology = topology
        self.history = history
        self.violations: list[str] = []
        self.copies: dict[bytes, Copy] = {}
        self.watches: dict[str, QueueWatch] = {
            plan.name: QueueWatch(self, plan) for plan in topology.queues
        }
        # The copies of each transaction whose commit was asked for.
        self.transactions: list[tuple[Copy, ...]] = []
        # (queue, copy) by what clients did with a delivery of it, with how often.
        self.seen: dict[tuple[str, bytes], int] = {}
        self.unflagged: set[tuple[str, bytes]] = set()
        self.settled: set[tuple[str, bytes]] = set()
        # Acknowledged in a transaction whose commit was answered: gone for good.
        self.committed: set[tuple[str, bytes]] = set()
        # Delivered at least once without acknowledgement: there is no further guarantee.
        self.taken: set[tuple[str, bytes]] = set()
        self.promise_keepers: list[PromiseKeeper] = []
        # What queues did since the last tick ended, to follow a node across restarts: queue,
        # what, name, position. None when nobody does.
        self.events: list[Happening] | None = None
        # The last first delivery of a (queue, consumer, publisher, epoch).
        self._last_serials: dict[tuple[str, str, str, int], int] = {}

    def violated(self, what: str) -> None:
        self.violations.append(what)
        self.history.add(f"VIOLATION {what}")

    # Publishers say.

    def published(self, copy: Copy) -> None:
        self.copies[copy.name] = copy

    def returned(self, body: bytes) -> None:
        copy = self.copies.get(name_in(body))
        if copy is None or copy.body != body:
            self.violated(f"a message was returned that was never published: {body[:40]!r}")
            return
        if self.present_queues(copy) or not copy.is_mandatory:
            self.violated(f"{copy.name!r} was returned, although it had to be routed")
        copy.was_returned = True

    def confirmed(self, copy: Copy, refused: bool) -> None:
        if copy.fate is not Fate.SENT:
            self.violated(f"{copy.name!r} was confirmed while {copy.fate.value}")
        copy.fate = Fate.REFUSED if refused else Fate.CONFIRMED
        if refused and not any(self.watches[queue].plan.may_refuse for queue in copy.queues):
            self.violated(f"{copy.name!r} was refused, although no queue of its route may refuse")
        reached = [
            queue for queue in copy.queues if copy.name in self.watches[queue].enqueued_names
        ]
        for queue in self.present_queues(copy) if not (refused or copy.not_before) else ():
            if queue not in reached:
                self.violated(f"{copy.name!r} was confirmed, but never reached {queue}")
        if copy.is_mandatory and not copy.queues and not copy.was_returned:
            self.violated(f"{copy.name!r} was confirmed before it was returned")
        # It is not expected in a queue that did not exist.
        copy.queues = tuple(
            [queue for queue in copy.queues if queue in reached or not self._may_miss(queue, copy)]
        )

    def present_queues(self, copy: Copy) -> list[str]:
        """Its queues that have existed ever since it was sent."""
        return [queue for queue in copy.queues if not self._may_miss(queue, copy)]

    def _may_miss(self, queue: str, copy: Copy) -> bool:
        return self.watches[queue].was_absent_since(copy.sent_ms)

    def released(self, copy: Copy) -> None:
        """AMQP 1.0: there is no queue where it was sent to."""
        self.history.sighted("a message is released")
        copy.fate = Fate.REFUSED
        present = self.present_queues(copy)
        if present:
            self.violated(f"{copy.name!r} was released, although {present[0]} existed")
        for queue in copy.queues:
            if copy.name in self.watches[queue].enqueued_names:
                self.violated(f"{copy.name!r} was released, but {queue} has it")

    def doubted(self, copy: Copy) -> None:
        copy.fate = Fate.IN_DOUBT

    def rolled_back(self, copy: Copy) -> None:
        copy.fate = Fate.ROLLED_BACK

    # Consumers say.

    def delivered(
        self, queue: str, consumer: str, body: bytes, redelivered: bool, may_be_resent: bool = False
    ) -> bytes:
        """A consumer got a message. `may_be_resent` says that it may be a delivery of an earlier
        attachment, which its queue has made once and which is flagged nevertheless.
        """
        name = name_in(body)
        copy = self.copies.get(name)
        if copy is None or copy.body != body:
            self.violated(
                f"{consumer} got from {queue} a message that was never published: {body[:40]!r}"
            )
            return name
        watch = self.watches[queue]
        if not watch.may_hold(copy):
            self.violated(f"{name!r} came from {queue}, where it was not routed")
        self.seen[queue, name] = self.seen.get((queue, name), 0) + 1
        if redelivered:
            self.history.sighted("a redelivery")
            is_known = watch.deliveries.get(name, 0) >= 2 or name in watch.inherited_names
            if not is_known and not may_be_resent:
                self.violated(f"{name!r} from {queue} was flagged on its first delivery")
            return name
        if (queue, name) in self.unflagged:
            self.violated(f"{name!r} was delivered twice from {queue} without the flag")
        self.unflagged.add((queue, name))
        if not (watch.is_dead_queue or copy.not_before):
            self._check_order(queue, consumer, copy)
        return name

    def _check_order(self, queue: str, consumer: str, copy: Copy) -> None:
        key = (queue, consumer, copy.publisher, copy.epoch)
        last = self._last_serials.get(key, -1)
        if copy.serial <= last:
            self.violated(f"{consumer} got {copy.name!r} from {queue} after number {last}")
        self._last_serials[key] = copy.serial

    def acknowledged(self, queue: str, name: bytes) -> None:
        self.settled.add((queue, name))

    def acknowledgement_committed(self, queue: str, name: bytes) -> None:
        self.committed.add((queue, name))
        watch = self.watches[queue]
        if name not in watch.acknowledged_names and name not in watch.deleted_names:
            self.violated(f"the acknowledgement of {name!r} in {queue} was committed and lost")

    def rejected(self, queue: str, name: bytes) -> None:
        """Rejected for good: lost on purpose, or a dead letter."""
        self.settled.add((queue, name))
        self.history.sighted("a consumer rejects")


class QueueWatch(QueueObserver):
    """The broker's side of one queue. Held by the ledger and by the queue."""

    def __init__(self, ledger: Ledger, plan: QueuePlan) -> None:
        self._ledger = ledger
        self.plan = plan
        self._sources = [
            other.name for other in ledger.topology.queues if other.dead_queue == plan.name
        ]
        # Everything that was ever enqueued, and what is still there, ready or unacknowledged.
        self.enqueued_names: set[bytes] = set()
        self.held: dict[bytes, int] = {}
        self.deliveries: dict[bytes, int] = {}
        self.acknowledged_names: set[bytes] = set()
        # Dequeued with their delivery, to a consumer without acknowledgements.
        self.taken_names: set[bytes] = set()
        # Gone without an acknowledgement: rejected, expired, dropped.
        self.dead_names: set[bytes] = set()
        # Gone with their queue, which was deleted; whether it is there, and since when it has been.
        self.deleted_names: set[bytes] = set()
        self.is_there = True
        self.returned_ms = -1
        self._last_serials: dict[tuple[str, int], int] = {}
        # Since the node's last start, as its own counters.
        self.enqueued_count = 0
        self.acknowledged_count = 0
        self.delivered_count = 0
        # Here before the last start, so that they may be flagged; and lost by one, as messages
        # that are not persistent must be.
        self.inherited_names: set[bytes] = set()
        self.evaporated_names: set[bytes] = set()

    @property
    def is_dead_queue(self) -> bool:
        return bool(self._sources)

    def may_hold(self, copy: Copy) -> bool:
        return self.plan.name in copy.queues or any(
            source in copy.queues for source in self._sources
        )

    def enqueued(self, entry: QueueEntry) -> None:
        name = name_in(entry.message.body)
        copy = self._ledger.copies.get(name)
        if copy is None or not self.may_hold(copy):
            self._violated(f"enqueued {name!r}, which was not routed there")
        elif self._ledger.history.now() < copy.not_before:
            self._violated(f"enqueued {name!r} before its delay was over")
        if name in self.enqueued_names:
            self._violated(f"enqueued {name!r} twice")
        self.enqueued_names.add(name)
        self.enqueued_count += 1
        self.held[name] = entry.position
        self._happened(ENQUEUED, name, entry.position)

    def delivered(self, entry: QueueEntry) -> None:
        self._given(name_in(entry.message.body))

    def taken_many(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            name = name_in(entry.message.body)
            self._given(name)
            if name in self.taken_names:
                self._violated(f"delivered {name!r} twice to a consumer without acknowledgements")
            self.taken_names.add(name)
            self._ledger.taken.add((self.plan.name, name))
            self._happened(TAKEN, name, entry.position)
            self.dequeued(entry)

    def _given(self, name: bytes) -> None:
        if name not in self.held:
            self._violated(f"delivered {name!r}, which it does not hold")
        if name in self.acknowledged_names:
            self._violated(f"delivered {name!r} after its acknowledgement")
        self.delivered_count += 1
        count = self.deliveries.get(name, 0) + 1
        self.deliveries[name] = count
        copy = self._ledger.copies.get(name)
        if count == 1 and copy is not None and not (self.is_dead_queue or copy.not_before):
            key = (copy.publisher, copy.epoch)
            if copy.serial <= self._last_serials.get(key, -1):
                self._violated(f"delivered {name!r} out of order")
            self._last_serials[key] = copy.serial

    def acknowledged(self, entry: QueueEntry) -> None:
        name = name_in(entry.message.body)
        if name in self.acknowledged_names:
            self._violated(f"took two acknowledgements of {name!r}")
        self.acknowledged_names.add(name)
        self.acknowledged_count += 1
        self._happened(ACKNOWLEDGED, name, entry.position)

    def dequeued(self, entry: QueueEntry) -> None:
        name = name_in(entry.message.body)
        if self.held.pop(name, None) is None:
            self._violated(f"dequeued {name!r}, which it did not hold")
        if name not in self.acknowledged_names and name not in self.taken_names:
            self.dead_names.add(name)
        self._happened(DEQUEUED, name, entry.position)

    # Of a queue that is deleted and declared anew.

    def was_absent_since(self, milliseconds: int) -> bool:
        return self.plan.may_vanish and (not self.is_there or self.returned_ms >= milliseconds)

    def deleted(self) -> None:
        """From now on deliveries that are out with consumers are not followed."""
        self.deleted_names |= set(self.held)
        self.held.clear()
        self.is_there = False
        self._happened(DELETED, b"", 0)

    def declared(self) -> None:
        self.is_there = True
        self.returned_ms = self._ledger.history.now()
        self.begin_life()
        self._happened(DECLARED, b"", 0)

    def begin_life(self) -> None:
        """A node has started: its counters begin at zero, and messages that a crash restored may be
        delivered after later ones, flagged.
        """
        self._last_serials.clear()
        self.enqueued_count = 0
        self.acknowledged_count = 0
        self.delivered_count = 0

    def _happened(self, what: str, name: bytes, position: int) -> None:
        if self._ledger.events is not None:
            self._ledger.events.append((self.plan.name, what, name, position))

    def _violated(self, what: str) -> None:
        self._ledger.violated(f"{self._ledger.name}: {self.plan.name} {what}")
