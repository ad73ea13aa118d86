"""Time to live of messages, and of queues that nobody uses.

As in RabbitMQ, messages die at the head of their queue: an expired one behind a living one waits
for its turn. The timer only ever watches the head.
"""

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry
from penstock.broker.message import NO_EXPIRATION
from penstock.broker.timers import NEVER, Timer, Timers


@mypyc_attr(allow_interpreted_subclasses=True)
class Expiring:
    """What the timers call back: the queue."""

    def expire_messages(self, now: int) -> None:
        """The entry at the head is dead."""
        raise NotImplementedError

    def expire_unused(self, now: int) -> None:
        """Nobody used the queue for as long as `x-expires` says."""
        raise NotImplementedError


class MessageExpiry(Timer):
    """Fires when the entry at the head of its queue has expired. Held by the queue."""

    def __init__(self, queue: Expiring, timers: Timers) -> None:
        super().__init__()
        self._queue: Expiring = queue
        self._timers: Timers = timers

    def stamp(
        self, entry: QueueEntry, queue_ttl_ms: int, expiration_ms: int, is_head: bool, now: int
    ) -> None:
        """The smaller of the message's and the queue's time to live counts."""
        ttl = queue_ttl_ms
        if ttl < 0 or NO_EXPIRATION != expiration_ms < ttl:
            ttl = expiration_ms
        # Due times are at least 1, because 0 means never.
        entry.expires_at = max(now + ttl, 1)
        if is_head:
            self.watch(entry)

    def watch(self, head: QueueEntry | None) -> None:
        """Watch this entry, or none."""
        if head is None or head.expires_at == 0:
            self._timers.cancel(self)
        else:
            self._timers.schedule(self, head.expires_at)

    def go_on(self, now: int) -> None:
        """The head is dead, and its turn comes with a later tick."""
        self._timers.schedule(self, now + 1)

    def fire(self, now: int) -> None:
        self._queue.expire_messages(now)


class QueueExpiry(Timer):
    """Fires when a queue with `x-expires` was unused for that long. Held by the queue."""

    def __init__(self, queue: Expiring, timers: Timers) -> None:
        super().__init__()
        self._queue: Expiring = queue
        self._timers: Timers = timers
        self._dies_at: int = NEVER

    def used(self, expires_ms: int, now: int) -> None:
        """Restart the interval. The timer is moved only when it fires, not at every use."""
        if expires_ms < 0:
            self.stop()
            return
        self._dies_at = now + expires_ms
        if self.due == NEVER or self.due > self._dies_at:
            self._timers.schedule(self, self._dies_at)

    def stop(self) -> None:
        """In use, or gone: it cannot expire until `used` is called again."""
        self._dies_at = NEVER
        self._timers.cancel(self)

    def fire(self, now: int) -> None:
        if self._dies_at == NEVER:
            return
        if now < self._dies_at:
            self._timers.schedule(self, self._dies_at)
        else:
            self._queue.expire_unused(now)
