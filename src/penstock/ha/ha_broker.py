"""The replication of one server, which has the role of a primary or that of a backup.

The owner says which: it knows who is the root. Here is what both roles share: the state that is
replicated, the lines that backups have dialled, and with which store each of them has joined.

Invariants
- a `Primary` exists exactly while this server is the root of its epoch; else the `Backup` follows the
  root, or nobody;
- a server that has the name of a member and another store is a stranger: what it acknowledges is
  not counted for the member.
"""

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.ha.backup import Backup
from penstock.ha.backup_line import BackupLine
from penstock.ha.limits import DEFAULT_LIMITS, HaLimits
from penstock.ha.messages import ACK, JOIN
from penstock.ha.primary import InSyncSet, Primary, PrimaryListener
from penstock.ha.rules import ALL_RULES, HaRules
from penstock.ha.stored_replica import StoredReplica
from penstock.world.entropy import Entropy

# Appended to the name of a server that is not the member of that name.
_STRANGER: Final = "?"


@mypyc_attr(allow_interpreted_subclasses=True)
class KnownStores(ABC):
    """Which server is a member. The cluster's record says so."""

    @abstractmethod
    def is_member(self, name: str) -> bool:
        """Whether the record names it."""

    @abstractmethod
    def is_counted(self, name: str, store_id: bytes) -> bool:
        """Whether a server with this store is the member of that name."""


class HaBroker:
    """Held by the member of a cluster."""

    def __init__(
        self,
        name: str,
        replica: StoredReplica,
        stores: KnownStores,
        entropy: Entropy,
        rules: HaRules = ALL_RULES,
        limits: HaLimits = DEFAULT_LIMITS,
    ) -> None:
        self.name: str = name
        self._replica: StoredReplica = replica
        self._known: KnownStores = stores
        self._rules: HaRules = rules
        self._limits: HaLimits = limits
        self.backup: Backup = Backup(replica, entropy, rules, limits)
        self.primary: Primary | None = None
        # Lines that peers have dialled.
        self._lines: dict[str, BackupLine] = {}
        # With which store each backup of the primary has joined.
        self._stores: dict[str, bytes] = {}

    # The role.

    def promote(
        self, epoch: int, in_sync_set: InSyncSet, listener: PrimaryListener, now: int
    ) -> Primary:
        """This server is the root: its state is position 0 of the epoch."""
        self.backup.end()
        self._stores = {}
        self._replica.now = now
        position = self._replica.begin_root(epoch)
        self.primary = Primary(
            self.name,
            epoch,
            self._replica,
            in_sync_set,
            listener,
            position,
            now,
            self._rules,
            self._limits,
        )
        return self.primary

    def demote(self) -> None:
        """It is not the root any more. Lines stay, because votes for the next root go by them."""
        self.primary = None

    def follow(self, epoch: int, line: BackupLine) -> None:
        """Join the root of an epoch over a line that nobody has joined by."""
        assert self.primary is None, "a root follows nobody"
        self.backup.follow(epoch, line)

    def leave(self) -> None:
        """The line is lost, or another server is the root."""
        self.backup.end()

    # What comes from other servers.

    def line_up(self, name: str, line: BackupLine) -> None:
        """A peer has dialled it."""
        self._lines[name] = line

    def line_lost(self, name: str) -> None:
        self._lines.pop(name, None)
        if self.primary is not None:
            self.primary.line_lost(name)
            self.primary.line_lost(name + _STRANGER)

    def is_from_backup(self, kind: int) -> bool:
        return kind in {JOIN, ACK}

    def from_backup(self, name: str, store_id: bytes, kind: int, octets: bytes, now: int) -> None:
        line = self._lines.get(name)
        primary = self.primary
        if line is None or primary is None:
            # It may not have heard yet that this server is not the root any more. The line stays: by it
            # go the votes for the next one.
            return
        counted = self._counted_name(name, store_id)
        if kind == JOIN:
            if self._stores.get(counted, store_id) != store_id:
                # What another disk has acknowledged does not count for this one.
                primary.forget(counted)
            self._stores[counted] = store_id
            primary.joined(counted, octets, line, now)
        elif self._stores.get(counted) == store_id:
            primary.acked(counted, octets, now)

    def from_primary(self, kind: int, octets: bytes, now: int) -> None:
        self._replica.now = now
        self.backup.received(kind, octets, now)

    def committed_position(self, epoch: int, k: int) -> int:
        """Of the own journal, on a backup: up to where its state is known to be committed. The root of
        an epoch has said that operation k is; what it said with an operation may be more.
        """
        if epoch == self.backup.epoch:
            k = max(k, self.backup.committed_k)
        else:
            epoch, k = self.backup.epoch, self.backup.committed_k
        return self._replica.committed_position(epoch, k)

    # Stores.

    def _counted_name(self, name: str, store_id: bytes) -> str:
        if not self._known.is_member(name) or self._known.is_counted(name, store_id):
            return name
        return name + _STRANGER

    def has_joined(self, name: str) -> bool:
        """Whether what the primary knows under this name is of the store that the record names."""
        if name == self.name or not self._known.is_member(name):
            return True
        return self._known.is_counted(name, self._stores.get(name, b""))

    def joined_store(self, name: str) -> bytes:
        """With which store a server has joined the primary under its name; empty if none has."""
        return self._stores.get(name, b"")

    def members_changed(self) -> None:
        """What a store has acknowledged counts no more once the record names another one. A server
        that joined as a stranger and has become a member since joins again as one.
        """
        primary = self.primary
        if primary is None:
            return
        for joined, store_id in list(self._stores.items()):
            name = joined.removesuffix(_STRANGER)
            if self._counted_name(name, store_id) != joined:
                del self._stores[joined]
                primary.forget(joined)

    # Ticks.

    def end_of_tick(self, now: int) -> None:
        """The tick is written, and nothing of it has been sent yet."""
        if self.primary is not None:
            self.primary.pump(now)
        else:
            self.backup.pump()

    def journal_durable(self, position: int, now: int) -> None:
        """The own journal is durable up to here."""
        if self.primary is not None:
            self.primary.local_durable(position, now)
        else:
            self.backup.flushed(now)

    def in_sync_set_changed(self, now: int) -> None:
        if self.primary is not None:
            self.primary.in_sync_set_changed(now)
