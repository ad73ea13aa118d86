"""What an operator changes in a cluster, from the command until it has come about or failed.

The election takes a command or refuses it at once; the record that results, or the catching up that
comes before it, takes its time. `ClusterChange.look` says how far it is.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.cluster.election import Election
from penstock.cluster.record import ClusterRecord
from penstock.node.cluster_member import ClusterMember

NOT_ROOT: Final = "this server is not the active root any more; see what the new root shows"

ELECTED_AGAIN: Final = "this server was elected again meanwhile; look at the cluster"


class ChangeVerb(Enum):
    """The value is what the command line calls it."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"
    HAND_OVER = "hand-over"
    ENABLE_ROOT = "root enable"
    DISABLE_ROOT = "root disable"
    FORCE_ROOT = "force-root"


class ChangeState(Enum):
    UNDER_WAY = "under way"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ChangeProgress:
    state: ChangeState
    # How far it is, or why it failed.
    text: str


class ClusterChange:
    """One command. Held by whoever asked for it."""

    def __init__(self, member: ClusterMember, verb: ChangeVerb, name: str, address: str) -> None:
        assert member.election is not None, "a member that takes part"
        self._member: ClusterMember = member
        self._election: Election = member.election
        self.verb: ChangeVerb = verb
        self.name: str = name
        self._address: str = address
        self._store_id: bytes = b""
        self._ended: ChangeProgress | None = None

    def begin(self, now: int) -> str:
        """Why not; empty when it has begun."""
        election, verb = self._election, self.verb
        if verb is ChangeVerb.FORCE_ROOT:
            return election.force_root(now)
        if verb is ChangeVerb.ADD:
            return election.add_member(self.name, self._address, now)
        if verb is ChangeVerb.REMOVE:
            return election.remove_member(self.name, now)
        if verb is ChangeVerb.REPLACE:
            self._store_id = election.store_id_of(self.name)
            return self._member.replace_member(self.name, now)
        if verb is ChangeVerb.ENABLE_ROOT:
            return election.enable_root(self.name, now)
        if verb is ChangeVerb.DISABLE_ROOT:
            return election.disable_root(self.name, now)
        self.name = self.name or self._heir()
        if not self.name:
            return "no other server is in the in-sync set and may be the root"
        return election.hand_over(self.name, now)

    def _heir(self) -> str:
        """The most senior server that can take over."""
        names = [name for name in self._election.record.electable() if name != self._member.name]
        return names[0] if names else ""

    def look(self, now: int) -> ChangeProgress:
        """How far it is. What it has ended with stays."""
        if self._ended is None:
            progress = self._progress(now)
            if progress.state is ChangeState.UNDER_WAY:
                return progress
            self._ended = progress
        return self._ended

    def _progress(self, now: int) -> ChangeProgress:
        election = self._election
        if self.verb is ChangeVerb.HAND_OVER:
            return self._hand_over(now)
        if self.verb is ChangeVerb.FORCE_ROOT:
            return _when(election.may_serve(now), "the new cluster is being made")
        root = election.root
        if root is None:
            if not election.knows_active_root(now):
                return _under_way("a new root is being elected")
            # The next root has the record, or it never will.
            if self._is_in(election.record):
                return _done()
            return _failed(f"{NOT_ROOT}{self._what_to_repeat()}")
        if root.committed is not None and self._is_in(root.committed):
            return _done()
        is_learning = root.learner is not None and root.learner.name == self.name
        if self.verb is ChangeVerb.ADD and not is_learning and root.is_settled():
            return _failed(root.why_not_added or f"{ELECTED_AGAIN}{self._what_to_repeat()}")
        return _under_way(self._catching_up())

    def _hand_over(self, now: int) -> ChangeProgress:
        election = self._election
        root = election.root
        if root is None:
            is_over = election.knows_active_root(now)
            return _when(is_over, f"{self.name!r} is being elected")
        if root.heir:
            return _under_way(f"{self.name!r} receives the last operations")
        return _failed(f"{self.name!r} did not take over in time, and this server goes on")

    def _is_in(self, record: ClusterRecord) -> bool:
        found = record.find(self.name)
        if self.verb is ChangeVerb.ADD:
            return found is not None
        if self.verb is ChangeVerb.REMOVE:
            return found is None
        if found is None:
            return False
        if self.verb is ChangeVerb.REPLACE:
            return found.store_id == self._store_id
        return found.may_be_root == (self.verb is ChangeVerb.ENABLE_ROOT)

    def _what_to_repeat(self) -> str:
        """A server that catches up is known to the root alone, and no other root adds it."""
        return f", and add {self.name!r} there" if self.verb is ChangeVerb.ADD else ""

    def _catching_up(self) -> str:
        primary = self._member.primary
        if self.verb is not ChangeVerb.ADD or primary is None:
            return "the members have not accepted it yet"
        if not primary.is_syncing(self.name) and primary.acked_k(self.name) < 0:
            return f"{self.name!r} has not joined yet; is it started?"
        return f"{self.name!r} catches up, {max(primary.lag_bytes(self.name), 0)} bytes to go"


def _done() -> ChangeProgress:
    return ChangeProgress(ChangeState.DONE, "")


def _failed(reason: str) -> ChangeProgress:
    return ChangeProgress(ChangeState.FAILED, reason)


def _under_way(text: str) -> ChangeProgress:
    return ChangeProgress(ChangeState.UNDER_WAY, text)


def _when(is_done: bool, text: str) -> ChangeProgress:
    return _done() if is_done else _under_way(text)
