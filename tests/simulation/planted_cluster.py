"""Servers of a cluster, each with a defect that whole runs must find."""

from penstock.broker.queues.paged_list import PagedReadyList
from penstock.broker.queues.queue import Queue
from penstock.formats.replication_id import first_id
from penstock.ha.primary import InSyncSet
from penstock.node.cluster_member import ClusterMember
from penstock.node.joining import ClusterPlan
from penstock.simulation.cluster_host import ClusterHost
from penstock.simulation.dialler import HostDialler
from penstock.simulation.durable_host import stored_of
from penstock.simulation.endpoint import Endpoint
from penstock.simulation.host import HostClock
from penstock.simulation.watched_duties import WatchedDuties
from penstock.world.network import Transport
from tests.simulation.planted import FlagForgettingTransport


class ForgettingFlagHost(ClusterHost):
    """Never says that a message was delivered before."""

    def transport(self, endpoint: Endpoint) -> Transport:
        return FlagForgettingTransport(endpoint)


class HastyGuardHost(ClusterHost):
    """Delivers what is written, before it is committed."""

    def tick_ended(self) -> None:
        super().tick_ended()
        if self.member.primary is not None:
            self.member.guarded.committed(self.node.durability.written, self.now())


class ConnectedBackups(InSyncSet):
    """Waits for whoever is connected just now."""

    def __init__(self, member: ClusterMember) -> None:
        self._member = member

    def awaited(self) -> list[str]:
        election, links = self._member.election, self._member.links
        assert election is not None and links is not None, "attached"
        connected = [self._member.name, *links.connected()]
        return [name for name in election.awaited() if name in connected]

    def has_begun(self) -> bool:
        election = self._member.election
        return election is not None and election.has_begun()


class CancellingGuardHost(ClusterHost):
    """A guard is cancelled when its backup disconnects."""

    def tick_ended(self) -> None:
        primary = self.member.primary
        if primary is not None and not isinstance(primary._in_sync_set, ConnectedBackups):
            primary._in_sync_set = ConnectedBackups(self.member)
        super().tick_ended()


class EpochlessHost(ClusterHost):
    """Positions go on where those of the last root ended."""

    _numbered = 0

    def tick_ended(self) -> None:
        super().tick_ended()
        primary = self.member.primary
        if primary is not None and primary.epoch > max(self._numbered, 1):
            self._numbered = primary.epoch
            for queue in self.node.state.queues():
                assert isinstance(queue, Queue), "streams are refused"
                queue._next_position -= first_id(primary.epoch) - first_id(primary.epoch - 1)


class ForgetfulBackupHost(ClusterHost):
    """A backup forgets an exchange that was declared."""

    def tick_ended(self) -> None:
        if self.member.primary is None and self.node.state.vhosts:
            exchanges = self.node.state.vhost("/").exchanges
            for name in [name for name in exchanges if name.endswith(".e0")]:
                del exchanges[name]
        super().tick_ended()


class AlarmedHost(ClusterHost):
    """An alarm ends only with the process."""

    def set_alarm(self, reason: str) -> None:
        if reason:
            super().set_alarm(reason)


class TimedBackupHost(ClusterHost):
    """A backup decides by itself, as if it were the root: what expires, what is too much."""

    def tick_ended(self) -> None:
        if self.member.primary is None:
            self.node.state.decides = True
        super().tick_ended()


class ShortStreamHost(ClusterHost):
    """A start cuts streams too short: what the files lack is not taken from the journal."""

    def start(self) -> None:
        super().start()
        store = stored_of(self.node).store
        assert store.streams is not None, "a member has replicated streams"
        for files in store.streams.files.values():
            for block in files.pending():
                files._pending.remove(block)
                store.streams.keeper.released(block.location, block.size)


class HastyFilesHost(ClusterHost):
    """The files of streams get what is written, before it is committed."""

    def tick_ended(self) -> None:
        super().tick_ended()
        if self.member.primary is not None:
            streams = stored_of(self.node).store.streams
            assert streams is not None, "a member has replicated streams"
            streams.committed(self.node.durability.written)


class TickClock(HostClock):
    """Does not notice that the process stood still since the tick began."""

    def __init__(self, host: ClusterHost) -> None:
        super().__init__(host)
        self._of = host

    def now(self) -> int:
        return self._of.tick_began


class SleepwalkingHost(ClusterHost):
    """Looks at its lease when a tick begins, and not when it writes."""

    def cluster_plan(self) -> ClusterPlan | None:
        settings = self.world.settings(self.name)
        return ClusterPlan(settings, HostDialler(self, self.world.network), TickClock(self))


class ForgettingDuties(WatchedDuties):
    """Those of a new root that forgets how often messages came back, if it has to drop others at once."""

    def __init__(self, host: ClusterHost) -> None:
        assert host.member.duties is not None, "attached"
        super().__init__(host.member.duties, host)
        self._node = host.node

    def begin(self, epoch: int, now: int) -> None:
        before = self._held_count()
        super().begin(epoch, now)
        if self._held_count() < before:
            for queue in self._node.state.queues():
                ready = queue.journal_list()
                if isinstance(ready, PagedReadyList):
                    ready.restore_counts([(position, 0) for position in ready.journalled()[0]])

    def _held_count(self) -> int:
        replica = stored_of(self._node).replica
        assert replica is not None, "a member has a replica"
        held = replica.held_messages().everything()
        return sum([len(positions) for positions, _ in held.values()])


class ForgetfulHeirHost(ClusterHost):
    def start(self) -> None:
        super().start()
        self.member.duties = ForgettingDuties(self)
