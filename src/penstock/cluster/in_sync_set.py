"""Which members belong to the in-sync set: the root's decision (R11, R12, R13).

Invariants
- the set is a majority of the members at every moment (R11);
- a server enters it only when it has synced in this epoch and acknowledged everything committed (R12);
- what is waited for beyond the record (guards) is only ever more, so it is always safe.
"""

from typing import Final

from penstock.cluster.record import ClusterRecord
from penstock.cluster.rules import ElectionRules
from penstock.cluster.surroundings import BackupProgress
from penstock.cluster.timing import Timing

# A server that has not joined in this epoch gets this many times `in_sync_ms` after the election: it
# has to hear of the root first.
JOIN_FACTOR: Final = 2
# After guards had to let a server go, so many times `in_sync_ms` pass before the next attempt.
GUARD_PAUSE_FACTOR: Final = 4
NEVER: Final = -(1 << 60)


class InSyncSet:
    """Held by the root's role."""

    def __init__(
        self,
        own_name: str,
        progress: BackupProgress,
        timing: Timing,
        rules: ElectionRules,
        now: int,
    ) -> None:
        self._own_name: str = own_name
        self._progress: BackupProgress = progress
        self._timing: Timing = timing
        self._rules: ElectionRules = rules
        self._won_at: int = now
        # Servers outside the record that guards wait for, and since when; when others were let go.
        self._guarded_since: dict[str, int] = {}
        self._let_go_at: dict[str, int] = {}

    def guarded(self) -> list[str]:
        return list(self._guarded_since)

    def is_well(self, name: str, answered_at: int, now: int) -> bool:
        """R13: it answers heartbeats and makes progress."""
        if name == self._own_name:
            return True
        patience = self._timing.in_sync_ms
        # The first heartbeat of an epoch has to be answered first.
        if now - max(answered_at, self._won_at) >= patience:
            return False
        acked = self._progress.acked_k(name)
        behind = self._progress.behind_since(name)
        if behind < 0 and acked < 0:
            return now - self._won_at <= JOIN_FACTOR * patience
        return not (acked < self._progress.last_k() and behind >= 0 and now - behind > patience)

    def is_caught_up(self, name: str) -> bool:
        """R12."""
        if not self._rules.caught_up:
            return True
        return self._progress.acked_k(name) >= max(self._progress.committed_k(), 0)

    def wanted(
        self, record: ClusterRecord, known: list[str], answered: dict[str, int], now: int
    ) -> list[str]:
        """What the in-sync set should be; `known` are members that were heard with the store id
        that the record has.
        """
        wanted = list(record.in_sync)
        for name in record.names():
            if name not in record.in_sync and name in known:
                is_well = self.is_well(name, answered.get(name, NEVER), now)
                if is_well and self.is_caught_up(name):
                    wanted.append(name)
        for name in record.in_sync:
            if not self.is_well(name, answered.get(name, NEVER), now):
                rest = [other for other in wanted if other != name]
                if self.is_enough(record, rest):
                    wanted = rest
        return [name for name in record.names() if name in wanted]

    def is_enough(self, record: ClusterRecord, names: list[str]) -> bool:
        """R11."""
        return not self._rules.never_below_half or record.is_majority(names)

    def watch(self, record: ClusterRecord, known: list[str], now: int) -> bool:
        """First guarded position: wait for servers that have nearly caught up, for a limited time.
        Returns whether the guarded servers changed.
        """
        before = self.guarded()
        for name in before:
            if name in record.in_sync or name not in known:
                del self._guarded_since[name]
            elif now - self._guarded_since[name] > self._timing.in_sync_ms:
                del self._guarded_since[name]
                self._let_go_at[name] = now
        if self._rules.guard_early:
            for name in known:
                if name not in record.in_sync and self._is_nearly_caught_up(name, now):
                    self._guarded_since[name] = now
        return self.guarded() != before

    def _is_nearly_caught_up(self, name: str, now: int) -> bool:
        pause = GUARD_PAUSE_FACTOR * self._timing.in_sync_ms
        if name in self._guarded_since or now - self._let_go_at.get(name, NEVER) <= pause:
            return False
        acked = self._progress.acked_k(name)
        if not 0 <= acked < self._progress.last_k():
            return False
        made_at = self._progress.oldest_unacked_made_at(name)
        return made_at >= 0 and now - made_at < self._timing.in_sync_ms // 2
