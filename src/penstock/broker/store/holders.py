"""The holders of the messages of one segment while it is being copied: queues, and consumers.

All queues and consumers are searched once, when a pass over the segment begins. From then on queues
report what they deliver, so at any later step each needed message is found in its current place.
"""

from penstock.broker.entry import QueueEntry
from penstock.broker.observers import QueueObserver
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.paged_list import found_in
from penstock.broker.queues.position_runs import progression
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.state import BrokerState
from penstock.broker.store.message_store import MovedRecord
from penstock.storage.segment import segment_of


class Holders:
    """Held by the reclaimer for one pass; `close` it."""

    def __init__(
        self,
        segment: int,
        state: BrokerState,
        unsettled: list[tuple[MessageQueue, QueueEntry]],
        staged: dict[int, ReplicaList],
    ) -> None:
        self.segment: int = segment
        self._staged: dict[int, ReplicaList] = staged
        # By number: queues, and what waits in delayed exchanges.
        self._lists: dict[int, ReadyList] = {}
        self._queues: dict[int, MessageQueue] = {}
        # By number and position: what was out when the pass began, or was given out since. It may
        # have been settled meanwhile.
        self._out: dict[tuple[int, int], QueueEntry] = {}
        # The numbers of their queues.
        self._out_numbers: set[int] = set()
        self._watched: list[tuple[MessageQueue, GivenOut]] = []
        for vhost in state.vhosts.values():
            for queue in vhost.queues.values():
                if queue.number:
                    self._lists[queue.number] = queue.journal_list()
                    self._queues[queue.number] = queue
                if queue.number and not queue.keeps_messages:
                    # A stream delivers from its own files.
                    watch = GivenOut(self, queue.number)
                    queue.observers.append(watch)
                    self._watched.append((queue, watch))
            if vhost.delay_line.number:
                self._lists[vhost.delay_line.number] = vhost.delay_line.waiting
        for queue, entry in unsettled:
            if queue.number and not queue.keeps_messages:
                self.is_out(queue.number, entry)

    def is_out(self, number: int, entry: QueueEntry) -> None:
        if segment_of(entry.message.location) == self.segment:
            self._out[(number, entry.position)] = entry
            self._out_numbers.add(number)

    def find(self, number: int, position: int, location: int, moved: MovedRecord) -> bool:
        """Whether the record at a location is still needed for this pair; notes where its new
        location must be set. A segment may have another record of the pair: a backup may have
        staged a message before it got it as part of the state.
        """
        ready = self._lists.get(number)
        entry = None if ready is None else ready.entry_of(position)
        if entry is None and ready is not None:
            # After a restart the queue may refer to a copy that was made before.
            known = ready.location_of(position)
            if known >= 0:
                if known != location:
                    return False
                moved.lists.append(ready)
                moved.positions.append(position)
                return True
        if entry is None:
            entry = found_in(self._waiting(number), position)
        if entry is None:
            # A queue that is deleted may still have something out with consumers.
            entry = self._out.get((number, position))
        if entry is None and self._staged:
            return self._find_staged(number, position, location, moved)
        if entry is None or entry.is_gone or entry.message.location != location:
            return False
        moved.messages.append(entry.message)
        return True

    def _waiting(self, number: int) -> list[QueueEntry]:
        """What is not ready yet, because other servers of a cluster have not got it."""
        queue = self._queues.get(number)
        return [] if queue is None else queue.waiting_entries()

    def needs_none(self, number: int, position: int) -> bool:
        """Whether nothing of a queue is needed up to this position, as far as that is known without
        looking for each: the usual case where consumers keep up.
        """
        if number in self._out_numbers or number in self._staged:
            return False
        waiting = self._waiting(number)
        if waiting and waiting[0].position <= position:
            return False
        ready = self._lists.get(number)
        oldest = -1 if ready is None else ready.oldest_position()
        return oldest < 0 or oldest > position

    def find_row(self, number: int, position: int, location: int, moved: MovedRecord) -> bool:
        """Whether all messages of a row are needed, and one list has them; the first of the records is
        at this location. If not, each has to be looked for.
        """
        locations = progression(location, moved.count, moved.size)
        ready = self._lists.get(number)
        if ready is None or not ready.holds_row(position, locations):
            staged = self._staged.get(number)
            if staged is None or not staged.holds_row(position, locations):
                return False
            moved.is_staged = True
            ready = staged
        moved.lists.append(ready)
        moved.positions.append(position)
        return True

    def _find_staged(self, number: int, position: int, location: int, moved: MovedRecord) -> bool:
        """A record is staged for all of its queues or for none, since the state takes over all that
        is staged at once.
        """
        ready = self._staged.get(number)
        if ready is None or ready.location_of(position) != location:
            return False
        moved.is_staged = True
        moved.lists.append(ready)
        moved.positions.append(position)
        return True

    def close(self) -> None:
        for queue, watch in self._watched:
            queue.observers.remove(watch)


class GivenOut(QueueObserver):
    """Records what one queue delivers to consumers. Held by its queue during a pass."""

    def __init__(self, holders: Holders, number: int) -> None:
        self._holders: Holders = holders
        self._number: int = number

    def delivered(self, entry: QueueEntry) -> None:
        self._holders.is_out(self._number, entry)

    def acknowledged_many(self, entries: list[QueueEntry]) -> None:
        """The store has marked them."""

    def taken_many(self, entries: list[QueueEntry]) -> None:
        """They were never out."""
