"""Settling deliveries: ack, nack, reject, recover.

An unknown tag is a channel error, as the specification says and RabbitMQ does; nothing is settled
then, not even the known tags below it.
"""

from enum import Enum

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp091.deliveries import Deliveries
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.reply_codes_generated import PRECONDITION_FAILED


class Outcome(Enum):
    """How a delivery is settled."""

    ACKNOWLEDGED = 1
    REQUEUED = 2
    REJECTED = 3


def check_tag(deliveries: Deliveries, tag: int, multiple: bool) -> None:
    """Refuse a tag that is not outstanding; 0 with `multiple` stands for all there are."""
    if (multiple and tag == 0) or deliveries.unacknowledged.holds(tag):
        return
    raise ChannelFault(PRECONDITION_FAILED, f"unknown delivery tag {tag}", 0, 0)


class StagedTags:
    """Delivery tags whose settlement waits for the commit of a transaction. Held by it; a new one
    after each commit and rollback.

    A tag is settled once: from the acknowledgement on it is taken, also while the transaction is
    open, and a second one is refused when it arrives and not in the middle of the commit.
    """

    def __init__(self) -> None:
        self._tags: set[int] = set()
        # Everything up to here, by an acknowledgement of many.
        self._up_to: int = 0

    def holds(self, tag: int) -> bool:
        return tag <= self._up_to or tag in self._tags

    def add(self, tag: int, multiple: bool) -> None:
        if not multiple:
            self._tags.add(tag)
        elif tag > self._up_to:
            self._up_to = tag


def stage_tag(deliveries: Deliveries, staged: StagedTags, tag: int, multiple: bool) -> None:
    """Stage a settlement until the commit. Refuses a tag that is not outstanding, or that another
    settlement of the transaction covers.
    """
    check_tag(deliveries, tag, multiple)
    if multiple and tag == 0:
        tag = deliveries.tag
    elif staged.holds(tag):
        raise ChannelFault(PRECONDITION_FAILED, f"unknown delivery tag {tag}", 0, 0)
    staged.add(tag, multiple)


def settle(deliveries: Deliveries, tag: int, multiple: bool, outcome: Outcome, now: int) -> None:
    """Settle one delivery, or all up to a tag."""
    check_tag(deliveries, tag, multiple)
    unacknowledged = deliveries.unacknowledged
    if multiple:
        begin = unacknowledged.head()
        end = unacknowledged.end_of(tag)
    else:
        begin = unacknowledged.slot_of(tag)
        end = begin + 1
    if outcome is Outcome.ACKNOWLEDGED:
        _acknowledge(deliveries, begin, end)
    elif outcome is Outcome.REJECTED:
        _reject(deliveries, begin, end, now)
    else:
        _requeue(deliveries, begin, end, now)


def _acknowledge(deliveries: Deliveries, begin: int, end: int) -> None:
    """Queue by queue: each has delivered what it had in a tick at once."""
    unacknowledged = deliveries.unacknowledged
    slot = begin
    while slot < end:
        consumer = unacknowledged.consumer_at(slot)
        if consumer is None:
            slot += 1
            continue
        entries = unacknowledged.settle_run(slot, end)
        consumer.queue.acknowledge_many(entries, deliveries.holder)
        consumer.settled(len(entries))
        slot += len(entries)
    unacknowledged.trim()


def _reject(deliveries: Deliveries, begin: int, end: int, now: int) -> None:
    unacknowledged = deliveries.unacknowledged
    for slot in range(begin, end):
        entry = unacknowledged.entry_at(slot)
        consumer = unacknowledged.consumer_at(slot)
        if entry is not None and consumer is not None:
            unacknowledged.settle(slot)
            deliveries.returned += 1
            consumer.queue.reject(entry, now, deliveries.holder)
            consumer.settled(1)
    unacknowledged.trim()


def _requeue(
    deliveries: Deliveries, begin: int, end: int, now: int, kept: StagedTags | None = None
) -> None:
    unacknowledged = deliveries.unacknowledged
    returned: dict[MessageQueue, list[QueueEntry]] = {}
    for slot in range(begin, end):
        entry = unacknowledged.entry_at(slot)
        consumer = unacknowledged.consumer_at(slot)
        if entry is not None and consumer is not None:
            if kept is not None and kept.holds(unacknowledged.tag_of(slot)):
                continue
            unacknowledged.settle(slot)
            deliveries.returned += 1
            consumer.settled(1)
            entries = returned.get(consumer.queue)
            if entries is None:
                returned[consumer.queue] = [entry]
            else:
                entries.append(entry)
    unacknowledged.trim()
    for queue, entries in returned.items():
        queue.requeue(entries, now, True, deliveries.holder)


def requeue_all(deliveries: Deliveries, now: int, kept: StagedTags | None = None) -> None:
    """Requeue everything unsettled: for basic.recover, which leaves what waits for a commit, or
    because the channel has ended.
    """
    unacknowledged = deliveries.unacknowledged
    _requeue(deliveries, unacknowledged.head(), unacknowledged.end_of(0), now, kept)
