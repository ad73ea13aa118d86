"""The storage of a node with a data directory: journal, message store, reclaiming."""

from mypy_extensions import mypyc_attr

from penstock.broker.leases.leases import resume_leases
from penstock.broker.message import MessageDecoder
from penstock.broker.sinks.sinks import resume_sinks
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.store.limits import StoreLimits
from penstock.broker.store.message_store import MessageStore, StoredDefinitions, StoredLists
from penstock.broker.store.reclaim import Reclaimer, UnsettledSource
from penstock.broker.store.recovery import StoreRecovery
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.opening import durable_ends, open_streams
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.topology import NumberFrom
from penstock.dialects.container import Durability
from penstock.ha.replica_recovery import ReplicaRecovery
from penstock.ha.replica_store import ReplicaStore
from penstock.storage.journal import Journal, JournalListener
from penstock.storage.recovery import RecoveredJournal, TornTail, recover
from penstock.storage.safe_point import JOURNAL, SEGMENT, SafePoint
from penstock.world.disk import Disk, DiskFull
from penstock.world.entropy import Entropy

STORE_ID_OCTETS = 16


@mypyc_attr(allow_interpreted_subclasses=True)
class StorageOwner(UnsettledSource):
    """The receiver of storage events: the node."""

    def journal_became_durable(self, position: int, now: int) -> None:
        raise NotImplementedError

    def storage_failed(self, reason: str) -> None:
        raise NotImplementedError


class StoredState:
    """Held by the node. Its constructor recovers everything."""

    def __init__(
        self,
        owner: StorageOwner,
        disk: Disk,
        state: BrokerState,
        decoder: MessageDecoder,
        entropy: Entropy,
        now: int,
        limits: StoreLimits,
        streams: ReplicatedStreams | None = None,
    ) -> None:
        """A member of a cluster has replicated streams. It starts as a backup (`replica`), and does
        not begin with defaults of its own: they are an operation of the first root.
        """
        replica_recovery = None if streams is None else ReplicaRecovery()
        recovery = StoreRecovery() if replica_recovery is None else replica_recovery
        new_id = limits.store_id or entropy.octets(STORE_ID_OCTETS)
        recovered: RecoveredJournal = recover(disk, new_id, recovery)
        # What was cut off at the end, for the log.
        self.torn_tail: TornTail | None = recovered.torn_tail
        self.store_id: bytes = recovered.store_id
        assert recovered.safe_point is not None, "read with the journal"
        self._safe_point: SafePoint = recovered.safe_point
        self._state: BrokerState = state
        self.journal: Journal = Journal(
            disk, OwnedJournal(owner, state.streams), recovered, limits.segment_bytes_max
        )
        self.journal.now = now
        self.store: MessageStore = MessageStore(
            state, disk, self.journal, decoder, limits.paging, limits.spool_bytes_max
        )
        self.reclaimer: Reclaimer = Reclaimer(
            self.store,
            owner,
            limits.reclaim_step_bytes,
            limits.reclaim_patience_ms,
            limits.reclaim_busy_ms,
        )
        self._reclaims: bool = True
        state.shared.ready_lists = StoredLists(self.store)
        self._streams: StreamStore = state.streams
        self._streams.disk = disk
        self._streams.decoder = decoder
        self._streams.is_flushed = True
        state.decides = False
        self._streams.durable_ends = self._safe_point.ends()
        self.recovered_count: int = 0
        # Of a member of a cluster.
        self.replica: ReplicaStore | None = None
        # Whether the safe point still lists streams: the disk had no room for another one.
        self._tells_of_streams: bool = False
        if replica_recovery is not None and streams is not None:
            self.replica = ReplicaStore(
                state, self.store, self.reclaimer, owner, replica_recovery, streams, now
            )
            self._tells_of_streams = bool(self._safe_point.ends())
            self.recovered_count = self.replica.message_count()
            self.journal.request_flush()
            return
        self._restore(recovery, now)

    def _restore(self, recovery: StoreRecovery, now: int) -> None:
        """Everything that a server on its own had, or what a new one begins with."""
        state = self._state
        if recovery.found_anything:
            self.recovered_count = recovery.restore(state, self.store, now)
        open_streams(self._streams, state.queues(), now)
        state.decides = True
        try:
            self._forget_stream_ends()
        except DiskFull:
            self._tells_of_streams = True
        state.log_definitions(StoredDefinitions(self.store, False))
        if state.epoch:
            # Positions that were given before and are not in the journal must not be given again.
            state.apply(NumberFrom(state.epoch + 1), now)
        if recovery.found_anything:
            self._resume(recovery, now)
        else:
            put_defaults(state, now)

    def _resume(self, recovery: StoreRecovery, now: int) -> None:
        recovery.resume(now)
        for vhost in self._state.vhosts.values():
            resume_leases(vhost, now)
            resume_sinks(vhost, now)
        # What a killed process left in the page cache is not durable yet. This flush covers the
        # streams too, so a start appends nothing to the journal, for which a full disk may have no
        # room. But what streams have lost and take from the journal again is written by the first
        # tick, and must not count as durable before that is: then the tick's flush covers them.
        if not self.store.has_pending():
            self._flush_streams()
        self.journal.request_flush()

    def begin(self, durability: Durability) -> None:
        """What was recovered counts as written, and as durable as far as the disk is known to have
        it.
        """
        durability.written = self.journal.position
        durability.durable = self.journal.durable_position
        durability.definitions = durability.written

    def has_work(self) -> bool:
        return self.store.has_pending() or self._reclaims or self._streams.is_dirty()

    def end_of_tick(self, now: int) -> None:
        """Write what the tick brought and ask for a flush. Raises DiskError."""
        self.journal.now = now
        if not self._safe_point.numbers and self.journal.durable_position:
            self._note_new_store()
        if self._tells_of_streams and (self.store.has_pending() or self._streams.is_dirty()):
            self._forget_stream_ends()
            self._tells_of_streams = False
        self._reclaims = self.reclaimer.step(now)
        wrote = self.store.end_of_tick()
        if self._streams.is_dirty():
            if not wrote:
                # Waiting for streams is waiting for a position of the journal.
                self.store.append_tick()
            self._flush_streams()
            wrote = True
        if wrote:
            self.journal.request_flush()

    def _flush_streams(self) -> None:
        """Flush streams with the journal's next flush, which must be the first with its
        position.
        """
        for file in self._streams.take_dirty(self.journal.position):
            self.journal.flush_too(file)

    def _note_new_store(self) -> None:
        """Record that a journal exists, so that a missing one is an error at the next start. This
        may be late: until then nothing is lost.
        """
        try:
            self._safe_point.note(self._safe_numbers())
        except DiskFull:
            return

    def note_clean_stop(self) -> None:
        """Record the end of every file, so that missing data is detected at the next start. Called
        last. Raises DiskError.
        """
        numbers = self._safe_numbers()
        numbers.update(durable_ends(self._state.queues()))
        self._safe_point.note(numbers)

    def is_stop_noted(self) -> bool:
        """Whether the note is durable, or cannot be."""
        return self._safe_point.is_safe or bool(self._safe_point.failure)

    def _forget_stream_ends(self) -> None:
        """Streams may be deleted from now on. This flush precedes any that a deletion waits for."""
        if self._safe_point.ends():
            position, segment = self._safe_point.position(), self._safe_point.segment()
            self._safe_point.note({JOURNAL: position, SEGMENT: segment})

    def _safe_numbers(self) -> dict[str, int]:
        # Only what a flush has covered: a note may outlive a power loss that takes the rest.
        return {JOURNAL: self.journal.durable_position, SEGMENT: self.journal.active_segment()}


class OwnedJournal(JournalListener):
    """Passes the events of the journal to the node."""

    def __init__(self, owner: StorageOwner, streams: StreamStore) -> None:
        self._owner: StorageOwner = owner
        self._streams: StreamStore = streams

    def durable(self, position: int, now: int) -> None:
        self._streams.became_durable(position, now)
        self._owner.journal_became_durable(position, now)

    def failed(self, reason: str, now: int) -> None:
        self._owner.storage_failed(reason)
