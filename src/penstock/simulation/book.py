"""Records for messages that a queue's observer cannot follow: what was sent to the broker, and what
it must hold therefore. A book is compared with a node after every start and at the end.
"""

from penstock.simulation.copies import Copy, Fate
from penstock.simulation.ledger import Ledger, PromiseKeeper


class Book(PromiseKeeper):
    """Held by the ledger, and by the programs that write into it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.copies: dict[bytes, Copy] = {}
        # Publishers that number their messages: a repeated one is stored once.
        self.numbering: set[str] = set()
        ledger.promise_keepers.append(self)

    def published(self, copy: Copy) -> None:
        self.copies[copy.name] = copy

    def confirmed(self, copy: Copy) -> None:
        if copy.fate is not Fate.SENT:
            self._ledger.violated(f"{copy.name!r} was confirmed while {copy.fate.value}")
        copy.fate = Fate.CONFIRMED

    def knows(self, name: bytes, body: bytes) -> bool:
        copy = self.copies.get(name)
        return copy is not None and copy.body == body
