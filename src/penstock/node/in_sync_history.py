"""How the in-sync set has changed since this server started, and why."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from penstock.cluster.record import ClusterRecord

# Changes that are kept. A server that flaps makes two each time; older ones are in the log.
HISTORY_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class InSyncChange:
    """One record with another in-sync set than the one before."""

    # On the node's clock.
    at: int
    epoch: int
    version: int
    in_sync: tuple[str, ...]
    entered: tuple[str, ...]
    left: tuple[str, ...]
    reason: str


class InSyncHistory:
    """Held by the member of a cluster."""

    def __init__(self) -> None:
        self._changes: deque[InSyncChange] = deque(maxlen=HISTORY_MAX)
        # How many there were, those that are not kept included.
        self.total: int = 0

    def note(self, record: ClusterRecord, reason: str, now: int) -> InSyncChange | None:
        """What is in force now; returns the change, if it is one."""
        before = self._changes[-1].in_sync if self._changes else ()
        if record.in_sync == before:
            return None
        change = InSyncChange(
            now,
            record.epoch,
            record.version,
            record.in_sync,
            tuple([name for name in record.in_sync if name not in before]),
            tuple([name for name in before if name not in record.in_sync]),
            reason,
        )
        self._changes.append(change)
        self.total += 1
        return change

    def changes(self) -> list[InSyncChange]:
        """The oldest first."""
        return list(self._changes)
