"""The part of a queue that lets it be a replica: it takes entries under the positions of another queue.

The positions of the source are those of the replica, in the journal too; so after a restart the
replica knows what it has without another table. Positions of the source are never given twice
(`formats/replication_id.py`), and what left a replica does not come back.

While it follows, the queue refuses publishes and consumers, and neither its limits nor times to live
apply: the source decides, and tells what left.
"""

from penstock.broker.arguments import QueueArguments
from penstock.broker.entry import QueueEntry
from penstock.broker.queues.following import Following
from penstock.broker.queues.message_queue import QueueOwner
from penstock.broker.queues.readable_queue import ReadableQueue
from penstock.broker.queues.walk import Walk
from penstock.formats.replication_id import first_id


class FollowingQueue(ReadableQueue):
    """What `Queue` is made of."""

    def __init__(
        self,
        vhost: QueueOwner,
        name: str,
        durable: bool,
        exclusive_owner: int,
        auto_delete: bool,
        settings: QueueArguments,
        arguments: dict[str, object],
    ) -> None:
        super().__init__(vhost, name, durable, exclusive_owner, auto_delete, settings, arguments)
        self._next_position: int = 1
        # True once any entry was stamped; until then the queue never looks at expiry.
        self._may_expire: bool = False

    def begin_epoch(self, epoch: int) -> None:
        self._next_position = max(self._next_position, first_id(epoch))

    def end_position(self) -> int:
        return self._next_position

    def set_following(self, following: Following | None, now: int) -> None:
        self.following = following
        # Its limits apply, or do not apply any more.
        self.apply_settings(self.settings, now)
        if following is None and self.vhost.decides():
            self.resume(now)

    def follow(self, entry: QueueEntry, now: int) -> None:
        position = entry.position
        if position >= self._next_position:
            if now >= self.stamp_due:
                self.stamp(position, now)
            self._next_position = position + 1
            self.ready.append(entry)
        else:
            self.ready.insert(entry)
        self.published_total += 1
        self.ready_bytes += len(entry.message.body)
        if entry.expires_at:
            self._may_expire = True
        if self.journal is not None and self.journals(entry.message):
            self.journal.enqueued(entry)
        for observer in self.observers:
            observer.enqueued(entry)

    def unfollow(self, first: int, count: int) -> int:
        gone = 0
        end = first + count
        position = self._ready_from(first)
        while 0 <= position < end:
            walk = Walk()
            walk.level = self.ready.level_with(position)
            self.moved_away(self.take_out(walk, position))
            gone += 1
            position = self._ready_from(position + 1)
        return gone

    def _ready_from(self, position: int) -> int:
        """The first position at or after one that is here, or -1."""
        found = self.ready.positions_from(position, 1)
        return found[0] if found else -1
