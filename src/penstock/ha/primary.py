"""The root's side of replication: sends every operation to all backups and knows what is committed.

A position is committed when the epoch's first record is, and every member of the in-sync set, this
server included, has acknowledged it durably in this epoch (R9). Only then may anything that depends
on it be told to a client. A tick of housekeeping has no k: its position in the journal is committed
once it is durable here and the last operation before it is committed.

*Invariants*: committed positions are announced in order, each later than the one before. Nothing is
done per message. Acknowledgements of a server stay valid for the epoch; those of a disk that was
lost do not.
"""

from abc import ABC, abstractmethod
from collections import deque

from mypy_extensions import mypyc_attr

from penstock.broker.store.operation_log import OperationLog
from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha import messages
from penstock.ha.backup_line import BackupLine
from penstock.ha.kept_operations import KeptOperations
from penstock.ha.limits import DEFAULT_LIMITS, HaLimits
from penstock.ha.piece_pace import PiecePace
from penstock.ha.queue_guard import NOT_WRITTEN, QueueGuard, WaitingTick
from penstock.ha.remote_backup import BackupState, RemoteBackup
from penstock.ha.replicated_state import ReplicatedState
from penstock.ha.rules import ALL_RULES, HaRules


@mypyc_attr(allow_interpreted_subclasses=True)
class InSyncSet(ABC):
    """For whom a primary waits. The cluster decides it."""

    @abstractmethod
    def awaited(self) -> list[str]:
        """Members of the committed and of the pending in-sync set and those that are guarded before
        their record; this server's own name included.
        """

    @abstractmethod
    def has_begun(self) -> bool:
        """Whether the epoch's first record is committed."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PrimaryListener(ABC):
    """Hears from a primary what is committed and how its backups progress."""

    @abstractmethod
    def committed(self, position: int, k: int, now: int) -> None:
        """Everything up to this position of the journal is committed; the last operation in it is k."""

    @abstractmethod
    def acknowledged(self, name: str, now: int) -> None:
        """A backup has made progress: the in-sync set may change."""


class Primary(OperationLog):
    """Made by the node when its server has become the root of an epoch and the state has begun it
    (`ReplicatedState.begin_root`); `position` is that of the journal behind the record of that.
    Position 0 of the epoch is the inherited state. Dropped when the server steps down.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        state: ReplicatedState,
        in_sync_set: InSyncSet,
        listener: PrimaryListener,
        position: int,
        now: int,
        rules: HaRules = ALL_RULES,
        limits: HaLimits = DEFAULT_LIMITS,
    ) -> None:
        self.name: str = name
        self.epoch: int = epoch
        self._state: ReplicatedState = state
        self._in_sync_set: InSyncSet = in_sync_set
        self._listener: PrimaryListener = listener
        self._rules: HaRules = rules
        self._limits: HaLimits = limits
        self._began_at: int = now
        self._kept: KeptOperations = KeptOperations(limits.kept_bytes)
        self._pace: PiecePace = PiecePace(limits.piece_bytes_per_ms, limits.piece_burst_bytes)
        # The last operation at the end of the tick before.
        self._paced_k: int = 0
        self._backups: dict[str, RemoteBackup] = {}
        self.committed_k: int = -1
        # Ticks whose position has not been announced: k of the last operation up to it, position.
        # As many as are not committed; clients that wait for their confirms bound them.
        self._ticks: deque[tuple[int, int]] = deque([(0, position)])
        # Those of them that are not durable here, and the last k that is.
        self._not_durable: deque[tuple[int, int]] = deque([(0, position)])
        self._durable_k: int = -1
        self._durable_position: int = 0

    # The store's side, once per tick.

    def next_number(self) -> tuple[int, int]:
        return (self.epoch, self._kept.last_k + 1)

    def wrote(self, pieces: list[bytes], size: int, position: int) -> None:
        self._wrote(pieces, size, position, messages.operation_checksum(pieces))

    def wrote_summed(self, operation: bytes, position: int, checksum: int) -> None:
        self._wrote([operation], len(operation), position, checksum)

    def _wrote(self, pieces: list[bytes], size: int, position: int, checksum: int) -> None:
        k = self._kept.last_k + 1
        head = messages.encode_operation_head(self.epoch, k, self.committed_k, checksum)
        self._kept.append([head, *pieces], size)
        self._ticks.append((k, position))
        self._not_durable.append((k, position))
        first = self._kept.first_k
        for backup in self._backups.values():
            if backup.needs(first):
                backup.end_line("the operations that wait for this line are too many; join again")

    def wrote_housekeeping(self, position: int) -> None:
        tick = (self._kept.last_k, position)
        self._ticks.append(tick)
        self._not_durable.append(tick)

    def local_durable(self, position: int, now: int) -> None:
        """The own journal is durable up to here."""
        self._durable_position = max(self._durable_position, position)
        waiting = self._not_durable
        while waiting and waiting[0][1] <= position:
            self._durable_k = waiting.popleft()[0]
        self.advance(now)

    # The backups' side.

    def joined(self, name: str, octets: bytes, line: BackupLine, now: int) -> None:
        """A JOIN came, or a part of one. A line other than the one before replaces it."""
        self._stamp(now)
        backup = self._backups.get(name)
        if backup is None:
            backup = RemoteBackup(name, now)
            self._backups[name] = backup
            self._set_guards()
        if backup.line is not line:
            backup.line_lost()
            backup.line = line
        try:
            backup.join_part(octets, self.epoch, self._kept.last_k)
        except BadPeerMessage as error:
            backup.end_line(str(error))

    def acked(self, name: str, octets: bytes, now: int) -> None:
        """An ACK came over the line of that backup."""
        self._stamp(now)
        backup = self._backups.get(name)
        if backup is None or backup.line is None:
            return
        try:
            ack = messages.decode_ack(octets)
            if ack.epoch != self.epoch:
                raise BadPeerMessage(f"ACK is of epoch {ack.epoch}, and this is {self.epoch}")
            if not self._rules.present_epoch:
                ack.k = min(ack.k, backup.sent_k)
            progress = backup.acknowledged(ack, self._kept.last_k, now)
        except BadPeerMessage as error:
            backup.end_line(str(error))
            return
        if progress:
            self.advance(now)
            self._listener.acknowledged(name, now)

    def line_lost(self, name: str) -> None:
        """What it acknowledged stays valid; it is waited for as long as it is in the in-sync set."""
        backup = self._backups.get(name)
        if backup is not None:
            backup.line_lost()

    def forget(self, name: str) -> None:
        """The disk of that server was replaced: what it acknowledged is gone."""
        backup = self._backups.pop(name, None)
        if backup is not None:
            backup.end_line("the store of this server was replaced; join again")

    def end(self, reason: str) -> None:
        """The server steps down."""
        for backup in self._backups.values():
            backup.end_line(reason)

    def pump(self, now: int) -> None:
        """Answer JOINs and send what the lines take. Called at the end of every tick, after the
        store has written and never in the middle of one, and when a line has drained.
        """
        self._stamp(now)
        if self._paced_k < self._kept.last_k:
            self._paced_k = self._kept.last_k
            self._pace.operation_made(now)
        self._state.begin_reading()
        for backup in self._backups.values():
            if backup.line is not None:
                if backup.is_to_be_answered():
                    backup.answer(self.epoch, self._state, self._kept, self._limits)
                backup.pump(self.epoch, self._state, self._kept, self._limits)
                if backup.has_pieces():
                    backup.send_pieces(self.epoch, self._state, self._limits, self._pace, now)

    def in_sync_set_changed(self, now: int) -> None:
        """Others are awaited from now on."""
        self._set_guards()
        self.advance(now)

    def _set_guards(self) -> None:
        """A guard begins behind what is committed: what is before may have been confirmed."""
        awaited = self._in_sync_set.awaited()
        for backup in self._backups.values():
            if backup.name not in awaited:
                backup.let_go()
            elif backup.first_guarded_k < 0:
                # In a new epoch everything is guarded.
                has_begun = self.committed_k >= 0
                positions = self._state.first_uncommitted() if has_begun else {}
                backup.guard(self.committed_k + 1, positions)

    def advance(self, now: int) -> None:
        """Announce what is committed now."""
        if not self._in_sync_set.has_begun():
            return
        k = self._durable_k if self._rules.own_flush else self._kept.last_k
        if self._rules.all_acknowledge:
            for name in self._in_sync_set.awaited():
                if name != self.name:
                    k = min(k, self.acked_k(name))
        self.committed_k = max(self.committed_k, k)
        announced = False
        tick = (0, 0)
        ticks = self._ticks
        while ticks and ticks[0][0] <= self.committed_k and self._is_durable(ticks[0][1]):
            tick = ticks.popleft()
            announced = True
        if announced:
            self._listener.committed(tick[1], tick[0], now)

    def _is_durable(self, position: int) -> bool:
        return position <= self._durable_position or not self._rules.own_flush

    def _stamp(self, now: int) -> None:
        """Operations were made since the last call: servers that had everything are behind now."""
        self._kept.stamp(now)
        for backup in self._backups.values():
            if backup.acked_k < self._kept.last_k:
                backup.fell_behind(now)

    # For the in-sync set and for status.

    @property
    def last_k(self) -> int:
        return self._kept.last_k

    def acked_k(self, name: str) -> int:
        """The last position it has acknowledged; -1: it has not synced in this epoch."""
        if name == self.name:
            return self._durable_k
        backup = self._backups.get(name)
        return -1 if backup is None else backup.acked_k

    def behind_since(self, name: str) -> int:
        """Since when it has been behind and made no progress; -1: it is not behind, or it has not
        joined in this epoch.
        """
        backup = self._backups.get(name)
        return -1 if backup is None else backup.behind_since

    def oldest_unacked_made_at(self, name: str) -> int:
        """When the oldest operation was made that it has not acknowledged; -1: there is none."""
        k = self.acked_k(name) + 1
        if k > self._kept.last_k:
            return -1
        return self._began_at if k <= 0 else self._kept.made_at(k)

    def backups(self) -> list[RemoteBackup]:
        """Those that have joined in this epoch, for status."""
        return list(self._backups.values())

    def state_of(self, name: str) -> BackupState:
        backup = self._backups.get(name)
        return BackupState.JOINING if backup is None else backup.state

    def guard_of(self, backup: RemoteBackup, number: int, ticks: list[WaitingTick]) -> QueueGuard:
        """The guard of one queue, which has this in ticks that are not committed."""
        guard = QueueGuard(backup.first_guarded(number, self.epoch))
        for tick in ticks:
            k = self._k_at(tick.position)
            if k > backup.acked_k:
                guard.add(tick.ids, k <= backup.sent_k)
        return guard

    def _k_at(self, position: int) -> int:
        """The operation of the tick behind which the journal had this position."""
        if position == NOT_WRITTEN:
            return self._kept.last_k + 1
        found = self.committed_k
        for k, end in self._ticks:
            if end > position:
                break
            found = k
        return found

    def is_syncing(self, name: str) -> bool:
        backup = self._backups.get(name)
        return backup is not None and backup.is_syncing

    def lag_bytes(self, name: str) -> int:
        """Octets of the operations that it has not acknowledged."""
        return self._kept.bytes_behind(max(self.acked_k(name), 0))
