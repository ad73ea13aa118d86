"""A cluster member as each of the rooms that it joins sees it."""

from penstock.cluster.links import PeerLinks
from penstock.cluster.links_listener import LinksListener, PeerLine
from penstock.cluster.surroundings import BackupProgress, ElectionListener, PeerLines
from penstock.ha.connection_observer import RootView
from penstock.ha.ha_broker import KnownStores
from penstock.ha.primary import InSyncSet, Primary, PrimaryListener
from penstock.node.cluster_member import ClusterMember


class MemberElectionListener(ElectionListener):
    """For the election."""

    def __init__(self, member: ClusterMember) -> None:
        self._member: ClusterMember = member

    def won(self, epoch: int, now: int) -> None:
        self._member.won(epoch, now)

    def became_active(self, now: int) -> None:
        self._member.became_active(now)

    def stepped_down(self, reason: str, now: int) -> None:
        self._member.stepped_down(reason, now)

    def follows(self, root_name: str, epoch: int, now: int) -> None:
        self._member.follows(root_name, epoch, now)

    def in_sync_changed(self, now: int) -> None:
        self._member.in_sync_changed(now)

    def disk_is_slow(self, now: int) -> bool:
        duties = self._member.duties
        return duties is not None and duties.disk_is_slow(now)

    def role_changed(self, role: str, reason: str, now: int) -> None:
        self._member.role_changed(role, reason, now)

    def promises_failed(self, reason: str, now: int) -> None:
        self._member.owner.storage_failed(reason)


class MemberProgress(BackupProgress):
    """For the election: how far each backup is. Nothing is known of a server whose disk is another
    one than the one that has joined.
    """

    def __init__(self, member: ClusterMember) -> None:
        self._member: ClusterMember = member

    def _primary_of(self, name: str) -> Primary | None:
        ha = self._member.ha
        return ha.primary if ha is not None and ha.has_joined(name) else None

    def acked_k(self, name: str) -> int:
        primary = self._primary_of(name)
        return -1 if primary is None else primary.acked_k(name)

    def joined_store(self, name: str) -> bytes:
        ha = self._member.ha
        return b"" if ha is None else ha.joined_store(name)

    def behind_since(self, name: str) -> int:
        primary = self._member.primary
        return -1 if primary is None else primary.behind_since(name)

    def oldest_unacked_made_at(self, name: str) -> int:
        primary = self._primary_of(name)
        return -1 if primary is None else primary.oldest_unacked_made_at(name)

    def is_syncing(self, name: str) -> bool:
        primary = self._primary_of(name)
        return primary is not None and primary.is_syncing(name)

    def committed_k(self) -> int:
        primary = self._member.primary
        return -1 if primary is None else primary.committed_k

    def last_k(self) -> int:
        primary = self._member.primary
        return 0 if primary is None else primary.last_k


class MemberLines(PeerLines):
    """For the election: where control messages leave."""

    def __init__(self) -> None:
        self.links: PeerLinks | None = None

    def send(self, name: str, kind: int, octets: bytes) -> None:
        if self.links is not None:
            self.links.send(name, kind, octets)

    def connected(self) -> list[str]:
        return [] if self.links is None else self.links.connected()


class MemberInSyncSet(InSyncSet):
    """For the primary: whom it waits for."""

    def __init__(self, member: ClusterMember) -> None:
        self._member: ClusterMember = member

    def awaited(self) -> list[str]:
        election = self._member.election
        return [] if election is None else election.awaited()

    def has_begun(self) -> bool:
        election = self._member.election
        return election is not None and election.has_begun()


class MemberStores(KnownStores):
    """For replication: which server is a member."""

    def __init__(self, member: ClusterMember) -> None:
        self._member: ClusterMember = member

    def is_member(self, name: str) -> bool:
        election = self._member.election
        return election is not None and election.record.find(name) is not None

    def is_counted(self, name: str, store_id: bytes) -> bool:
        election = self._member.election
        return election is not None and election.is_counted(name, store_id)


class MemberPrimaryListener(PrimaryListener):
    """For the primary: who hears of commits."""

    def __init__(self, member: ClusterMember) -> None:
        self._member: ClusterMember = member

    def committed(self, position: int, k: int, now: int) -> None:
        self._member.committed(position, now)

    def acknowledged(self, name: str, now: int) -> None:
        self._member.acknowledged(name, now)


class MemberLinksListener(LinksListener):
    """For the links."""

    def __init__(self, member: ClusterMember) -> None:
        self._member: ClusterMember = member

    def received(self, name: str, store_id: bytes, kind: int, octets: bytes, now: int) -> None:
        self._member.received(name, store_id, kind, octets, now)

    def link_up(self, name: str, now: int) -> None:
        self._member.link_up(name, now)

    def link_down(self, name: str, now: int) -> None:
        self._member.link_down(name, now)

    def backup_line(self, name: str, line: PeerLine, now: int) -> None:
        self._member.backup_line(name, line)

    def backup_line_lost(self, name: str, now: int) -> None:
        self._member.backup_line_lost(name)


class MemberRootView(RootView):
    """For the connection observer: whether clients are served here."""

    def __init__(self, member: ClusterMember) -> None:
        self._member: ClusterMember = member

    def is_serving(self, now: int) -> bool:
        return self._member.may_serve(now)

    def root_address(self, now: int) -> str:
        return self._member.root_address(now)

    def pause_ms(self) -> int:
        return self._member.settings.timing.pause_ms

    def key_digest(self) -> str:
        return self._member.settings.key_digest
