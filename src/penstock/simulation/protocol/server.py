"""One simulated server: the shipped election, primary and backup over a toy state.

It does what a node does to join the two rooms, and asserts what a node may rely on. A crash drops the
object; what survives is in `ServerDisk`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from penstock.cluster.contradictions import Contradiction
from penstock.cluster.election import Election
from penstock.cluster.promises import format_promises, open_promises
from penstock.cluster.record import ClusterRecord
from penstock.cluster.surroundings import BackupProgress, ElectionListener, PeerLines
from penstock.cluster.timing import Timing
from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha import messages
from penstock.ha.backup import Backup
from penstock.ha.limits import HaLimits
from penstock.ha.primary import InSyncSet, Primary, PrimaryListener
from penstock.simulation.dice import Dice
from penstock.simulation.entropy import SeededEntropy
from penstock.simulation.protocol.connections import (
    EndLine,
    PeerConnection,
    PeerConnections,
    ServerEnd,
)
from penstock.simulation.protocol.ledger import ProtocolLedger, Violation
from penstock.simulation.protocol.rules import ProtocolRules
from penstock.simulation.protocol.sights import STEP_DOWN, Sights
from penstock.simulation.protocol.term import Term
from penstock.simulation.protocol.toy_disk import ToyDisk
from penstock.simulation.protocol.toy_state import ToyJournal, ToyState
from penstock.simulation.protocol.toy_store import ToyRecord


class Surroundings(ABC):
    """The world as a server sees it."""

    ledger: ProtocolLedger
    rules: ProtocolRules
    limits: HaLimits
    timing: Timing
    network: PeerConnections
    disks: dict[str, "ServerDisk"]

    @abstractmethod
    def now(self, name: str) -> int:
        """Milliseconds of a server's own clock, which drifts."""

    @abstractmethod
    def note(self, line: str) -> None:
        """For the history of the run."""

    @abstractmethod
    def after_flush(self, server: "SimulatedServer", done: Callable[[], None]) -> None:
        """A flush takes its time, longer if the disk hangs."""


class ServerDisk:
    """What survives a crash of a server."""

    def __init__(self, store_id: bytes, record: ClusterRecord) -> None:
        self.promises: ToyDisk = ToyDisk()
        self.journal: ToyJournal = ToyJournal()
        self.store_id: bytes = store_id
        format_promises(self.promises, store_id, record)

    def crash(self, dice: Dice) -> None:
        """Any prefix of what was not flushed survives."""
        tail = len(self.journal.tail)
        self.journal.crash(dice.between(0, tail) if dice.chance(0.5) else 0)
        self.promises.crash(dice)


class SimulatedServer(ServerEnd):
    """One incarnation: from a start to a crash."""

    def __init__(self, world: "Surroundings", name: str, disk: ServerDisk, dice: Dice) -> None:
        self.world: Surroundings = world
        self.name = name
        self.disk: ServerDisk = disk
        self.dice: Dice = dice
        self.is_down: bool = False
        # Since when a flush of the journal has been running; -1: none is.
        self.flushing_since: int = -1
        disk.promises.later = self._promises_later
        self.state: ToyState = ToyState(disk.journal, self.ask_for_flush)
        world.ledger.check_whole(name, self.state.memory)
        entropy = SeededEntropy(dice.fork("entropy"))
        self.backup: Backup = Backup(self.state, entropy, world.rules.ha, world.limits)
        self.sights: Sights = Sights(world.ledger, self.backup, self.state, world.rules.are_all_on)
        self.primary: Primary | None = None
        self.term: Term | None = None
        self.election: Election = Election(
            name,
            open_promises(disk.promises),
            SentOver(self),
            Owner(self),
            ToldProgress(self),
            world.timing,
            entropy,
            self.now(),
            world.rules.election,
        )
        # The root that the election told us to join, and the line by which we did.
        self._root_name: str = ""
        self._root_epoch: int = 0
        self._root_line: PeerConnection | None = None
        # Lines of our backups, by the name that the primary knows them by.
        self._lines: dict[str, EndLine] = {}
        self._told: tuple[bool, bool] = (False, False)
        self._finished: int = 0

    def now(self) -> int:
        return self.world.now(self.name)

    # The disk.

    def ask_for_flush(self) -> None:
        if self.flushing_since < 0:
            self.flushing_since = self.now()
            count = len(self.disk.journal.tail)
            self.world.after_flush(self, partial(self._flushed, count))

    def _flushed(self, count: int) -> None:
        self.flushing_since = -1
        journal = self.disk.journal
        journal.fold(count)
        now = self.now()
        if self.primary is not None:
            self.primary.local_durable(journal.durable, now)
        self.backup.flushed(now)
        if journal.tail:
            self.ask_for_flush()
        self.settle()

    def _promises_later(self, done: Callable[[int], None]) -> None:
        self.world.after_flush(self, partial(self._promised, done))

    def _promised(self, done: Callable[[int], None]) -> None:
        done(self.now())
        self.settle()

    # Time and the end of a tick.

    def tick(self) -> None:
        self.election.tick(self.now())
        self.settle()

    def settle(self) -> None:
        """The end of a tick: everything that is done there once."""
        if self.is_down:
            return
        now = self.now()
        if self.primary is not None:
            self.primary.pump(now)
        self.backup.pump()
        told = (self.backup.is_syncing, self.backup.is_synced)
        if told != self._told:
            self._told = told
            self.election.backup_is(told[0], told[1], now)
        if self.state.finished > self._finished:
            self._finished = self.state.finished
            self.world.ledger.sighted("SYNC done")
            self.world.ledger.check_whole(self.name, self.state.memory)

    # Links.

    def link_up(self, connection: PeerConnection) -> None:
        self.election.link_changed(self.now())
        self._join()
        self.settle()

    def link_down(self, connection: PeerConnection) -> None:
        if connection is self._root_line:
            self._root_line = None
            self.backup.end()
        for name, line in list(self._lines.items()):
            if line.connection is connection:
                del self._lines[name]
                if self.primary is not None:
                    self.primary.line_lost(name)
        self.election.link_changed(self.now())
        self.settle()

    def message(self, connection: PeerConnection, sender: str, kind: int, octets: bytes) -> None:
        now = self.now()
        self.sights.before(kind)
        self._take(connection, sender, kind, octets, now)
        self.sights.after(kind)
        self.settle()

    def _take(
        self, connection: PeerConnection, sender: str, kind: int, octets: bytes, now: int
    ) -> None:
        if kind == messages.JOIN:
            self._join_came(connection, sender, octets, now)
        elif kind == messages.ACK:
            name = self._known_as(sender)
            line = self._lines.get(name)
            if self.primary is not None and line is not None and line.connection is connection:
                self.primary.acked(name, octets, now)
        elif kind <= messages.ACK:
            if connection is self._root_line:
                self.backup.received(kind, octets, now)
        else:
            try:
                self.election.received(sender, self._store_id(sender), kind, octets, now)
            except Contradiction as contradiction:
                raise Violation(f"I1 or I3: {contradiction}") from contradiction
            except BadPeerMessage:
                self.world.ledger.sighted("control message refused")
                connection.close(self.name)

    def _store_id(self, name: str) -> bytes:
        """Exchanged when a connection is made."""
        return self.world.disks[name].store_id

    def _known_as(self, name: str) -> str:
        """A stranger with a member's name must not acknowledge for that member."""
        if self.election.record.find(name) is None:
            return name
        counts = self.election.is_counted(name, self._store_id(name))
        return name if counts else f"{name} (stranger)"

    def _join_came(self, connection: PeerConnection, sender: str, octets: bytes, now: int) -> None:
        primary = self.primary
        if primary is None:
            # Closing the connection would take the sender's control messages with it, again and
            # again. It joins anew when it hears of a root.
            return
        name = self._known_as(sender)
        line = self._lines.get(name)
        if line is None or line.connection is not connection:
            line = EndLine(connection, self.name, self.sights.ended)
            self._lines[name] = line
        primary.joined(name, octets, line, now)

    def _join(self) -> None:
        """One line carries one JOIN: if this one has had its own, a new one is made."""
        if not self._root_name or self.primary is not None:
            return
        connection = self.world.network.open_to(self.name, self._root_name)
        if connection is None or connection is self._root_line:
            return
        if connection.is_joined:
            connection.close(self.name)
            return
        connection.is_joined = True
        self._root_line = connection
        self.sights.joins(self._root_name, self._root_epoch)
        self.backup.follow(self._root_epoch, EndLine(connection, self.name, self.sights.ended))
        self._hear_stale_answer(connection)

    def _hear_stale_answer(self, connection: PeerConnection) -> None:
        """On a real line nothing of an earlier one arrives; S2 must hold without that."""
        for answer in self.world.network.stale_answers(connection):
            self.world.ledger.sighted("stale answer to a JOIN")
            for kind, octets in answer:
                self.backup.received(kind, octets, self.now())

    # What the election tells its owner.

    def follows(self, root_name: str, epoch: int) -> None:
        if self.backup.is_syncing and self.election.role in ("candidate", "recovering"):
            self.world.ledger.sighted("campaign in the middle of a SYNC")
        if self._root_line is not None:
            self.backup.end()
            self._root_line.close(self.name)
            self._root_line = None
        self._root_name = root_name
        self._root_epoch = epoch
        self.backup.end()
        if root_name:
            self._join()

    def won(self, epoch: int) -> None:
        ledger = self.world.ledger
        self.follows("", 0)
        ledger.became_root(self.name, epoch, self.state)
        position = self.state.begin_root(epoch)
        self._lines = {}
        self.term = Term(epoch, self.state, self.dice, self.world.ledger, self.world.rules)
        self.primary = Primary(
            self.name,
            epoch,
            self.state,
            Guards(self),
            Commits(self),
            position,
            self.now(),
            self.world.rules.ha,
            self.world.limits,
        )

    def stepped_down(self, reason: str) -> None:
        ledger = self.world.ledger
        ledger.sighted("step-down")
        if "lease" in reason:
            ledger.sighted("lease expired")
        if "hand" in reason:
            ledger.sighted("hand-over")
        primary = self.primary
        assert primary is not None, "only a root steps down"
        self.look_at_loss(primary)
        self.primary = None
        self.term = None
        self._lines = {}
        primary.end(f"{STEP_DOWN} {reason}")

    def look_at_loss(self, primary: Primary) -> None:
        """A root is lost."""
        if primary.committed_k < primary.last_k:
            self.world.ledger.sighted("root deposed with unacknowledged operations")
        if self.election.record != self.election.committed_record:
            self.world.ledger.sighted("root lost with a pending record")

    def in_sync_changed(self) -> None:
        """Also: a stranger has become a member, or a member's store was replaced. Then it joins
        again under its right name.
        """
        primary = self.primary
        if primary is None:
            return
        for name, line in list(self._lines.items()):
            sender = line.connection.dialler
            if name != self._known_as(sender):
                del self._lines[name]
                primary.forget(name)
                primary.forget(sender)
        root = self.election.root
        if root is not None:
            syncing = [name for name in self._lines if primary.is_syncing(name)]
            self.sights.record(self.election.record, root.in_sync_set.guarded(), syncing)
        primary.in_sync_set_changed(self.now())

    # What the primary tells its owner.

    def committed(self, position: int, k: int) -> None:
        term = self.term
        primary = self.primary
        assert term is not None
        term.committed(position, k)
        self.world.ledger.committed(term.epoch, k)
        if primary is not None:
            self.election.progress_changed(self.name, self.now())

    def serve(self) -> None:
        """One tick with requests of clients, which is one operation."""
        term = self.term
        if term is None or self.primary is None or not self.election.may_serve(self.now()):
            return
        changes = term.serve()
        if changes:
            self.primary.wrote(*term.written(self.primary, changes))
        elif self.dice.chance(0.3):
            self.state.append(ToyRecord("tick"))
            self.primary.wrote_housekeeping(self.disk.journal.position)
            self.world.ledger.sighted("tick of housekeeping only")
        self.settle()


class SentOver(PeerLines):
    """Control messages go over the connection that the sender dialled."""

    def __init__(self, server: "SimulatedServer") -> None:
        self._server: SimulatedServer = server

    def send(self, name: str, kind: int, octets: bytes) -> None:
        connection = self._server.world.network.open_to(self._server.name, name)
        if connection is not None:
            connection.send(self._server.name, kind, octets)

    def connected(self) -> list[str]:
        network = self._server.world.network
        own = self._server.name
        return [name for name in network.ends if network.open_to(own, name) is not None]


class Owner(ElectionListener):
    """Hears of the election."""

    def __init__(self, server: "SimulatedServer") -> None:
        self._server: SimulatedServer = server

    def won(self, epoch: int, now: int) -> None:
        self._server.won(epoch)

    def became_active(self, now: int) -> None:
        self._server.world.ledger.sighted("active root")

    def stepped_down(self, reason: str, now: int) -> None:
        self._server.stepped_down(reason)

    def follows(self, root_name: str, epoch: int, now: int) -> None:
        self._server.follows(root_name, epoch)

    def in_sync_changed(self, now: int) -> None:
        self._server.in_sync_changed()

    def disk_is_slow(self, now: int) -> bool:
        since = self._server.flushing_since
        is_slow = since >= 0 and now - since > self._server.world.timing.disk_ms
        if is_slow:
            self._server.world.ledger.sighted("disk of a root hangs")
        return is_slow

    def role_changed(self, role: str, reason: str, now: int) -> None:
        self._server.world.note(f"{self._server.name} is {role}: {reason}")

    def promises_failed(self, reason: str, now: int) -> None:
        raise AssertionError(f"the toy disk does not fail: {reason}")


class ToldProgress(BackupProgress):
    """Tells the election how far the backups are."""

    def __init__(self, server: "SimulatedServer") -> None:
        self._server: SimulatedServer = server

    def acked_k(self, name: str) -> int:
        primary = self._server.primary
        assert primary is not None, "only a root asks"
        return primary.acked_k(name)

    def joined_store(self, name: str) -> bytes:
        return self._server.world.disks[name].store_id

    def behind_since(self, name: str) -> int:
        primary = self._server.primary
        assert primary is not None, "only a root asks"
        return primary.behind_since(name)

    def oldest_unacked_made_at(self, name: str) -> int:
        primary = self._server.primary
        assert primary is not None, "only a root asks"
        return primary.oldest_unacked_made_at(name)

    def is_syncing(self, name: str) -> bool:
        primary = self._server.primary
        assert primary is not None, "only a root asks"
        return primary.is_syncing(name)

    def committed_k(self) -> int:
        primary = self._server.primary
        assert primary is not None, "only a root asks"
        return primary.committed_k

    def last_k(self) -> int:
        primary = self._server.primary
        assert primary is not None, "only a root asks"
        return primary.last_k


class Guards(InSyncSet):
    """Tells replication for whom to wait."""

    def __init__(self, server: "SimulatedServer") -> None:
        self._server: SimulatedServer = server

    def awaited(self) -> list[str]:
        return self._server.election.awaited()

    def has_begun(self) -> bool:
        return self._server.election.has_begun()


class Commits(PrimaryListener):
    """Hears what is committed."""

    def __init__(self, server: "SimulatedServer") -> None:
        self._server: SimulatedServer = server

    def committed(self, position: int, k: int, now: int) -> None:
        self._server.committed(position, k)

    def acknowledged(self, name: str, now: int) -> None:
        self._server.election.progress_changed(name, now)
