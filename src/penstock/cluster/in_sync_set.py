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
        # Why the last `wanted` differs from the record.
        self.reasons: list[str] = []

    def guarded(self) -> list[str]:
        return list(self._guarded_since)

    def why_not_well(self, name: str, answered_at: int, now: int) -> str:
        """R13: it answers heartbeats and makes progress; else what it does not do. One that has
        everything is well, however long nothing has happened.
        """
        if name == self._own_name:
            return ""
        patience = self._timing.in_sync_ms
        # The first heartbeat of an epoch has to be answered first.
        if now - max(answered_at, self._won_at) >= patience:
            return f"has answered no heartbeat for {patience} ms"
        acked = self._progress.acked_k(name)
        behind = self._progress.behind_since(name)
        if behind < 0 and acked < 0:
            has_time = now - self._won_at <= JOIN_FACTOR * patience
            return "" if has_time else f"has not joined within {JOIN_FACTOR * patience} ms"
        if acked < self._progress.last_k() and behind >= 0 and now - behind > patience:
            return f"has acknowledged nothing for {patience} ms"
        return ""

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
        self.reasons = []
        for name in record.names():
            if name not in record.in_sync and name in known:
                is_well = not self.why_not_well(name, answered.get(name, NEVER), now)
                if is_well and self.is_caught_up(name):
                    wanted.append(name)
                    self.reasons.append(f"{name!r} has everything that is committed")
        for name in record.in_sync:
            why = self.why_not_well(name, answered.get(name, NEVER), now)
            if why:
                rest = [other for other in wanted if other != name]
                if self.is_enough(record, rest):
                    wanted = rest
                    self.reasons.append(f"{name!r} {why}")
        return [name for name in record.names() if name in wanted]

    def why_too_few(self, record: ClusterRecord, answered: dict[str, int], now: int) -> str:
        """Why nothing can be committed, if a majority of the members does not make progress: none of
        them may leave the in-sync set then (R11). Empty otherwise.
        """
        stuck: list[str] = []
        well: list[str] = []
        for name in record.in_sync:
            why = self.why_not_well(name, answered.get(name, NEVER), now)
            if why:
                stuck.append(f"{name!r} {why}")
            else:
                well.append(name)
        if record.is_majority(well):
            return ""
        return f"too few servers have everything: {', '.join(stuck)}"

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
