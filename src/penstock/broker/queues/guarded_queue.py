"""A replicated queue: what is enqueued is not ready before its operation is committed.

All that one tick enqueues belongs to one operation of the journal. It waits here until the servers
that must have the operation have it, and then becomes ready together. Nothing is done per message for
that: a tick is sealed under the journal position of its operation, and a committed position releases
all ticks up to it.

Invariants
- no consumer, `get` or browser sees an entry before its operation is committed;
- every message is journalled, persistent or not;
- `ready_bytes` counts what is ready, `_waiting_bytes` what is not.
"""

from penstock.broker.arguments import QueueArguments
from penstock.broker.entry import QueueEntry
from penstock.broker.internal_queues import is_internal
from penstock.broker.message import NO_EXPIRATION, Message
from penstock.broker.queues.message_queue import MessageQueue, QueueOwner
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.queue_kinds import QueueMaker


class GuardedQueue(Queue):
    """Made instead of `Queue` where a queue is replicated."""

    def __init__(
        self,
        vhost: QueueOwner,
        name: str,
        durable: bool,
        exclusive_owner: int,
        auto_delete: bool,
        settings: QueueArguments,
        arguments: dict[str, object],
        now: int,
        arrivals: "list[GuardedQueue]",
    ) -> None:
        # First, because the constructor of a queue asks how long it is.
        self._waiting: list[QueueEntry] = []
        self._waiting_bytes: int = 0
        # Of each tick that is sealed: its journal position, how many entries it brought, and the
        # octets of these.
        self._sealed_positions: list[int] = []
        self._sealed_counts: list[int] = []
        self._sealed_octets: list[int] = []
        # Of all of them together.
        self._sealed_total: int = 0
        self._sealed_bytes: int = 0
        # Queues that got entries in this tick; shared by all of a broker.
        self._arrivals: list[GuardedQueue] = arrivals
        self._has_arrivals: bool = False
        super().__init__(
            vhost, name, durable, exclusive_owner, auto_delete, settings, arguments, now
        )
        self.journals_all = True

    @property
    def message_count(self) -> int:
        return self.ready.count + len(self._waiting)

    @property
    def ready_count(self) -> int:
        return self.ready.count + len(self._waiting)

    def held_octets(self) -> int:
        return self.ready_bytes + self._waiting_bytes

    def held_bytes(self, message_bytes: int) -> int:
        waiting = len(self._waiting) * message_bytes + self._waiting_bytes
        return super().held_bytes(message_bytes) + waiting

    def oldest_position(self) -> int:
        oldest = self.ready.oldest_position()
        if oldest < 0 and self._waiting:
            return self._waiting[0].position
        return oldest

    # Messages in.

    def enqueue(self, message: Message, now: int, seen: bool = False) -> bool:
        if not self._unlimited and self._refuses(message, now):
            return False
        entry = QueueEntry(message, self._next_position)
        if seen:
            entry.is_redelivered = True
        if now >= self.stamp_due:
            self.stamp(self._next_position, now)
        self._next_position += 1
        self.published_total += 1
        expiration_ms = message.properties.expiration_ms
        if expiration_ms != NO_EXPIRATION or self._message_ttl_ms >= 0:
            self._may_expire = True
            # It is watched when it is ready.
            self._message_expiry.stamp(entry, self._message_ttl_ms, expiration_ms, False, now)
        self._waiting.append(entry)
        self._waiting_bytes += len(message.body)
        if not self._has_arrivals:
            self._arrived()
        if self.journal is not None:
            self.journal.enqueued(entry)
        for observer in self.observers:
            observer.enqueued(entry)
        return True

    def enqueue_run(self, entries: list[QueueEntry], octets: int, now: int) -> None:
        if now >= self.stamp_due:
            self.stamp(self._next_position, now)
        self._next_position = entries[len(entries) - 1].position + 1
        self.published_total += len(entries)
        self._waiting.extend(entries)
        self._waiting_bytes += octets
        self._arrived()

    def _arrived(self) -> None:
        if not self._has_arrivals:
            self._has_arrivals = True
            self._arrivals.append(self)

    # Their operation.

    def seal(self, position: int) -> None:
        """The tick is written: what came since the last one belongs to this journal position."""
        self._has_arrivals = False
        count = len(self._waiting) - self._sealed_total
        if count:
            self._sealed_positions.append(position)
            self._sealed_counts.append(count)
            self._sealed_octets.append(self._waiting_bytes - self._sealed_bytes)
            self._sealed_total += count
            self._sealed_bytes = self._waiting_bytes

    def committed(self, position: int, now: int) -> None:
        """Operations up to this journal position are committed: what they brought is ready."""
        count = 0
        octets = 0
        ticks = 0
        while ticks < len(self._sealed_positions) and self._sealed_positions[ticks] <= position:
            count += self._sealed_counts[ticks]
            octets += self._sealed_octets[ticks]
            ticks += 1
        if ticks == 0:
            return
        del self._sealed_positions[:ticks]
        del self._sealed_counts[:ticks]
        del self._sealed_octets[:ticks]
        self._sealed_total -= count
        self._sealed_bytes -= octets
        if count == len(self._waiting):
            entries = self._waiting
            self._waiting = []
        else:
            entries = self._waiting[:count]
            del self._waiting[:count]
        self._become_ready(entries, octets, now)

    def _become_ready(self, entries: list[QueueEntry], octets: int, now: int) -> None:
        if self._may_expire:
            for entry in entries:
                if 0 < entry.expires_at < now:
                    # It waited for the commit, so it may still be delivered in this very tick.
                    entry.expires_at = now
        self._waiting_bytes -= octets
        self.ready_bytes += octets
        self.ready.extend(entries)
        if not self._unlimited:
            self._make_room(now, len(entries))
        if self.consumers.count:
            self.touch()
        elif self._may_expire:
            self._expire_head(now, True)

    def release_waiting(self) -> None:
        """This server is not the root any more: what waits is in its journal and nobody sees it. It
        stays, for the next root decides about it.
        """
        self.ready.extend(self._waiting)
        self.ready_bytes += self._waiting_bytes
        self._forget_waiting()

    def waiting_entries(self) -> list[QueueEntry]:
        """For whoever needs every message that is here."""
        return self._waiting

    def waiting_ticks(self) -> list[tuple[int, int]]:
        return list(zip(self._sealed_positions, self._sealed_counts, strict=True))

    def _forget_waiting(self) -> None:
        self._waiting = []
        self._waiting_bytes = 0
        self._sealed_positions = []
        self._sealed_counts = []
        self._sealed_octets = []
        self._sealed_total = 0
        self._sealed_bytes = 0

    def purge(self, now: int) -> int:
        waiting = self._waiting
        self._forget_waiting()
        self._forget(waiting)
        return super().purge(now) + len(waiting)


class GuardedQueueMaker(QueueMaker):
    """Makes the classic and quorum queues of a server that is a member of a cluster."""

    def __init__(self, arrivals: list[GuardedQueue]) -> None:
        self._arrivals: list[GuardedQueue] = arrivals

    def make(
        self,
        vhost: QueueOwner,
        name: str,
        durable: bool,
        exclusive_owner: int,
        auto_delete: bool,
        settings: QueueArguments,
        arguments: dict[str, object],
        now: int,
    ) -> MessageQueue:
        if durable and exclusive_owner < 0 and not is_internal(name, arguments):
            return GuardedQueue(
                vhost,
                name,
                durable,
                exclusive_owner,
                auto_delete,
                settings,
                arguments,
                now,
                self._arrivals,
            )
        queue = Queue(vhost, name, durable, exclusive_owner, auto_delete, settings, arguments, now)
        # Only the broker reads leases and stages, in operations that come after those that wrote
        # them. So they need no guard, but other servers must have all of them.
        queue.journals_all = durable and exclusive_owner < 0
        return queue
