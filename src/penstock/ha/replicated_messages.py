"""What a backup held of one queue, when its server becomes the root."""

from array import array

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.paged_list import PagedReadyList
from penstock.broker.queues.priority import PagedPriorityList
from penstock.broker.queues.queue_journal import JournalledMessages
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.store.message_store import MessageStore
from penstock.broker.store.recovery import fill_levels, read_entries


class ReplicatedMessages(JournalledMessages):
    """Takes the arrays out of a replica's list. Held while a queue, or a delay line, gets them."""

    def __init__(self, store: MessageStore, replica: ReplicaList, number: int, octets: int) -> None:
        super().__init__(replica.highest_position, replica.may_expire)
        self._counts: list[tuple[int, int]] = replica.delivery_counts()
        places = replica.take_all()
        self._positions: array[int] = places[0]
        self._locations: array[int] = places[1]
        self._store: MessageStore = store
        self._number: int = number
        self._octets: int = octets

    def fill(self, ready: ReadyList) -> int:
        if isinstance(ready, PagedReadyList):
            ready.restore(self._positions, self._locations)
            ready.restore_counts(self._counts)
        else:
            assert isinstance(ready, PagedPriorityList), "made by a store"
            fill_levels(ready, self._positions, self._locations, self.highest_position)
            ready.restore_counts(self._counts)
        return self._octets

    def entries(self) -> list[QueueEntry]:
        pages = self._store.make_pages()
        pages.number = self._number
        return read_entries(pages, self._positions, self._locations)
