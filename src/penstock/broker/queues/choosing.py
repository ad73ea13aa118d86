"""Which entry a selective consumer gets: no-local, selectors, sizes."""

from penstock.broker.consumer import Consumer
from penstock.broker.entry import QueueEntry
from penstock.broker.queues.consumers import Consumers
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.walk import PASSED_OVER_MAX, Offered


def begin_choosing(consumers: Consumers) -> None:
    """A dispatch begins: every consumer may again skip as many entries as one tick allows."""
    for consumer in consumers.registered:
        offered = consumers.offered.get(consumer)
        if offered is None:
            offered = Offered()
            consumers.offered[consumer] = offered
        offered.budget = PASSED_OVER_MAX


def take_wanted(
    ready: ReadyList, consumers: Consumers, consumer: Consumer, now: int
) -> QueueEntry | None:
    """Take out the first living entry that a consumer wants and can take; None when there is none,
    when another one is the active consumer, or when it has passed over enough for this tick.
    """
    active = consumers.active
    if (active is not None and active is not consumer) or not consumer.can_take():
        return None
    offered = consumers.offered[consumer]
    while offered.budget > 0:
        entry = offered.next_returned(ready) or offered.next(ready)
        if entry is None:
            return None
        is_dead = 0 < entry.expires_at < now
        if not is_dead and (not consumer.selective or consumer.wants(entry)):
            assert offered.level is not None, "it was seen there"
            return ready.take_from(offered.level, entry.position)
        offered.budget -= 1
    return None


def has_more_to_see(consumers: Consumers) -> bool:
    """Whether a consumer stopped looking before the end and could take more."""
    for consumer, offered in consumers.offered.items():
        if offered.budget <= 0 and consumer.can_take():
            return True
    return False
