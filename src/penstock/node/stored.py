"""What a node with a data directory has beside its state: journal, message store, reclaiming."""

from mypy_extensions import mypyc_attr

from penstock.broker.leases import resume_leases
from penstock.broker.message import MessageDecoder
from penstock.broker.sinks import resume_sinks
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.store.limits import StoreLimits
from penstock.broker.store.message_store import MessageStore, StoredDefinitions, StoredLists
from penstock.broker.store.reclaim import Reclaimer, UnsettledSource
from penstock.broker.store.records import TICK_RECORD
from penstock.broker.store.recovery import StoreRecovery
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.opening import open_streams
from penstock.broker.vhost_view import VirtualHostView
from penstock.storage.journal import Journal, JournalListener
from penstock.storage.recovery import RecoveredJournal, TornTail, recover
from penstock.world.disk import Disk
from penstock.world.entropy import Entropy

STORE_ID_OCTETS = 16


@mypyc_attr(allow_interpreted_subclasses=True)
class StorageOwner(UnsettledSource):
    """Who hears what the disk says: the node."""

    def journal_is_safe(self, position: int) -> None:
        raise NotImplementedError

    def storage_failed(self, reason: str) -> None:
        raise NotImplementedError


class StoredState:
    """Held by the node. Recovers everything when it is made."""

    def __init__(
        self,
        owner: StorageOwner,
        disk: Disk,
        state: BrokerState,
        decoder: MessageDecoder,
        entropy: Entropy,
        now: int,
        limits: StoreLimits,
    ) -> None:
        recovery = StoreRecovery()
        new_id = limits.store_id or entropy.octets(STORE_ID_OCTETS)
        recovered: RecoveredJournal = recover(disk, new_id, recovery)
        # What was cut off at the end, for the log.
        self.torn_tail: TornTail | None = recovered.torn_tail
        self.store_id: bytes = recovered.store_id
        self.journal: Journal = Journal(
            disk, OwnedJournal(owner, state.streams), recovered, limits.segment_bytes_max
        )
        self.store: MessageStore = MessageStore(
            state, disk, self.journal, decoder, limits.paging, limits.spool_bytes_max
        )
        self.reclaimer: Reclaimer = Reclaimer(
            self.store, owner, limits.reclaim_step_bytes, limits.reclaim_patience_steps
        )
        self._reclaims: bool = True
        state.ready_lists = StoredLists(self.store)
        self._streams: StreamStore = state.streams
        self._streams.disk = disk
        self._streams.decoder = decoder
        self._streams.is_flushed = True
        self._streams.is_recovering = True
        self.recovered_count: int = 0
        if recovery.found_anything:
            self.recovered_count = recovery.restore(state, self.store, now)
        vhosts: list[VirtualHostView] = list(state.vhosts.values())
        open_streams(self._streams, vhosts, now)
        state.log_definitions(StoredDefinitions(self.store))
        if recovery.found_anything:
            recovery.resume(now)
            for vhost in state.vhosts.values():
                resume_leases(vhost, now)
                resume_sinks(vhost, now)
            # What a killed process left in the page cache is not safe yet.
            self.journal.request_flush()
        else:
            put_defaults(state, now)
            if recovered.torn_tail is not None:
                # The cut itself must be safe, or what was cut off may come back.
                self.journal.request_flush()

    def has_work(self) -> bool:
        return self.store.has_pending() or self._reclaims or self._streams.is_dirty()

    def end_of_tick(self) -> None:
        """Write what the tick brought and ask for a flush. Raises DiskError."""
        self._reclaims = self.reclaimer.step()
        wrote = self.store.end_of_tick()
        if self._streams.is_dirty():
            if not wrote:
                # What waits for streams waits for a position of the journal.
                self.journal.append(TICK_RECORD)
            for file in self._streams.take_dirty(self.journal.position):
                self.journal.flush_too(file)
            wrote = True
        if wrote:
            self.journal.request_flush()


class OwnedJournal(JournalListener):
    """Brings the journal's word to the node."""

    def __init__(self, owner: StorageOwner, streams: StreamStore) -> None:
        self._owner: StorageOwner = owner
        self._streams: StreamStore = streams

    def durable(self, position: int, now: int) -> None:
        self._streams.became_safe(position, now)
        self._owner.journal_is_safe(position)

    def failed(self, reason: str, now: int) -> None:
        self._owner.storage_failed(reason)
