"""What was promised to clients, what every root did, and the checks of both (P1-P5, I1-I6)."""

from collections import Counter
from itertools import pairwise
from typing import Final

from penstock.simulation.protocol.toy_state import ToyState
from penstock.simulation.protocol.toy_store import (
    DEQUEUED,
    ENQUEUED,
    TEXT,
    ToyChange,
    ToyStore,
)

# The key under which definitions are counted: its value only grows.
POLICY: Final = b"policy"


class Violation(Exception):
    """A promise was broken."""


class EpochHistory:
    """What one root did: the state that it inherited, and its operations."""

    def __init__(self, inherited: ToyStore) -> None:
        self._inherited: ToyStore = inherited
        self.operations: list[tuple[ToyChange, ...]] = []
        self.committed: int = 0

    def state_at(self, k: int) -> ToyStore:
        store = self._inherited.copy()
        for changes in self.operations[:k]:
            for change in changes:
                store.change(change)
        return store


class ProtocolLedger:
    """Held by a run; asked by every server."""

    def __init__(self) -> None:
        self.epochs: dict[int, EpochHistory] = {0: EpochHistory(ToyStore())}
        self.roots: dict[int, str] = {}
        self.sightings: Counter[str] = Counter()
        # Bodies: confirmed, acknowledged by a consumer, dropped on purpose.
        self.confirmed: set[bytes] = set()
        self.consumed: set[bytes] = set()
        self.dropped: set[bytes] = set()
        # Queue and id: dequeued and committed, delivered.
        self.dequeued: set[tuple[int, int]] = set()
        self.delivered: set[tuple[int, int]] = set()
        # Neighbours of one operation; they are there together as long as nobody dequeued one.
        self._pairs: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self._touched: set[tuple[int, int]] = set()
        self._policy: int = 0
        self.published: int = 0

    def sighted(self, what: str) -> None:
        self.sightings[what] += 1

    # What a root does.

    def became_root(self, name: str, epoch: int, state: ToyState) -> None:
        """Before it discards what is staged."""
        self.sighted("election")
        if self.roots.setdefault(epoch, name) != name:
            raise Violation(f"I1: {name} and {self.roots[epoch]} are roots of epoch {epoch}")
        self.check_whole(name, state.memory)
        self._look_at_doubts(state.memory)
        if state.memory.staged:
            self.sighted("root discards what was staged")
        self.epochs[epoch] = EpochHistory(state.memory.copy())
        self.check_root(name, epoch, state.memory)

    def _look_at_doubts(self, store: ToyStore) -> None:
        epoch, k = store.syn
        history = self.epochs.get(epoch)
        if history is not None:
            if k > history.committed:
                self.sighted("in-doubt operation survived")
            if k < len(history.operations):
                self.sighted("in-doubt operation vanished")
            for changes in history.operations[k:]:
                for change in changes:
                    if change.kind == ENQUEUED and (change.queue, change.first) in self.delivered:
                        raise Violation(f"R16: {change.first} was delivered and has vanished")

    def operation(self, epoch: int, changes: tuple[ToyChange, ...]) -> None:
        self.epochs[epoch].operations.append(changes)
        self.sighted("operation")
        if len(changes) > 1:
            self.sighted("operation of several changes")
        new = [(c.queue, c.first) for c in changes if c.kind == ENQUEUED]
        self._pairs += pairwise(new)
        for change in changes:
            if change.kind == DEQUEUED:
                self._touched.update(_ids(change))

    def committed(self, epoch: int, k: int) -> None:
        history = self.epochs[epoch]
        for changes in history.operations[history.committed : k]:
            for change in changes:
                if change.kind == ENQUEUED:
                    self.confirmed.add(change.octets)
                    self.sighted("confirmed")
                elif change.kind == DEQUEUED:
                    self.dequeued.update(_ids(change))
                elif change.kind == TEXT and change.octets.startswith(POLICY):
                    self._policy = max(self._policy, int(change.octets.partition(b"=")[2]))
        history.committed = max(history.committed, k)

    def delivery(self, queue: int, position: int, is_redelivered: bool) -> None:
        self.sighted("delivered")
        place = (queue, position)
        if place in self.dequeued:
            raise Violation(f"P2: {place} was delivered after its dequeue was completed")
        if place in self.delivered and not is_redelivered:
            raise Violation(f"P3: {place} was delivered again without the redelivered flag")
        self.delivered.add(place)

    # Checks.

    def check_whole(self, name: str, store: ToyStore) -> None:
        """I4: exactly what the root of that epoch had after so many whole operations."""
        epoch, k = store.syn
        history = self.epochs.get(epoch)
        if history is None or k > len(history.operations):
            raise Violation(f"I4: {name} is at position {k} of epoch {epoch}, which never was")
        if history.state_at(k).contents() != store.contents():
            raise Violation(f"I4: {name} does not have the state of {store.syn}")

    def check_root(self, name: str, epoch: int, store: ToyStore) -> None:
        """P1, P2, P5, I5: only the newest root's state is looked at."""
        if epoch == max(self.roots):
            self.check_holder(f"root {name} of epoch {epoch}", store)
            self._check_halves(f"root {name} of epoch {epoch}", store)

    def check_holder(self, who: str, store: ToyStore) -> None:
        """Of a server that may become the root (I2)."""
        bodies: set[bytes] = set()
        for queue in store.queues.values():
            bodies.update(queue.values())
        lost = self.confirmed - self.consumed - self.dropped - bodies
        if lost:
            raise Violation(f"P1: {who} lacks confirmed {sorted(lost)[:3]}")
        for number, position in self.dequeued:
            if position in store.queues.get(number, {}):
                raise Violation(f"P2: {who} has {(number, position)}, whose dequeue was completed")
        if int(store.values.get(POLICY, b"0")) < self._policy:
            raise Violation(f"P5: {who} has forgotten a definition")

    def _check_halves(self, who: str, store: ToyStore) -> None:
        bodies: Counter[bytes] = Counter()
        for queue in store.queues.values():
            bodies.update(queue.values())
        twice = [body for body, count in bodies.items() if count > 1]
        if twice:
            raise Violation(f"I4: {who} has both ends of a move: {twice[:3]}")
        for one, other in self._pairs:
            if one in self._touched or other in self._touched:
                continue
            if one[0] not in store.queues or other[0] not in store.queues:
                continue
            if (one[1] in store.queues[one[0]]) != (other[1] in store.queues[other[0]]):
                raise Violation(f"I4: {who} has half of an operation: {one}, {other}")


def _ids(change: ToyChange) -> list[tuple[int, int]]:
    return [(change.queue, n) for n in range(change.first, change.first + change.size)]
