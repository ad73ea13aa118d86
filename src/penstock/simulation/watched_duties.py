"""Shows what a new root inherits at the moment of its election: before it has decided anything, and so
before the first operation of its epoch.
"""

from abc import ABC, abstractmethod

from penstock.node.cluster_member import RootDuties
from penstock.node.in_sync_history import InSyncChange


class HeirWatcher(ABC):
    """Implemented by whoever judges what a new root has."""

    @abstractmethod
    def inherits(self, epoch: int) -> None:
        """A server has won the election of an epoch; its state is still that of a backup."""


class WatchedDuties(RootDuties):
    """Between a member and its duties. Held by the member."""

    def __init__(self, duties: RootDuties, watcher: HeirWatcher) -> None:
        self._duties = duties
        self._watcher = watcher

    def begin(self, epoch: int, now: int) -> None:
        self._watcher.inherits(epoch)
        self._duties.begin(epoch, now)

    def end(self, now: int) -> None:
        self._duties.end(now)

    def serving_changed(self, now: int) -> None:
        self._duties.serving_changed(now)

    def role_changed(self, role: str, reason: str, now: int) -> None:
        self._duties.role_changed(role, reason, now)

    def in_sync_changed(self, change: InSyncChange) -> None:
        self._duties.in_sync_changed(change)

    def disk_is_slow(self, now: int) -> bool:
        return self._duties.disk_is_slow(now)
