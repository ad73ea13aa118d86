"""What was published into queues between which operators move messages.

At every moment each message is in exactly one of the queues, whatever dies in the middle of a move.
"""

from typing import Final

from penstock.node.node import Node
from penstock.simulation.book import Book
from penstock.simulation.checkers import bodies_of, queues_of
from penstock.simulation.copies import Fate, name_in
from penstock.simulation.scenarios import BARGE, QUAY, SILO

PLACES: Final = (QUAY, BARGE, SILO)


class QueueMoveBook(Book):
    """Held by the ledger, the publishers and the jobs."""

    def broken(self, node: Node) -> list[str]:
        complaints: list[str] = []
        found: dict[bytes, str] = {}
        for place in PLACES:
            for body in bodies_of(node, queues_of(node)[place]):
                name = name_in(body)
                if not self.knows(name, body):
                    complaints.append(f"{place} holds a message that was never published: {name!r}")
                if name in found:
                    complaints.append(f"{name!r} is in {found[name]} and in {place}")
                found[name] = place
        for copy in self.copies.values():
            if copy.fate is Fate.CONFIRMED and copy.name not in found:
                complaints.append(f"confirmed {copy.name!r} is in none of {', '.join(PLACES)}")
        return complaints

    def unfinished(self, node: Node) -> list[str]:
        """Nobody takes them: they stay."""
        del node
        return []
