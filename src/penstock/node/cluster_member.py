"""One server as a member of a cluster: joins links, election, stream of operations and store.

The rooms `cluster` and `ha` do not know one another. What one needs of the other passes through here:
who is in the in-sync set, how far each backup is, and over which line operations travel.

Invariants
- while this server is the root of its epoch, the store writes operations; else nothing is decided here;
- one line carries one JOIN: to join again, the line is ended and dialled anew (S2).
"""

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.queues.guarded_queues import GuardedQueues
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.timers import Timer, Timers
from penstock.cluster.election import Election
from penstock.cluster.links import PeerLinks
from penstock.cluster.links_listener import PeerLine
from penstock.cluster.peer_identity import PeerIdentity
from penstock.cluster.standing import NO_LIMIT
from penstock.formats.peer_limits import FIRST_CONTROL_KIND
from penstock.ha.backup import Backup
from penstock.ha.backup_line import BackupLine
from penstock.ha.ha_broker import HaBroker
from penstock.ha.primary import Primary
from penstock.ha.remote_backup import BackupState
from penstock.node.cluster_settings import ClusterSettings
from penstock.node.cluster_status import ClusterStatus, MemberStatus
from penstock.node.in_sync_history import InSyncChange, InSyncHistory
from penstock.node.node_owner import NodeOwner
from penstock.world.clock import Clock
from penstock.world.disk import DiskError

# An election asks for five ticks per heartbeat interval.
TICKS_PER_HEARTBEAT: Final = 5
# The source of the alarm that too few servers have everything.
REPLICATION: Final = "replication"


@mypyc_attr(allow_interpreted_subclasses=True)
class RootDuties(ABC):
    """What changes in the store and for clients with the role of this server."""

    @abstractmethod
    def begin(self, epoch: int, now: int) -> None:
        """This server is the root: the store writes operations from now on."""

    @abstractmethod
    def end(self, now: int) -> None:
        """It is not any more; clients are closed, and all that they left behind is written."""

    @abstractmethod
    def serving_changed(self, now: int) -> None:
        """Whether clients are served here, or who serves them, has changed."""

    @abstractmethod
    def role_changed(self, role: str, reason: str, now: int) -> None:
        """For the log."""

    @abstractmethod
    def in_sync_changed(self, change: InSyncChange) -> None:
        """For the log."""

    @abstractmethod
    def disk_is_slow(self, now: int) -> bool:
        """Whether a flush of the journal takes longer than it may (R15)."""


class MemberTimer(Timer):
    """Calls a member several times per heartbeat interval."""

    def __init__(self, member: "ClusterMember", timers: Timers) -> None:
        super().__init__()
        self._member: ClusterMember = member
        self._timers: Timers = timers

    def fire(self, now: int) -> None:
        self._timers.schedule(self, now + self._member.tick_ms)
        self._member.tick(now)


class LinkBackupLine(BackupLine):
    """A peer link as `ha` sees it."""

    def __init__(self, line: PeerLine) -> None:
        self._line: PeerLine = line

    def send(self, kind: int, pieces: list[bytes]) -> None:
        self._line.send(kind, pieces)

    def unsent_bytes(self) -> int:
        return self._line.unsent_bytes()

    def end(self, reason: str) -> None:
        self._line.end(reason)


class ClusterMember:
    """Held by the node."""

    def __init__(
        self,
        settings: ClusterSettings,
        owner: NodeOwner,
        guarded: GuardedQueues,
        streams: ReplicatedStreams,
        clock: Clock,
    ) -> None:
        """`attach` completes it, because the others know it."""
        self._clock: Clock = clock
        self.settings: ClusterSettings = settings
        self.name: str = settings.name
        self.owner: NodeOwner = owner
        self.guarded: GuardedQueues = guarded
        self.ha: HaBroker | None = None
        self._streams: ReplicatedStreams = streams
        self.election: Election | None = None
        self.links: PeerLinks | None = None
        self.duties: RootDuties | None = None
        # As its peers are told.
        self.identity: PeerIdentity | None = None
        self.tick_ms: int = max(settings.timing.heartbeat_ms // TICKS_PER_HEARTBEAT, 1)
        self.reason: str = "it has started"
        self.since: int = 0
        self.role_changes: int = 0
        # Whom to follow, and in which epoch; the line over which that root was joined.
        self._root_name: str = ""
        self._epoch: int = 0
        self._joined: PeerLine | None = None
        # Our links over which a root was joined, by the names of these.
        self._used: dict[str, PeerLine] = {}
        self._members: dict[str, str] = {}
        self._was_serving: str = ""
        self.history: InSyncHistory = InSyncHistory()
        # Why nothing can be committed; empty if it can.
        self.why_too_few: str = ""

    def attach(
        self,
        ha: HaBroker,
        election: Election,
        links: PeerLinks,
        duties: RootDuties,
        timers: Timers,
        now: int,
    ) -> None:
        self.ha = ha
        self.election = election
        self.links = links
        self.duties = duties
        self.since = now
        self._update_members(now)
        timers.schedule(MemberTimer(self, timers), now)

    @property
    def _ha(self) -> HaBroker:
        assert self.ha is not None, "attached before anything happens"
        return self.ha

    @property
    def primary(self) -> Primary | None:
        return self._ha.primary

    @property
    def backup(self) -> Backup:
        return self._ha.backup

    @property
    def _election(self) -> Election:
        assert self.election is not None, "attached before anything happens"
        return self.election

    @property
    def _links(self) -> PeerLinks:
        assert self.links is not None, "attached before anything happens"
        return self.links

    @property
    def epoch(self) -> int:
        return self._election.epoch

    @property
    def _duties(self) -> RootDuties:
        assert self.duties is not None, "attached before anything happens"
        return self.duties

    # Calls from the node.

    def tick(self, now: int) -> None:
        try:
            self._links.tick(now)
            self._election.tick(now)
            self._update_members(now)
            self._tell_serving(now)
            self._look_for_majority(now)
            self._streams.tick(now)
        except DiskError as error:
            self.owner.storage_failed(str(error))

    def _look_for_majority(self, now: int) -> None:
        """Publishers are told when nothing can be confirmed."""
        root = self._election.root
        why = root.why_too_few(now) if root is not None and root.is_active else ""
        if why != self.why_too_few:
            self.why_too_few = why
            self.owner.set_alarm(REPLICATION, why, now)

    def begin_tick(self, durable: int, now: int) -> None:
        """Before anything is dispatched: what is committed becomes ready, and a root whose lease
        has ended stops.
        """
        if self.primary is not None and now > self._election.lease_until(now):
            self._election.tick(now)
        self.guarded.committed(durable, now)
        self._streams.committed(self._committed_position(durable))

    def sends_until(self) -> int:
        """Until when what a tick has prepared may leave (R14, R16)."""
        return self._election.sends_until(self._clock.now())

    def is_later_than(self, until: int) -> bool:
        """Asked directly before each write: the process may have stood still since the tick began,
        and another server may be the root by now.
        """
        return until != NO_LIMIT and self._clock.now() > until

    def is_committing(self) -> bool:
        """Whether this server is the root, and an operation of it is not committed yet."""
        primary = self.primary
        return primary is not None and primary.committed_k < primary.last_k

    def has_ready(self, durable: int) -> bool:
        if self.guarded.has_ready(durable):
            return True
        return self._streams.is_waiting() and self._streams.has_pending(
            self._committed_position(durable)
        )

    def _committed_position(self, durable: int) -> int:
        """Of the own journal: on the root what is committed, on a backup what is known to be."""
        if self.primary is not None:
            return durable
        election = self._election
        return self._ha.committed_position(election.epoch, election.root_committed_k)

    def end_of_tick(self, position: int, now: int) -> None:
        """The tick is written, and nothing of it has been sent yet."""
        self.guarded.end_of_tick(position)
        self._ha.end_of_tick(now)

    def journal_durable(self, position: int, now: int) -> None:
        """The own journal is durable up to here."""
        ha = self._ha
        if ha.primary is None:
            self.owner.committed(position)
        ha.journal_durable(position, now)
        if ha.primary is None:
            self._backup_changed(now)

    def stop(self, now: int) -> None:
        self._links.stop(now)

    def may_serve(self, now: int) -> bool:
        return self._election.may_serve(now)

    def is_in_sync(self) -> bool:
        """Whether this server has everything that was confirmed, as the record says."""
        return self.name in self._election.record.in_sync

    @property
    def cluster_id(self) -> str:
        return self._election.record.cluster_id.hex()

    @property
    def member_names(self) -> list[str]:
        return [member.name for member in self._election.record.members]

    def root_address(self, now: int) -> str:
        """Of the active root, if that is another server; else empty."""
        election = self._election
        if election.root_name in {"", self.name} or not election.knows_active_root(now):
            return ""
        member = election.record.find(election.root_name)
        return "" if member is None else member.address

    # Links.

    def received(self, name: str, store_id: bytes, kind: int, octets: bytes, now: int) -> None:
        """Raises `BadPeerMessage`. A failure of the disk is the node's, not the link's."""
        try:
            self._receive(name, store_id, kind, octets, now)
        except DiskError as error:
            self.owner.storage_failed(str(error))

    def _receive(self, name: str, store_id: bytes, kind: int, octets: bytes, now: int) -> None:
        if kind >= FIRST_CONTROL_KIND:
            self._election.received(name, store_id, kind, octets, now)
            self._update_members(now)
        elif self._ha.is_from_backup(kind):
            self._ha.from_backup(name, store_id, kind, octets, now)
        elif name == self._root_name and self._joined is not None:
            self._ha.from_primary(kind, octets, now)
            self._backup_changed(now)

    def link_up(self, name: str, now: int) -> None:
        self._election.link_changed(now)
        if name == self._root_name:
            self._follow(now)

    def link_down(self, name: str, now: int) -> None:
        self._used.pop(name, None)
        if name == self._root_name and self._joined is not None:
            self._joined = None
            self._ha.leave()
            self._backup_changed(now)
        self._election.link_changed(now)

    def backup_line(self, name: str, line: PeerLine) -> None:
        self._ha.line_up(name, LinkBackupLine(line))

    def backup_line_lost(self, name: str) -> None:
        self._ha.line_lost(name)

    # The election.

    def won(self, epoch: int, now: int) -> None:
        self._leave_root()
        self._duties.begin(epoch, now)

    def stepped_down(self, reason: str, now: int) -> None:
        if self.primary is None:
            return
        self.owner.close_clients(f"this server is not the root any more: {reason}", now)
        # What they left is still an operation: the state is always that of a whole number of them.
        self.owner.store_tick(now)
        self._ha.demote()
        self.guarded.release_all()
        self._duties.end(now)
        self._tell_serving(now)

    def follows(self, root_name: str, epoch: int, now: int) -> None:
        if (root_name, epoch) == (self._root_name, self._epoch):
            return
        self._leave_root()
        self._root_name = root_name
        self._epoch = epoch
        if root_name:
            self._follow(now)
        self._tell_serving(now)

    def _follow(self, now: int) -> None:
        line = self._links.line_to(self._root_name)
        if line is None or self.primary is not None:
            return
        if self._used.get(self._root_name) is line:
            # It is dialled again, and then used. Not earlier: votes for the next root go by it.
            line.end("the root is joined again, over a new link")
            return
        self._used[self._root_name] = line
        self._joined = line
        self._ha.follow(self._epoch, LinkBackupLine(line))
        self._backup_changed(now)

    def _leave_root(self) -> None:
        """What still comes from it is not listened to any more."""
        self._joined = None
        self._root_name = ""
        self._ha.leave()

    def _backup_changed(self, now: int) -> None:
        self._election.backup_is(self.backup.is_syncing, self.backup.is_synced, now)

    def became_active(self, now: int) -> None:
        self._tell_serving(now)

    def in_sync_changed(self, now: int) -> None:
        self._update_members(now)
        self._ha.in_sync_set_changed(now)
        root = self._election.root
        record = self._election.record if root is None else root.committed
        if record is not None:
            reason = self._election.record_reason if root is None else root.committed_reason
            change = self.history.note(record, reason, now)
            if change is not None:
                self._duties.in_sync_changed(change)

    def role_changed(self, role: str, reason: str, now: int) -> None:
        self.reason = reason
        self.since = now
        self.role_changes += 1
        self._duties.role_changed(role, reason, now)

    # The stream of operations.

    def committed(self, position: int, now: int) -> None:
        self.owner.committed(position)
        self._election.progress_changed("", now)

    def acknowledged(self, name: str, now: int) -> None:
        self._election.progress_changed(name, now)

    def replace_member(self, name: str, now: int) -> str:
        """An operator says that a member has another store. Why not; empty if it was accepted."""
        reason = self._election.replace_member(name, now)
        # At once: the new store must not count with what the old one has acknowledged.
        self._update_members(now)
        return reason

    def _update_members(self, now: int) -> None:
        """Links lead to whoever the record names now."""
        addresses = {member.name: member.address for member in self._election.peers()}
        if self.identity is not None:
            # It changes when an operator forces a root.
            self.identity.cluster_id = self._election.record.cluster_id.hex()
        own = self._election.record.find(self.name)
        addresses[self.name] = "" if own is None else own.address
        if addresses != self._members:
            self._members = addresses
            self._links.set_members(addresses, now)
        self._ha.members_changed()

    def _tell_serving(self, now: int) -> None:
        serving = self.name if self.may_serve(now) else self.root_address(now)
        if serving != self._was_serving:
            self._was_serving = serving
            self._duties.serving_changed(now)

    # Operators.

    def role(self) -> str:
        return self._election.role

    def status(self, now: int) -> ClusterStatus:
        election = self._election
        record = election.record
        root = election.heard_root(now)
        found = record.find(root) if root else None
        connected = self._links.connected()
        members = [
            self._member_status(member.name, member.address, member.may_be_root, root, connected)
            for member in record.members
        ]
        primary = self.primary
        lease = election.lease_until(now) - now if primary is not None else 0
        return ClusterStatus(
            self.name,
            record.cluster_id.hex(),
            election.epoch,
            election.role,
            root,
            "" if found is None else found.address,
            tuple(members),
            election.root_committed_k if primary is None else primary.committed_k,
            max(lease, 0),
            election.expected_root(now),
            election.votes(now),
            self.reason,
            self.since,
            self.backup.fetched_bytes,
        )

    def _member_status(
        self, name: str, address: str, may_be_root: bool, root: str, connected: list[str]
    ) -> MemberStatus:
        election = self._election
        in_sync = name in election.record.in_sync
        is_connected = name == self.name or name in connected
        role, lag, octets = "unknown", -1, -1
        if name == self.name:
            role = election.role
        elif name == root:
            role = "active" if election.root_is_active else "recovering"
        elif not is_connected:
            role = "disconnected"
        primary = self.primary
        if primary is not None:
            acked = primary.acked_k(name)
            lag = primary.last_k - max(acked, 0)
            octets = primary.lag_bytes(name)
            if name != self.name and is_connected:
                state = primary.state_of(name)
                if state is BackupState.READY and not in_sync:
                    # The record that says so is on its way.
                    state = BackupState.CATCHUP
                role = state.value
        return MemberStatus(name, address, role, in_sync, lag, octets, is_connected, may_be_root)
