"""The record of what was published to a leased queue, and what jobs did with the leases.

At every moment each message is in the queue, in one lease, or settled, and never in two of these.
"""

from penstock.broker.internal_queues import LEASE_OF
from penstock.broker.leases.leases import NEVER_EXPIRES, LeaseFacts, facts_of, number_of
from penstock.broker.queues.message_queue import MessageQueue
from penstock.node.node import Node
from penstock.simulation.book import Book
from penstock.simulation.checkers import bodies_of, entries_of, queues_of
from penstock.simulation.clock import VirtualClock
from penstock.simulation.copies import Fate, name_in
from penstock.simulation.ledger import Ledger
from penstock.simulation.scenarios import LEASED


class KnownLease:
    """A lease as known to its owner. Held by the book."""

    def __init__(self, facts: LeaseFacts, names: list[bytes]) -> None:
        self.facts = facts
        self.names = names
        # Its owner was told that it is durable, and has not asked for its end.
        self.is_safe = False


class LeaseBook(Book):
    """Held by the ledger, the publishers and the jobs."""

    def __init__(self, ledger: Ledger, clock: VirtualClock, drift_ms: int = 0) -> None:
        """`drift_ms` is by how much a server's clock may be ahead."""
        super().__init__(ledger)
        self._clock = clock
        self._drift_ms = drift_ms
        self.leases: dict[tuple[str, int], KnownLease] = {}
        # Numbers whose leases are settled or given back, as confirmed by the broker.
        self.ended: set[tuple[str, int]] = set()
        # Names that a job asked to settle, and those that the broker confirmed as settled.
        self.settling: set[bytes] = set()
        self.settled: set[bytes] = set()
        # Names that were ever in a lease; they come back to the end of their queue.
        self._leased: set[bytes] = set()

    def taken(self, lease: MessageQueue, facts: LeaseFacts) -> KnownLease:
        """The broker has granted this lease, now or before."""
        names = names_of(lease)
        key = (facts.owner, facts.number)
        known = self.leases.get(key)
        if known is not None and known.is_safe and not self.may_be_over(known):
            if facts.created or known.names != names:
                self._ledger.violated(f"lease {key} was {known.names}, and is now {names}")
            return known
        known = KnownLease(facts, names)
        self.leases[key] = known
        if facts.created:
            self._check_order(lease)
        return known

    def _check_order(self, lease: MessageQueue) -> None:
        """Messages that were never leased before come in the order of publishing."""
        last: dict[tuple[str, int], int] = {}
        for entry in entries_of(lease):
            copy = self.copies[name_in(entry.message.body)]
            key = (copy.publisher, copy.epoch)
            if copy.name not in self._leased:
                if copy.serial <= last.get(key, -1):
                    self._ledger.violated(f"{copy.name!r} came out of order into {lease.name}")
                last[key] = copy.serial
            self._leased.add(copy.name)

    def ends(self, owner: str, number: int) -> None:
        """A job asks for the end of a lease: from now on it may exist or not."""
        known = self.leases.get((owner, number))
        if known is not None:
            known.is_safe = False

    def may_be_over(self, known: KnownLease) -> bool:
        expires_at = known.facts.expires_at
        return expires_at != NEVER_EXPIRES and self._clock.wall() + self._drift_ms >= expires_at

    # What must hold.

    def broken(self, node: Node) -> list[str]:
        complaints: list[str] = []
        places: dict[bytes, str] = {}
        for queue in [queues_of(node)[LEASED], *leases_in(node)]:
            for body in bodies_of(node, queue):
                name = name_in(body)
                if not self.knows(name, body):
                    complaints.append(
                        f"{queue.name} holds a message that was never published: {name!r}"
                    )
                if name in places:
                    complaints.append(f"{name!r} is in {places[name]} and in {queue.name}")
                places[name] = queue.name
        for name in self.settled & places.keys():
            complaints.append(f"{name!r} was settled, but is back in {places[name]}")
        for copy in self.copies.values():
            if copy.fate is Fate.CONFIRMED and copy.name not in places.keys() | self.settling:
                complaints.append(f"confirmed {copy.name!r} is in no lease and not in {LEASED}")
        return complaints + self._differing(node)

    def _differing(self, node: Node) -> list[str]:
        complaints: list[str] = []
        found: dict[tuple[str, int], list[bytes]] = {}
        for queue in leases_in(node):
            owner = facts_of(queue, False).owner
            found[owner, number_of(queue)] = names_in(bodies_of(node, queue))
        for key, known in self.leases.items():
            if known.is_safe and not self.may_be_over(known) and found.get(key) != known.names:
                complaints.append(f"lease {key} held {known.names}, and now {found.get(key)}")
        complaints += [f"lease {key} had ended, but is back" for key in self.ended & found.keys()]
        return complaints

    def unfinished(self, node: Node) -> list[str]:
        left = queues_of(node)[LEASED].message_count
        complaints = [f"{LEASED} still holds {left}"] if left else []
        return complaints + [f"{queue.name} is still leased" for queue in leases_in(node)]


def leases_in(node: Node) -> list[MessageQueue]:
    return [queue for queue in queues_of(node).values() if LEASE_OF in queue.arguments]


def names_of(queue: MessageQueue) -> list[bytes]:
    """Of the root, in order."""
    return names_in([entry.message.body for entry in entries_of(queue)])


def names_in(bodies: list[bytes]) -> list[bytes]:
    return [name_in(body) for body in bodies]
