"""Messages that leave a queue, or a delayed exchange, for a stream: each is in exactly one place.

They get there as dead letters, when a delay is over, or by a transaction that acknowledges and
publishes. Whatever fails in between, a confirmed message is in its queue, waits, or is in the
stream, and never in two of these.
"""

from typing import Final

from penstock.node.node import Node
from penstock.simulation.checkers import BROWSE_MAX, bodies_of, delayed_bodies, queues_of
from penstock.simulation.copies import Copy, name_in
from penstock.simulation.ledger import Ledger
from penstock.simulation.publisher import Order
from penstock.simulation.scenarios import (
    CARRIED,
    CROWDED,
    PERISHING,
    POSTPONED,
    RECEIPTS,
    STREAM,
)
from penstock.simulation.stream_book import StreamBook, held_for, stream_of

# Marks a message in the stream that was moved by a transaction, so that there is a receipt.
MOVED_HEADER: Final = "x-moved"
ROUTES: Final[list[Order]] = [
    ("", PERISHING),
    ("", CROWDED),
    ("", CARRIED),
    ("", CARRIED),
    (POSTPONED, STREAM),
    ("", STREAM),
]
STRAIGHT: Final[list[Order]] = [("", STREAM)]


class MovingBook(StreamBook):
    """Held by the ledger, the publishers, the movers and the readers."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger, (STREAM,))

    def is_ordered(self, copy: Copy) -> bool:
        return copy.key == STREAM and not copy.exchange

    def elsewhere(self, node: Node) -> dict[bytes, str]:
        found: dict[bytes, str] = {}
        for name in (PERISHING, CROWDED, CARRIED):
            for body in self._held_in(node, name):
                self._place(found, body, name)
        for body in delayed_bodies(node):
            self._place(found, body, POSTPONED)
        return found

    def _place(self, found: dict[bytes, str], body: bytes, place: str) -> None:
        name = name_in(body)
        if not self.knows(name, body):
            self._ledger.violated(f"{place} holds a message that was never published: {name!r}")
        if name in found:
            self._ledger.violated(f"{name!r} is in {found[name]} and in {place}")
        found[name] = place

    def _held_in(self, node: Node, name: str) -> list[bytes]:
        """Bodies of all messages of a queue, the unacknowledged ones included."""
        out = [entry.message.body for queue, entry in node.unsettled() if queue.name == name]
        return bodies_of(node, queues_of(node)[name]) + out

    def broken(self, node: Node) -> list[str]:
        return [*super().broken(node), *self._torn(node)]

    def _torn(self, node: Node) -> list[str]:
        """A transaction moved a message and left its receipt, or did neither."""
        stream = stream_of(node, STREAM)
        if stream is None:
            return []
        entries = [*stream.browse(BROWSE_MAX), *held_for(stream)]
        moved = [
            name_in(entry.message.body)
            for entry in entries
            if MOVED_HEADER in entry.message.properties.headers()
        ]
        receipts = [name_in(body) for body in self._held_in(node, RECEIPTS)]
        if sorted(moved) == sorted(receipts):
            return []
        return [f"receipts and moves differ: {sorted(set(moved) ^ set(receipts))}"]

    def unfinished(self, node: Node) -> list[str]:
        complaints = super().unfinished(node)
        for name in (PERISHING, CARRIED):
            count = len(self._held_in(node, name))
            if count:
                complaints.append(f"{name} still holds {count}")
        return complaints
