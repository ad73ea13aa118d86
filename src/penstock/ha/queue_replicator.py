"""Applies to one queue of a backup what the root did to its own: enqueues and dequeues, by their ids.

The delay line of a virtual host is replicated in the same way. Order is that of ids, never of arrival. A
queue on a backup has no message in memory, no consumer and no timer; it decides nothing.
"""

from array import array

from penstock.broker.delays.delay_line import DelayLine
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.position_runs import Ranges
from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.store.records import MessageRecord
from penstock.ha.replica_operation import MessageRun


class QueueReplicator:
    """Held by the replica's queues, one for each queue that is defined. The `BrokerReplicator` has it
    made and dropped.
    """

    def __init__(
        self, ready: ReplicaList, queue: MessageQueue | None, line: DelayLine | None
    ) -> None:
        self.ready: ReplicaList = ready
        self._queue: MessageQueue | None = queue
        self._line: DelayLine | None = line

    def enqueued(self, position: int, location: int, may_expire: bool) -> None:
        """The caller adds up the octets of several."""
        self.ready.add(position, location)
        if may_expire:
            self.ready.may_expire = True

    def enqueued_run(self, first: MessageRecord, run: MessageRun, location: int) -> None:
        """Records that are equal but for their bodies, the first of them at this location."""
        self.ready.add_run(first.position(0), run.count, location, run.size)
        if first.expires_at(0):
            self.ready.may_expire = True
        self.add_octets(run.count * first.body_size)

    def dequeued(self, ranges: Ranges) -> "array[int]":
        """Returns the locations of those that were here."""
        return self.ready.remove_ranges(ranges)

    def clear(self) -> "array[int]":
        """It is deleted. Returns the locations of what it held."""
        locations = self.ready.drain()[1]
        self.add_octets(0)
        return locations

    def octets(self) -> int:
        """Of all bodies."""
        if self._queue is not None:
            return self._queue.ready_bytes
        return 0 if self._line is None else self._line.octets

    def add_octets(self, octets: int) -> None:
        octets = max(self.octets() + octets, 0) if self.ready.count else 0
        if self._queue is not None:
            self._queue.ready_bytes = octets
        elif self._line is not None:
            self._line.octets = octets
