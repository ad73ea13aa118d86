"""Members of a cluster that are nothing but state and store, on disks in memory. The test plays the
links between them.
"""

from array import array

from penstock.broker.arguments import CLASSIC, QUORUM, STREAM
from penstock.broker.entry import QueueEntry
from penstock.broker.queues.guarded_queue import GuardedQueueMaker
from penstock.broker.queues.guarded_queues import GuardedQueues
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.replication_level import ReplicationLevel, ReplicationTest
from penstock.broker.state import BrokerState
from penstock.broker.store.limits import StoreLimits
from penstock.broker.store.message_store import MessageStore
from penstock.broker.store.operation_log import OperationLog
from penstock.broker.store.reclaim import Reclaimer, UnsettledSource
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.opening import StreamMaker
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.topology import DeclareQueue, VhostCommand
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp091.dialect import Dialect091
from penstock.dialects.container import Container
from penstock.dialects.decoding import DialectDecoder
from penstock.dialects.login_checker import LoginChecker
from penstock.ha.replica_recovery import ReplicaRecovery
from penstock.ha.replica_store import ReplicaStore
from penstock.ha.sync_staging import WantedIds
from penstock.storage.journal import Journal, JournalListener
from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.recovery import recover
from penstock.storage.segment import segment_of
from penstock.wire.amqp091.limits import Limits
from tests.broker.doubles import CountingEntropy
from tests.broker.store.doubles import SMALL, WALL, copied, message

STORE_ID = b"0123456789abcdef"


class KeptOperations(OperationLog):
    """The stream of one root."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.operations: list[bytes] = []

    def next_number(self) -> tuple[int, int]:
        return self.epoch, len(self.operations) + 1

    def wrote(self, pieces: list[bytes], size: int, position: int) -> None:
        joined = b"".join(pieces)
        assert len(joined) == size
        self.operations.append(joined)

    def wrote_housekeeping(self, position: int) -> None:
        """Nothing to send."""


class Wanted(WantedIds):
    def __init__(self, ids: set[tuple[int, int]]) -> None:
        self.ids = ids

    def wants(self, number: int, position: int) -> bool:
        return (number, position) in self.ids

    def wants_all(self, number: int, first: int, count: int) -> bool:
        return all(self.wants(number, position) for position in range(first, first + count))


class StreamsAlone(JournalListener):
    """A journal's owner that asks how far it is durable when that matters; only streams are told."""

    def __init__(self, streams: StreamStore) -> None:
        self._streams = streams

    def durable(self, position: int, now: int) -> None:
        self._streams.became_durable(position, now)

    def failed(self, reason: str, now: int) -> None:
        raise AssertionError(reason)


class Member(UnsettledSource):
    """A member, which starts as a backup."""

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        limits: StoreLimits = SMALL,
        now: int = 1000,
        wall: int = 0,
    ) -> None:
        # Its flushes are answered when the test says so.
        self.disk = MemoryDisk(at_once=False) if disk is None else disk
        self.limits = limits
        self.now = now
        self.out: list[tuple[MessageQueue, QueueEntry]] = []
        entropy = CountingEntropy()
        self.state = BrokerState(entropy)
        self.state.shared.replication = ReplicationTest(ReplicationLevel.ALL, True)
        # Everything but leases and stages is guarded, as on any member.
        self.guarded = GuardedQueues()
        self.commits = True
        for kind in (CLASSIC, QUORUM):
            self.state.shared.kinds.add(kind, GuardedQueueMaker(self.guarded.arrivals))
        self.streams = ReplicatedStreams(self.state.streams)
        self.state.shared.kinds.add(
            STREAM, StreamMaker(self.state.streams, self.state.wall, self.streams)
        )
        self.state.set_wall_offset((wall or WALL + now) - now)
        container = Container(self.state, entropy, LoginChecker())
        decoder = DialectDecoder(Dialect091(container, Limits(), {}))
        self.state.streams.decoder = decoder
        self.state.streams.disk = self.disk
        self.state.streams.is_flushed = True
        recovery = ReplicaRecovery()
        recovered = recover(self.disk, STORE_ID, recovery)
        self.journal = Journal(
            self.disk, StreamsAlone(self.state.streams), recovered, limits.segment_bytes_max
        )
        self.store = MessageStore(
            self.state, self.disk, self.journal, decoder, limits.paging, limits.spool_bytes_max
        )
        self.reclaimer = Reclaimer(
            self.store,
            self,
            limits.reclaim_step_bytes,
            limits.reclaim_patience_ms,
            limits.reclaim_busy_ms,
        )
        self.replica = ReplicaStore(
            self.state, self.store, self.reclaimer, self, recovery, self.streams, now
        )
        self.stream = KeptOperations(0)
        self.journal.request_flush()
        self.flushed()

    def unsettled(self) -> list[tuple[MessageQueue, QueueEntry]]:
        return self.out

    # What the test does.

    def flushed(self) -> None:
        """The disk has everything."""
        for _ in range(4):
            self.disk.answer_flushes(self.now)

    def commit_streams(self, k: int | None = None) -> None:
        """The files of streams get what is committed: everything that is durable here, or on a backup
        what the root says, up to an operation.
        """
        position = self.journal.durable_position
        if not self.replica.is_root:
            epoch, last = self.replica.syn()
            position = self.replica.committed_position(epoch, last if k is None else k)
        while self.streams.has_pending(position):
            self.streams.committed(position)

    def flush_streams(self) -> None:
        """Their files are durable."""
        store = self.state.streams
        store.is_due = True
        if store.is_dirty():
            self._flush_streams()
            self.flushed()

    def _flush_streams(self) -> None:
        self.store.append_tick()
        for file in self.state.streams.take_dirty(self.journal.position):
            self.journal.flush_too(file)
        self.journal.request_flush()

    @property
    def vhost(self) -> VirtualHost:
        return self.state.vhost("/")

    def promote(self, epoch: int) -> None:
        self.replica.promote(epoch, self.now)
        self.stream = KeptOperations(epoch)
        self.store.operations = self.stream

    def demote(self) -> None:
        for queue, entry in self.out:
            queue.requeue([entry], self.now, failed=False)
        self.out.clear()
        self.tick()
        self.guarded.release_all()
        self.replica.demote(self.now)

    def apply(self, command: VhostCommand) -> None:
        self.vhost.apply(command, self.now)

    def declare(self, name: str, durable: bool = True, **arguments: object) -> None:
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.apply(DeclareQueue(name, durable=durable, arguments=named))

    def put(self, name: str, *bodies: bytes, priority: int | None = None) -> None:
        for body in bodies:
            sent = message(body, priority=priority)
            assert self.vhost.queue(name).enqueue(sent, self.now)

    def commit(self) -> None:
        """What was written is committed; what follows from that is part of this tick."""
        if self.commits:
            self.guarded.committed(self.journal.position, self.now)

    def get(self, name: str) -> QueueEntry:
        self.commit()
        queue = self.vhost.queue(name)
        entry = queue.get(self.now)
        assert entry is not None
        self.out.append((queue, entry))
        return entry

    def acknowledge(self, entry: QueueEntry) -> None:
        for index, (queue, known) in enumerate(self.out):
            if known is entry:
                del self.out[index]
                queue.acknowledge(entry)
                return
        raise AssertionError("it is not out")

    def take(self, name: str, count: int = 1) -> list[bytes]:
        entries = [self.get(name) for _ in range(count)]
        for entry in entries:
            self.acknowledge(entry)
        return [entry.message.body for entry in entries]

    def drain(self, name: str) -> list[bytes]:
        return self.take(name, self.vhost.queue(name).message_count)

    def tick(self, milliseconds: int = 1) -> bool:
        """True when there is more to do."""
        self.now += milliseconds
        self.commit()
        self.state.timers.fire_due(self.now)
        self.state.touched.clear()
        more = self.reclaimer.step(self.now)
        wrote = self.store.end_of_tick()
        if self.state.streams.is_dirty():
            self._flush_streams()
        elif wrote:
            self.journal.request_flush()
        self.guarded.end_of_tick(self.journal.position)
        return more

    def rest(self) -> None:
        for _ in range(2000):
            first, second = self.tick(), self.tick()
            self.flushed()
            if not (first or second or self.store.has_pending()):
                return
        raise AssertionError("it never comes to rest")

    def follow(self, root: "Member", end: int | None = None) -> None:
        """Apply what the root has written since, up to an operation."""
        epoch, k = self.replica.syn()
        assert epoch == root.stream.epoch
        for operation in root.stream.operations[k:end]:
            self.replica.apply(operation, self.now)

    def restarted(self) -> "Member":
        """What a member finds when this one is killed now."""
        twin = MemoryDisk(at_once=False)
        twin.files = copied(self.disk).files
        return Member(twin, self.limits, 500, self.now + self.state.wall.offset_ms)

    def torn(self, octets: int) -> "Member":
        """What it finds after a power loss that takes so much of what was not flushed."""
        segments = [name for name in self.disk.files if name.startswith("journal/")]
        octets = min(octets, max(self.journal.position - self.journal.durable_position, 0))
        if segments and octets:
            content = self.disk.files[max(segments)].content
            del content[max(len(content) - octets, 0) :]
        return self.restarted()

    def digest(self) -> str:
        return self.replica.held_messages().digest()


def joined(member: Member, root: Member) -> None:
    """A whole SYNC between two ticks of the root."""
    sync(member, root)
    finish(member, root)


def sync(member: Member, root: Member, records_max: int = 1_000_000) -> bool:
    """Stage what the member lacks, at most so many records; True when nothing is missing."""
    missing = wanted_of(root) - held_of(member)
    root.replica.begin_reading()
    for number in sorted({number for number, _ in missing}):
        ids = sorted(position for known, position in missing if known == number)
        for position in ids:
            if records_max == 0:
                return False
            if (number, position) not in held_of(member):
                octets, rest = root.replica.read(number, [(position, 1)], 1)
                assert octets
                assert rest == 0
                member.replica.staging.stage_records(octets, Wanted(missing))
                records_max -= 1
    return True


def finish(member: Member, root: Member) -> None:
    epoch, k = root.replica.syn()
    target = sorted(root.replica.ids().items())
    member.replica.finish(epoch, k, target, root.replica.values(), [], member.now)


def wanted_of(root: Member) -> set[tuple[int, int]]:
    return spread(root.replica.ids())


def held_of(member: Member) -> set[tuple[int, int]]:
    return spread(member.replica.ids()) | spread(member.replica.staged_ids())


def spread(ids: dict[int, list[tuple[int, int]]]) -> set[tuple[int, int]]:
    return {
        (number, position)
        for number, ranges in ids.items()
        for first, count in ranges
        for position in range(first, first + count)
    }


def audit(member: Member) -> None:
    """The store's books agree with what the queues and the staged area hold."""
    pairs: dict[int, int] = {}
    held = member.replica.held_messages().everything()
    lists = [places[1] for places in held.values()]
    lists.extend(ready.journalled()[1] for ready in member.store.staged.values())
    blocks = [block for files in member.streams.files.values() for block in files.unreleased()]
    blocks.extend(block for staged in member.streams.staged.values() for block in staged)
    lists.append(array("Q", [block.location for block in blocks]))
    for locations in lists:
        for location in locations:
            pairs[segment_of(location)] = pairs.get(segment_of(location), 0) + 1
    for segment in member.journal.segments():
        known = member.store.lives.of(segment).live_count
        assert known == pairs.pop(segment, 0), f"segment {segment}"
    assert not pairs, "something lives in a segment that is gone"


def pair() -> tuple[Member, Member]:
    """A root with a queue, and a backup that follows it."""
    root = Member()
    root.promote(1)
    root.declare("q")
    root.tick()
    backup = Member()
    joined(backup, root)
    return root, backup


def ticked(root: Member, backup: Member) -> None:
    """The root's tick reaches the backup, and leaves both the same."""
    root.tick()
    root.flushed()
    backup.follow(root)
    assert backup.digest() == root.digest()
    audit(backup)
