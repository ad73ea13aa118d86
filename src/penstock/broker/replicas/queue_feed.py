"""What a replica of one queue lacks, and what it has that is gone.

The feed walks the queue once, in order of positions, and from then on follows it. Messages that are
out with consumers belong to the queue until they are acknowledged: those that were out before the feed
passed them are kept in `_out`, under their positions.

Invariants
- what lies before `_walked` was sent, or the replica has it, or it is gone;
- what leaves the queue behind `_walked` needs no mention; what leaves before it is told as gone;
- a replica is told only of entries that are ready or out: in a cluster, of committed ones.
"""

from array import array
from bisect import bisect_right
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry
from penstock.broker.observers import QueueObserver
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.replicas.feed_batch import BATCH_HEAD
from penstock.broker.store import records
from penstock.broker.timers import WallClock

# Positions that are looked at for one batch, so that a tick is not long.
WALK_COUNT: Final = 1024
# A batch ends with the message that exceeds this. Few enough that others get their turn.
BATCH_BYTES: Final = 128 * 1024
# Positions that left, in one batch.
GONE_COUNT: Final = 8192


@mypyc_attr(allow_interpreted_subclasses=True)
class FeedListener:
    """The subscription of a replica."""

    def news(self) -> None:
        """The feed may have another batch."""
        raise NotImplementedError

    def queue_deleted(self) -> None:
        """It will have none any more."""
        raise NotImplementedError


class QueueFeed(QueueObserver):
    """Held by its queue as an observer, and by the subscription of the replica."""

    def __init__(
        self,
        queue: MessageQueue,
        held: list[tuple[int, int]],
        out: list[QueueEntry],
        wall: WallClock,
        listener: FeedListener,
    ) -> None:
        """`held` is what the replica has: first position and the one behind the last, in order. `out`
        are the entries of the queue that consumers have.
        """
        self._queue: MessageQueue = queue
        self._firsts: list[int] = [first for first, _ in held]
        self._ends: list[int] = [end for _, end in held]
        self._out: dict[int, QueueEntry] = {entry.position: entry for entry in out}
        self._wall: WallClock = wall
        self._walked: int = 1
        self._gone: array[int] = array("Q")
        self._listener: FeedListener = listener
        # Whether a batch may have something to tell.
        self._has_news: bool = True

    # Calls from the queue.

    def enqueued(self, entry: QueueEntry) -> None:
        self.look_again()

    def delivered(self, entry: QueueEntry) -> None:
        if entry.position >= self._walked:
            self._out[entry.position] = entry

    def requeued(self, entry: QueueEntry) -> None:
        self._out.pop(entry.position, None)

    def dequeued(self, entry: QueueEntry) -> None:
        self._left(entry.position)

    def purged(self, positions: "array[int]") -> None:
        for position in positions:
            self._left(position)

    def _left(self, position: int) -> None:
        self._out.pop(position, None)
        if position < self._walked:
            self._gone.append(position)
            self.look_again()

    def deleted(self) -> None:
        self._listener.queue_deleted()

    # Calls from the subscription.

    def look_again(self) -> None:
        """There may be more: something arrived or left, or was committed."""
        if not self._has_news:
            self._has_news = True
            self._listener.news()

    def waits_for_commit(self) -> bool:
        return bool(self._queue.waiting_entries())

    def next_batch(self) -> bytes:
        """What to send next; empty when there is nothing for now."""
        if not self._has_news:
            return b""
        walked = self._walked
        pieces: list[bytes] = [b""]
        self._append_gone(pieces)
        self._walk(pieces)
        queue = self._queue
        end = queue.end_position()
        self._has_news = bool(self._gone) or self._walked < self._end_for_now()
        if len(pieces) == 1 and self._walked == walked:
            return b""
        count = queue.message_count + queue.unacked_count
        pieces[0] = BATCH_HEAD.pack(self._walked, end, count)
        return b"".join(pieces)

    def _append_gone(self, pieces: list[bytes]) -> None:
        if self._gone:
            gone = sorted(self._gone[:GONE_COUNT])
            del self._gone[:GONE_COUNT]
            records.append_dequeued(pieces, self._queue.number, 0, records.encode_ranges(gone))

    def _end_for_now(self) -> int:
        """Where the walk ends: before what is not committed yet."""
        waiting = self._queue.waiting_entries()
        return waiting[0].position if waiting else self._queue.end_position()

    def _walk(self, pieces: list[bytes]) -> None:
        """Look at the next positions: send what the replica lacks, and tell what it has too much."""
        first = self._walked
        ready = self._queue.positions_from(first, WALK_COUNT)
        end = ready[len(ready) - 1] + 1 if len(ready) == WALK_COUNT else self._end_for_now()
        present = ready
        if self._out:
            present = ready + [position for position in self._out if position < end]
            present.sort()
        size = 0
        for position in present:
            if self._is_held(position):
                continue
            entry = self._out.get(position)
            if entry is None:
                entry = self._queue.entry_at(position)
            assert entry is not None, "it is ready or out"
            size += self._append(pieces, entry)
            if size >= BATCH_BYTES:
                end = position + 1
                break
        self._append_missing(pieces, first, end, present)
        self._walked = end
        for position in present:
            if position < end:
                self._out.pop(position, None)

    def _append(self, pieces: list[bytes], entry: QueueEntry) -> int:
        message = entry.message
        return records.append_message(
            pieces,
            message,
            message.properties.encoded(),
            message.address.octets(),
            [self._queue.number],
            [entry],
            self._wall.offset_ms,
        )

    def _is_held(self, position: int) -> bool:
        at = bisect_right(self._firsts, position) - 1
        return at >= 0 and position < self._ends[at]

    def _append_missing(
        self, pieces: list[bytes], first: int, end: int, present: list[int]
    ) -> None:
        """What the replica has between two positions, and the queue has not."""
        gone: list[bytes] = []
        at = max(bisect_right(self._firsts, first) - 1, 0)
        place = 0
        while at < len(self._firsts) and self._firsts[at] < end:
            begin = max(self._firsts[at], first)
            stop = min(self._ends[at], end)
            while begin < stop:
                while place < len(present) and present[place] < begin:
                    place += 1
                following = present[place] if place < len(present) else stop
                if begin < min(following, stop):
                    _add_ranges(gone, begin, min(following, stop))
                begin = following + 1
            at += 1
        if gone:
            records.append_dequeued(pieces, self._queue.number, 0, gone)


def _add_ranges(ranges: list[bytes], first: int, end: int) -> None:
    while first < end:
        count = min(end - first, records.RANGE_COUNT_MAX)
        ranges.append(records.encode_range(first, count))
        first += count
