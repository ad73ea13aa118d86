"""A queue: entries ready for delivery, entries out with consumers, and the rules between them.

The queue arranges its parts (`ReadyList`, `Consumers`, `LengthLimit`, expiry) and says what
happens to a message: enqueued, delivered, acknowledged, dequeued. Deliveries happen in `dispatch`,
once per tick for everything that arrived in it, or at once where a rule needs to know what is left.

Invariants
- every entry is in the ready list, or counted in `unacked_count`, or gone;
- entries leave the ready list in order of position, except for priorities and selective consumers.
"""

from typing import Final

from penstock.broker.arguments import QUORUM, Overflow, QueueArguments
from penstock.broker.consumer import Consumer
from penstock.broker.entry import BROKER_ITSELF, NO_HOLDER, QueueEntry, flag_returned, take_back
from penstock.broker.internal_queues import is_internal
from penstock.broker.message import NO_EXPIRATION, Message
from penstock.broker.queues.choosing import begin_choosing, has_more_to_see, take_wanted
from penstock.broker.queues.consumers import batch_count
from penstock.broker.queues.expiry import Expiring, MessageExpiry, QueueExpiry
from penstock.broker.queues.following_queue import FollowingQueue
from penstock.broker.queues.length_limit import LengthLimit
from penstock.broker.queues.message_queue import DeathReason, QueueOwner
from penstock.broker.queues.queue_journal import JournalledMessages
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.walk import Walk

PURGED: Final = "purged"  # what observers get as the reason for purged messages


class Queue(FollowingQueue):
    """A queue whose messages leave it: classic, and quorum on one server."""

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
    ) -> None:
        super().__init__(vhost, name, durable, exclusive_owner, auto_delete, settings, arguments)
        # What leases and stages hold does not expire.
        self._keeps_all: bool = is_internal(name, arguments)
        expiring = _ExpiringQueue(self)
        self._message_expiry: MessageExpiry = MessageExpiry(expiring, vhost.timers)
        self._queue_expiry: QueueExpiry = QueueExpiry(expiring, vhost.timers)
        # Every enqueue asks for it; with thousands of queues one more object is one more cache miss.
        self._message_ttl_ms: int = settings.message_ttl_ms
        self._length_limit: LengthLimit = LengthLimit(settings)
        # True when no length rule applies, so that an enqueue is a mere append.
        self._unlimited: bool = True
        self.apply_settings(settings, now)

    @property
    def message_count(self) -> int:
        return self.ready.count

    @property
    def ready_count(self) -> int:
        return self.ready.count

    def held_octets(self) -> int:
        """Of all bodies that count against the queue's length."""
        return self.ready_bytes

    def apply_settings(self, settings: QueueArguments, now: int) -> None:
        self.settings = settings
        self._message_ttl_ms = settings.message_ttl_ms
        self._length_limit = LengthLimit(settings)
        self._unlimited = self._length_limit.is_none and self.following is None
        self.counts_deliveries = settings.queue_type is QUORUM
        self.consumers.set_single_active(settings.single_active_consumer)
        self.used(now)
        if not self._unlimited and self.vhost.decides():
            self._drop_excess(now)

    def restore(self, found: JournalledMessages) -> int:
        """Positions continue after those that were found."""
        self.ready_bytes = found.fill(self.ready)
        self._next_position = found.highest_position + 1
        if found.may_expire:
            self._may_expire = True
        return self.ready.count

    def resume(self, now: int) -> None:
        self.used(now)
        if self.ready.count:
            self.stamp(self.ready.oldest_position(), now)
        self._expire_head(now, True)
        if not self._unlimited:
            self._drop_excess(now)

    def may_expire(self) -> bool:
        return self._may_expire

    def journal_list(self) -> ReadyList:
        return self.ready

    def used(self, now: int) -> None:
        if self.consumers.count == 0 and not self.is_deleted and self.vhost.decides():
            self._queue_expiry.used(self.settings.expires_ms, now)

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
        self.ready_bytes += len(message.body)
        expiration_ms = message.properties.expiration_ms
        if (expiration_ms != NO_EXPIRATION or self._message_ttl_ms >= 0) and not self._keeps_all:
            is_head = self.ready.count == 0
            self._may_expire = True
            self._message_expiry.stamp(entry, self._message_ttl_ms, expiration_ms, is_head, now)
        self.ready.append(entry)
        if self.journal is not None and (message.properties.persistent or self.journals_all):
            self.journal.enqueued(entry)
        for observer in self.observers:
            observer.enqueued(entry)
        if not self._unlimited:
            self._make_room(now)
        elif not self.is_touched and self.consumers.count:
            self.is_touched = True
            self.vhost.touched.append(self)
        return True

    def run_start(self) -> int:
        is_plain = self._unlimited and self._message_ttl_ms < 0
        return self._next_position if is_plain and not self.is_deleted else -1

    def enqueue_run(self, entries: list[QueueEntry], octets: int, now: int) -> None:
        """Accept entries with positions from `run_start` on, or later; its journal knows them."""
        if now >= self.stamp_due:
            self.stamp(self._next_position, now)
        self._next_position = entries[len(entries) - 1].position + 1
        self.published_total += len(entries)
        self.ready_bytes += octets
        self.ready.extend(entries)
        self.touch()

    def _refuses(self, message: Message, now: int) -> bool:
        limit = self._length_limit
        if self.following is not None:
            return True
        if limit.drops_head:
            return False
        if self.consumers.count:
            self.dispatch(now)
        full = limit.has_no_room(self.ready_count, self.held_octets(), len(message.body))
        if full and self.settings.overflow is Overflow.REJECT_PUBLISH_DLX:
            self.vhost.dead_letter(self, QueueEntry(message, 0), DeathReason.MAX_LENGTH, now)
        return full

    def has_room(self, octets: int, now: int) -> bool:
        if self._unlimited:
            return True
        if self.following is not None:
            return False
        if self.consumers.count:
            self.dispatch(now)
        return not self._length_limit.has_no_room(self.ready_count, self.held_octets(), octets)

    def _make_room(self, now: int, arrived: int = 1) -> None:
        # What a consumer can take now does not count against the limit.
        if self.consumers.count:
            self.dispatch(now)
        # More than have come, so that a queue that is far above its limit gets shorter.
        self._drop_excess(now, 2 * arrived)

    def _drop_excess(self, now: int, free_count: int = 0) -> None:
        """Where publishes are refused instead, messages that were requeued or restored stay."""
        limit = self._length_limit
        while (
            limit.drops_head
            and self.following is None
            and self.ready.count
            and limit.is_exceeded(self.ready.count, self.ready_bytes)
        ):
            free_count -= 1
            octets = self.ready_bytes // self.ready.count
            if free_count < 0 and not self.vhost.death_budget.takes(octets, now):
                self.touch()
                return
            # As in RabbitMQ the head goes, which in a priority queue is the highest priority.
            entry = self.ready.pop_first()
            self.ready_bytes -= len(entry.message.body)
            self._die(entry, DeathReason.MAX_LENGTH, now)

    # Messages out.

    def touch(self) -> None:
        if not self.is_touched and self.ready.count:
            self.is_touched = True
            self.vhost.touched.append(self)

    def dispatch(self, now: int) -> None:
        """Give ready entries to consumers, one each in turn, until either runs out."""
        self.is_touched = False
        consumers = self.consumers
        if consumers.selective:
            self._dispatch_selectively(now)
            return
        ready = self.ready
        expires = self._may_expire
        while ready.count:
            consumer = consumers.next_available()
            if consumer is None:
                break
            if now >= self.sample_due:
                self.sample(ready.first(), now)
            if expires:
                if self._expire_head(now, False):
                    break
                self._deliver(ready.pop_first(), consumer)
            elif ready.count > 1 and consumers.alone():
                self._deliver_many(ready, consumer)
            else:
                self._deliver(ready.pop_first(), consumer)
        if expires:
            self._expire_head(now, True)
        if not self._unlimited:
            self._drop_excess(now)

    def _deliver_many(self, ready: ReadyList, consumer: Consumer) -> None:
        """A batch for a consumer that shares the queue with nobody."""
        count = batch_count(ready.count, self.ready_bytes, consumer.credit_count())
        entries = ready.pop_many(count)
        count = len(entries)
        size = 0
        holder = NO_HOLDER if consumer.takes_ownership else consumer.holder
        for entry in entries:
            entry.holder = holder
            size += len(entry.message.body)
            if entry.is_redelivered:
                self.redelivered_total += 1
        self.ready_bytes -= size
        self.delivered_total += count
        if not consumer.takes_ownership:
            self.unacked_count += count
        consumer.take_many(entries)
        if consumer.takes_ownership and self.journal is not None:
            self.journal.dequeued_many(entries)
        for observer in self.observers:
            if consumer.takes_ownership:
                observer.taken_many(entries)
            else:
                observer.delivered_many(entries)

    def _deliver(self, entry: QueueEntry, consumer: Consumer) -> None:
        self.ready_bytes -= len(entry.message.body)
        self.delivered_total += 1
        if entry.is_redelivered:
            self.redelivered_total += 1
        if consumer.takes_ownership:
            consumer.take(entry)
            if self.journal is not None:
                self.journal.dequeued(entry)
            for observer in self.observers:
                observer.taken_many([entry])
            return
        self.unacked_count += 1
        entry.holder = consumer.holder
        consumer.take(entry)
        for observer in self.observers:
            observer.delivered(entry)

    def _dispatch_selectively(self, now: int) -> None:
        if self._expire_head(now, False):
            return
        consumers = list(self.consumers.registered)
        begin_choosing(self.consumers)
        progress = True
        while progress and self.ready.count:
            progress = False
            for consumer in consumers:
                entry = take_wanted(self.ready, self.consumers, consumer, now)
                if entry is not None:
                    if now >= self.sample_due:
                        self.sample(entry, now)
                    self._deliver(entry, consumer)
                    progress = True
        if has_more_to_see(self.consumers):
            self.touch()
        self._expire_head(now, True)

    def get(self, now: int, holder: int = BROKER_ITSELF) -> QueueEntry | None:
        self.check_used_here()
        self.used(now)
        if self._expire_head(now, False):
            return None
        entry = self.ready.pop_first()
        if now >= self.sample_due:
            self.sample(entry, now)
        self.ready_bytes -= len(entry.message.body)
        self.delivered_total += 1
        self.got_total += 1
        self.unacked_count += 1
        entry.holder = holder
        for observer in self.observers:
            observer.delivered(entry)
        return entry

    def take_out(self, walk: Walk, position: int) -> QueueEntry:
        assert walk.level is not None, "it was seen there"
        entry = self.ready.take_from(walk.level, position)
        self.ready_bytes -= len(entry.message.body)
        return entry

    def moved_away(self, entry: QueueEntry) -> None:
        """Observers hear that it was purged: nobody has settled it."""
        self._forget([entry])

    def put_back(self, entry: QueueEntry) -> None:
        self.ready_bytes += len(entry.message.body)
        self.ready.insert(entry)

    # Settlement, also in a queue that was deleted meanwhile.

    def _take_back(self, entries: list[QueueEntry], holder: int) -> list[QueueEntry]:
        """Every settlement begins here: it applies to the holder's own entries, and only once."""
        taken = take_back(entries, holder)
        assert self.unacked_count >= len(taken), "more is settled than was delivered"
        self.unacked_count -= len(taken)
        return taken

    def _dequeue(self, entries: list[QueueEntry], holder: int) -> list[QueueEntry]:
        entries = self._take_back(entries, holder)
        self.acknowledged_total += len(entries)
        if self.journal is not None:
            self.journal.dequeued_many(entries)
        return entries

    def acknowledge_many(self, entries: list[QueueEntry], holder: int = BROKER_ITSELF) -> None:
        entries = self._dequeue(entries, holder)
        if entries:
            for observer in self.observers:
                observer.acknowledged_many(entries)

    def lease_many(self, entries: list[QueueEntry]) -> None:
        entries = self._dequeue(entries, BROKER_ITSELF)
        for observer in self.observers:
            observer.leased_many(entries)

    def acknowledge(self, entry: QueueEntry, holder: int = BROKER_ITSELF) -> None:
        self.acknowledge_many([entry], holder)

    def requeue(
        self, entries: list[QueueEntry], now: int, failed: bool = True, holder: int = BROKER_ITSELF
    ) -> None:
        """Each goes to where it was, now flagged as redelivered."""
        entries = self._take_back(entries, holder)
        if self.is_deleted:
            self._forget(entries)
            return
        exhausted: list[QueueEntry] = []
        entries = flag_returned(entries, failed, self.settings.delivery_limit, exhausted)
        if failed and entries:
            self.has_returns = True
            self.vhost.returned(self, entries)
        # Last one first: each then goes to the head at once.
        for index in range(len(entries) - 1, -1, -1):
            entry = entries[index]
            self.ready_bytes += len(entry.message.body)
            self.ready.insert(entry)
            for observer in self.observers:
                observer.requeued(entry)
            for offered in self.consumers.offered.values():
                offered.came_back(entry.position)
        for entry in exhausted:
            self._die(entry, DeathReason.DELIVERY_LIMIT, now)
        if not self._unlimited:
            self._make_room(now, len(entries))
        if self._may_expire:
            self._expire_head(now, False)
        self.touch()

    def reject(self, entry: QueueEntry, now: int, holder: int = BROKER_ITSELF) -> None:
        """Settled as unwanted: dead-lettered when the queue has a dead-letter exchange."""
        if self._take_back([entry], holder):
            self._die(entry, DeathReason.REJECTED, now)

    def _die(self, entry: QueueEntry, reason: DeathReason, now: int) -> None:
        if self.journal is not None:
            self.journal.dequeued(entry)
        for observer in self.observers:
            observer.dropped(entry, reason.value)
        if self.settings.dead_letter_exchange is not None and not self.is_deleted:
            self.vhost.dead_letter(self, entry, reason, now)

    def _expire_head(self, now: int, with_due: bool) -> bool:
        """Drop dead entries from the head; returns True when nothing may be delivered now.

        `with_due` also drops what is due in this very millisecond: a message with a time to live
        of zero may be delivered in the tick in which it arrived, and not later.
        """
        if not self._may_expire or self.following is not None:
            return self.ready.count == 0
        limit = now + 1 if with_due else now
        entry = self.ready.first()
        budget = self.vhost.death_budget
        while entry is not None and 0 < entry.expires_at < limit:
            octets = len(entry.message.body)
            if not budget.takes(octets, now):
                self._message_expiry.go_on(now)
                return True
            self.ready.pop_first()
            self.ready_bytes -= octets
            self._die(entry, DeathReason.EXPIRED, now)
            entry = self.ready.first()
        self._message_expiry.watch(entry)
        return entry is None

    def expire_messages(self, now: int) -> None:
        if self.vhost.decides():
            self._expire_head(now, True)

    def expire_unused(self, now: int) -> None:
        if self.consumers.count == 0 and not self.is_deleted and self.following is None:
            self.vhost.queue_unused(self, now)

    def add_consumer(self, consumer: Consumer) -> None:
        self.register(consumer)
        if self.auto_delete and not self.had_consumer:
            self.had_consumer = True
            self.vhost.first_consumer(self)
        self._queue_expiry.stop()
        self.touch()

    def remove_consumer(self, consumer: Consumer, now: int) -> None:
        if not self.consumers.remove(consumer):
            return
        if self.consumers.count == 0:
            if self.auto_delete:
                self.vhost.queue_unused(self, now)
                return
            self.used(now)
        self.touch()

    def purge(self, now: int) -> int:
        count = self.ready.count
        positions, locations = self.ready.clear_tail()
        gone = self.ready.clear()
        if len(positions):
            in_memory = sum([len(entry.message.body) for entry in gone])
            self.vhost.paged_out_gone(self, positions, locations, self.ready_bytes - in_memory)
            for observer in self.observers:
                observer.purged(positions)
        self._forget(gone)
        self.ready_bytes = 0
        self.vhost.discarded.add(gone)
        if self._may_expire:
            self._expire_head(now, False)
        return count

    def _forget(self, entries: list[QueueEntry]) -> None:
        if self.journal is not None:
            self.journal.dequeued_many(entries)
        for observer in self.observers:
            for entry in entries:
                observer.dropped(entry, PURGED)

    def deleted(self, now: int) -> None:
        self.purge(now)
        self.is_deleted = True
        self._queue_expiry.stop()
        for consumer in self.consumers.clear():
            consumer.cancelled()
        for observer in self.observers[:]:
            observer.deleted()


class _ExpiringQueue(Expiring):
    """Passes the calls of the timers on to the queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue: Queue = queue

    def expire_messages(self, now: int) -> None:
        self._queue.expire_messages(now)

    def expire_unused(self, now: int) -> None:
        self._queue.expire_unused(now)
