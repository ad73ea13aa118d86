"""Rare moments in the life of a cluster, seen between two ticks of a server."""

from penstock.cluster.record import ClusterRecord
from penstock.ha.primary import Primary
from penstock.simulation.cluster_host import ClusterHost
from penstock.simulation.history import History

PENDING_RECORD = "an election meets a record that was not committed"
UNACKNOWLEDGED = "a root is deposed with unacknowledged operations"
LEASE = "a lease ends"
SWAP = "the in-sync set swaps a server"
SHRINK = "the in-sync set loses a server"
GROW = "the in-sync set gets a server"
MEMBER_IN = "a server has become a member"
MEMBER_OUT = "a server is not a member any more"
JOIN_AGAIN = "a server joins again in the same epoch"
RELEASED = "a root hands over"
SYNCING = "a SYNC takes several ticks"


class RoleSightings:
    """Of one server. Held by its watcher."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._life = 0
        self._role_changes = 0
        self._primary: Primary | None = None
        self._has_unacknowledged = False
        self._committed: ClusterRecord | None = None
        # The epoch in which it joined last, whether it follows, and whether it is in a SYNC.
        self._joined_epoch = 0
        self._is_following = False
        self._is_syncing = False

    def look(self, host: ClusterHost) -> None:
        member = host.member
        if self._life != host.life:
            self._life = host.life
            self._role_changes = 0
            self._is_following = False
            self._is_syncing = False
            self._committed = None
            self._lost_root()
        if member.role_changes != self._role_changes:
            self._role_changes = member.role_changes
            self._role_changed(host, member.reason)
        self._follow(host)
        primary = member.primary
        if primary is not self._primary:
            self._lost_root()
            self._primary = primary
        if primary is not None:
            self._has_unacknowledged = primary.last_k > primary.committed_k
            self._look_at_record(host.election.committed_record)

    def _role_changed(self, host: ClusterHost, reason: str) -> None:
        self._history.add(f"{host.name} is {host.election.role}: {reason}")
        if "its lease has ended" in reason:
            self._history.sighted(LEASE)
        if reason.startswith("it handed over"):
            self._history.sighted(RELEASED)

    def _lost_root(self) -> None:
        if self._primary is not None and self._has_unacknowledged:
            self._history.sighted(UNACKNOWLEDGED)
        self._primary = None
        self._has_unacknowledged = False

    def _follow(self, host: ClusterHost) -> None:
        backup = host.member.backup
        if backup.is_following and not self._is_following:
            if backup.epoch == self._joined_epoch:
                self._history.sighted(JOIN_AGAIN)
            self._joined_epoch = backup.epoch
        self._is_following = backup.is_following
        if backup.is_syncing and not self._is_syncing:
            self._history.sighted(SYNCING)
        self._is_syncing = backup.is_syncing

    def _look_at_record(self, record: ClusterRecord | None) -> None:
        before = self._committed
        self._committed = record
        if record is None or before is None or before.epoch != record.epoch:
            return
        if len(record.members) != len(before.members):
            is_more = len(record.members) > len(before.members)
            self._history.sighted(MEMBER_IN if is_more else MEMBER_OUT)
        entered = set(record.in_sync) - set(before.in_sync)
        left = set(before.in_sync) - set(record.in_sync)
        if entered and left:
            self._history.sighted(SWAP)
        elif entered:
            self._history.sighted(GROW)
        elif left:
            self._history.sighted(SHRINK)

    def won(self, own: Primary, hosts: list[ClusterHost]) -> None:
        """This server has just become the root: is there a record that the last root proposed and
        did not know to be committed?
        """
        for host in hosts:
            root = host.election.root if host.is_up else None
            if root is not None and host.member.primary is not own and not root.is_settled():
                self._history.sighted(PENDING_RECORD)
