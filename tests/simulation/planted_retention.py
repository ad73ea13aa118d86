"""Servers of a cluster, each with a defect in the retention of streams that whole runs must find."""

from penstock.broker.streams.opening import streams_of
from penstock.broker.streams.replicated_files import ReplicatedFiles
from penstock.simulation.cluster_host import ClusterHost, ClusterWorld
from penstock.simulation.dice import Dice
from penstock.simulation.durable_host import stored_of
from penstock.simulation.watched_duties import WatchedDuties


def files_of(host: ClusterHost) -> list[ReplicatedFiles]:
    streams = stored_of(host.node).store.streams
    assert streams is not None, "a member has replicated streams"
    return list(streams.files.values())


class RetainingBackupHost(ClusterHost):
    """A backup gives up segments of streams by its own clock and size."""

    def tick_ended(self) -> None:
        if self.member.primary is None:
            for files in files_of(self):
                files.retain(self.clock.wall())
        super().tick_ended()


class GenerousHost(ClusterHost):
    """A root keeps of each stream only what is in its last segment."""

    def tick_ended(self) -> None:
        if self.member.primary is not None:
            for files in files_of(self):
                files.limit(1, files.age_ms_max, files.log.segment_bytes_max)
        super().tick_ended()


class LeapingReadersHost(ClusterHost):
    """When retention gives up a segment, readers leave out one message more."""

    def __init__(self, name: str, world: ClusterWorld, dice: Dice) -> None:
        self._firsts: dict[str, int] = {}
        super().__init__(name, world, dice)

    def tick_ended(self) -> None:
        super().tick_ended()
        for stream in streams_of(self.node.state.queues()):
            first = stream.first_offset
            if first > self._firsts.get(stream.name, first):
                for reader in stream._readers.values():
                    if reader.position <= first:
                        reader.position = first + 1
            self._firsts[stream.name] = first


class RestoringHost(ClusterHost):
    """A new root takes back what retention gave up and what is still in its files."""

    def start(self) -> None:
        super().start()
        self.member.duties = RestoringDuties(self)


class RestoringDuties(WatchedDuties):
    def __init__(self, host: ClusterHost) -> None:
        assert host.member.duties is not None, "attached"
        super().__init__(host.member.duties, host)
        self._host = host

    def begin(self, epoch: int, now: int) -> None:
        for files in files_of(self._host):
            while files._given_up:
                files.log.put_back(files._given_up.pop().segment)
            files.values.first_offset = files.log.first_offset
        super().begin(epoch, now)
