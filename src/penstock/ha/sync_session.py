"""One SYNC as the backup sees it: what its state is to become, and what is still missing for that.

Kept in memory only. If it is abandoned, the state is what it was, and what was staged stays for the
next JOIN.
"""

from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha.id_ranges import IdSets, add_ids, minus_sets, remove_ids
from penstock.ha.limits import CHANGES_BYTES_MAX
from penstock.ha.replicated_state import OperationParts
from penstock.ha.rules import HaRules


class SyncSession:
    """Held by a `Backup` from the last message of a SYNC to its SYNC-DONE."""

    def __init__(self, k: int, target: IdSets, values: bytes, held: IdSets, rules: HaRules) -> None:
        # The last operation that is contained in target, values and changes.
        self.k: int = k
        self.target: IdSets = target
        self.missing: IdSets = minus_sets(target, held)
        self.values: bytes = values
        self.changes: list[bytes] = []
        self._changes_bytes: int = 0
        self._rules: HaRules = rules

    @property
    def is_complete(self) -> bool:
        return not self.missing

    def operation(self, k: int, parts: OperationParts) -> None:
        """A live operation, whose messages are staged."""
        for change in parts.changes:
            self._changes_bytes += len(change)
        if self._changes_bytes > CHANGES_BYTES_MAX:
            raise BadPeerMessage("too many definitions changed during a SYNC; it begins again")
        self.k = k
        self.changes.extend(parts.changes)
        for number, first, count in parts.enqueued:
            add_ids(self.target, number, first, count)
        for number, first, count in parts.dequeued:
            if self._rules.cancel:
                remove_ids(self.target, number, first, count)
                remove_ids(self.missing, number, first, count)
            else:
                self._dequeue_what_is_there(number, first, count)
        # Last: a queue may get messages and be deleted in one operation, never the reverse.
        for number in parts.gone:
            self.target.pop(number, None)
            if self._rules.cancel:
                self.missing.pop(number, None)

    def _dequeue_what_is_there(self, number: int, first: int, count: int) -> None:
        """Only without the rule: what is missing stays so."""
        missing = self.missing.get(number)
        for position in range(first, first + count):
            if missing is None or not missing.contains(position):
                remove_ids(self.target, number, position, 1)

    def took(self, ids: IdSets) -> None:
        """These have arrived and are staged."""
        for number, taken in ids.items():
            for first, count in taken.ranges():
                remove_ids(self.missing, number, first, count)
