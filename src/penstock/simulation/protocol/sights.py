"""Rare events of replication as one server sees them; a suite in which one never occurs proves less
than it seems to.
"""

from typing import Final

from penstock.cluster.messages import NACK
from penstock.cluster.record import ClusterRecord
from penstock.ha import messages
from penstock.ha.backup import Backup
from penstock.ha.id_ranges import count_of_ids
from penstock.simulation.protocol.ledger import ProtocolLedger, Violation
from penstock.simulation.protocol.toy_state import ToyState

STEP_DOWN: Final = "the root stepped down:"
# Why lines end among servers that keep all rules.
ORDINARY: Final = (STEP_DOWN, "the store of this server was replaced", "JOIN is of epoch")


class Sights:
    """Held by a server."""

    def __init__(
        self, ledger: ProtocolLedger, backup: Backup, state: ToyState, is_strict: bool
    ) -> None:
        self._is_strict: bool = is_strict
        self._ledger: ProtocolLedger = ledger
        self._backup: Backup = backup
        self._state: ToyState = state
        self._joined: tuple[str, int] = ("", 0)
        self._missing: int = 0
        self._record: ClusterRecord | None = None

    def joins(self, root_name: str, epoch: int) -> None:
        self._ledger.sighted("JOIN")
        if self._joined == (root_name, epoch):
            self._ledger.sighted("JOIN repeated in an epoch")
        self._joined = (root_name, epoch)

    def before(self, kind: int) -> None:
        """A message is about to be taken."""
        self._missing = count_of_ids(self._backup.missing())
        if kind == NACK:
            self._ledger.sighted("NACK")
        elif kind == messages.RESUME:
            self._ledger.sighted("RESUME")
        elif kind == messages.OP and self._backup.is_syncing:
            self._ledger.sighted("operation during a SYNC")
        elif kind == messages.SYNC and not self._backup.is_syncing and self._state.memory.staged:
            self._ledger.sighted("SYNC continued")

    def after(self, kind: int) -> None:
        missing = count_of_ids(self._backup.missing())
        if kind == messages.SYNC and missing:
            self._ledger.sighted("SYNC with missing messages")
        if kind == messages.OP and missing < self._missing and self._backup.is_syncing:
            self._ledger.sighted("missing message cancelled")

    def ended(self, reason: str) -> None:
        """A line was ended by this server."""
        if reason.startswith("the operations that wait"):
            self._ledger.sighted("overflow of a line")
        elif not reason.startswith(ORDINARY) and self._is_strict:
            raise Violation(f"a server that keeps all rules was refused: {reason}")

    def record(self, record: ClusterRecord, guarded: list[str], syncing: list[str]) -> None:
        """The root's record, or whom it waits for, has changed."""
        if guarded:
            self._ledger.sighted("guarded before its record")
        before = self._record
        self._record = record
        if before is None or before.epoch != record.epoch:
            return
        old, new = set(before.in_sync), set(record.in_sync)
        if new - old and old - new:
            self._ledger.sighted("in-sync set swapped")
        if old - new:
            self._ledger.sighted("in-sync set shrunk")
        if new - old:
            self._ledger.sighted("in-sync set grown")
        if any(name in syncing for name in old - new):
            self._ledger.sighted("dropped in the middle of a SYNC")
        if len(record.members) > len(before.members):
            self._ledger.sighted("server added")
