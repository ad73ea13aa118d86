"""Walks one queue for one backup while that catches up, and reads what it lacks, in order of position.

It holds ranges of ids, not bodies: a body is read when it is sent. What was dequeued since is left out. New
messages reach the backup as operations, so a subscription only shrinks; its last position is the one before
the first guarded position of its queue.
"""

from penstock.ha.id_ranges import IdRanges, IdSets
from penstock.ha.queue_snapshot import QueueSnapshot
from penstock.ha.replicated_state import ReplicatedState


class ReplicatingSubscription:
    """Held by a `RemoteBackup`, from the answer to its JOIN to the end of the SYNC; one for each queue of
    which the backup lacks something.
    """

    def __init__(self, snapshot: QueueSnapshot, held: IdSets) -> None:
        self.number: int = snapshot.number
        self._wanted: IdRanges = snapshot.lacked_by(held)

    @property
    def has_ended(self) -> bool:
        """Whether it has reached its last position: everything was sent that was still there."""
        return self._wanted.is_empty()

    def missing_count(self) -> int:
        """Messages that were not sent yet."""
        return self._wanted.count()

    def read(self, state: ReplicatedState, octets_max: int) -> bytes:
        """The next message records, about so many octets. None if all that it looked at is gone."""
        wanted = self._wanted
        records, next_id = state.read(self.number, wanted, octets_max)
        assert next_id == 0 or next_id > wanted.first(), "reading goes on"
        if next_id:
            wanted.remove_below(next_id)
        else:
            self._wanted = IdRanges()
        return records
