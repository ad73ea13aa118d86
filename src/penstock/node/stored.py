"""What a node with a data directory has beside its state: journal, message store, reclaiming."""

from mypy_extensions import mypyc_attr

from penstock.broker.message import MessageDecoder
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.store.message_store import MessageStore, StoredDefinitions, StoredLists
from penstock.broker.store.reclaim import Reclaimer, UnsettledSource
from penstock.broker.store.recovery import StoreRecovery
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
    ) -> None:
        recovery = StoreRecovery()
        recovered: RecoveredJournal = recover(disk, entropy.octets(STORE_ID_OCTETS), recovery)
        # What was cut off at the end, for the log.
        self.torn_tail: TornTail | None = recovered.torn_tail
        self.journal: Journal = Journal(disk, OwnedJournal(owner), recovered)
        self.store: MessageStore = MessageStore(state, disk, self.journal, decoder)
        self._reclaimer: Reclaimer = Reclaimer(self.store, owner)
        self._reclaims: bool = True
        state.ready_lists = StoredLists(self.store)
        self.recovered_count: int = 0
        if recovery.found_anything:
            self.recovered_count = recovery.restore(state, self.store, now)
        state.log_definitions(StoredDefinitions(self.store))
        if not recovery.found_anything:
            put_defaults(state, now)

    def has_work(self) -> bool:
        return self.store.has_pending() or self._reclaims

    def end_of_tick(self) -> None:
        """Write what the tick brought and ask for a flush. Raises DiskError."""
        self._reclaims = self._reclaimer.step()
        if self.store.end_of_tick():
            self.journal.request_flush()


class OwnedJournal(JournalListener):
    """Brings the journal's word to the node."""

    def __init__(self, owner: StorageOwner) -> None:
        self._owner: StorageOwner = owner

    def durable(self, position: int, now: int) -> None:
        self._owner.journal_is_safe(position)

    def failed(self, reason: str, now: int) -> None:
        self._owner.storage_failed(reason)
