"""The consumers of one queue, in turn.

Seed 002: "The event loop loops over each consumer and synchronously attempts delivery of exactly
one item." Consumers of a higher priority are asked before all others; within a priority each gets
one message in turn; with a single active consumer only the first registered one is asked.
"""

from typing import Final

from penstock.broker.consumer import Consumer
from penstock.broker.queues.walk import Offered

# A lone consumer gets up to this many messages, or about this many octets, before the room in its
# socket buffer is checked again.
BATCH_COUNT_MAX: Final = 128
BATCH_BYTES_MAX: Final = 64 * 1024


def batch_count(ready_count: int, ready_bytes: int, credit_count: int) -> int:
    """How many messages a lone consumer is given at once: about BATCH_BYTES_MAX, by the average size
    of what is ready.
    """
    count = min(ready_count, credit_count, BATCH_COUNT_MAX)
    if ready_bytes > BATCH_BYTES_MAX:
        count = min(count, max(1, BATCH_BYTES_MAX * ready_count // ready_bytes))
    return count


class Turn:
    """Consumers of one priority and whose turn it is."""

    def __init__(self, priority: int) -> None:
        self.priority: int = priority
        self.consumers: list[Consumer] = []
        self.next: int = 0


class Consumers:
    """Who is registered with a queue. Held by the queue."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._single_active: bool = False
        self.active: Consumer | None = None
        # In order of registration; the next active consumer is the first of these.
        self.registered: list[Consumer] = []
        self.count: int = 0
        # The only consumer while there is just one, which is the usual case.
        self._only: Consumer | None = None
        self.exclusive: bool = False
        # True while some consumer chooses by message (no-local, selectors).
        self.selective: bool = False
        # How far each has been asked what it wants, once some consumer has chosen.
        self.offered: dict[Consumer, Offered] = {}

    def set_single_active(self, single_active: bool) -> None:
        self._single_active = single_active
        self._choose_active()

    def add(self, consumer: Consumer) -> None:
        self.registered.append(consumer)
        self.count += 1
        self.exclusive = consumer.exclusive
        self.selective = self.selective or consumer.selective
        for turn in self._turns:
            if turn.priority == consumer.priority:
                turn.consumers.append(consumer)
                break
        else:
            turn = Turn(consumer.priority)
            turn.consumers.append(consumer)
            place = 0
            while place < len(self._turns) and self._turns[place].priority > turn.priority:
                place += 1
            self._turns.insert(place, turn)
        self._choose_only()
        self._choose_active()

    def remove(self, consumer: Consumer) -> bool:
        """Returns False when it was not registered."""
        if consumer not in self.registered:
            return False
        self.registered.remove(consumer)
        self.offered.pop(consumer, None)
        self.count -= 1
        if consumer.exclusive:
            self.exclusive = False
        for turn in self._turns:
            if consumer in turn.consumers:
                turn.consumers.remove(consumer)
                turn.next = 0
                if not turn.consumers:
                    self._turns.remove(turn)
                break
        self.selective = any([other.selective for other in self.registered])
        if self.active is consumer:
            self.active = None
        self._choose_only()
        self._choose_active()
        return True

    def _choose_only(self) -> None:
        self._only = self.registered[0] if self.count == 1 else None

    def _choose_active(self) -> None:
        if not self._single_active:
            self.active = None
            return
        if self.active is None and self.registered:
            self.active = self.registered[0]
            self.active.activated(True)

    def next_available(self) -> Consumer | None:
        """Whose turn it is among those that can take a message now."""
        if self._single_active:
            active = self.active
            if active is not None and active.can_take():
                return active
            return None
        only = self._only
        if only is not None:
            return only if only.can_take() else None
        for turn in self._turns:
            consumers = turn.consumers
            length = len(consumers)
            place = turn.next
            for _ in range(length):
                if place >= length:
                    place = 0
                consumer = consumers[place]
                place += 1
                if consumer.can_take():
                    turn.next = place
                    return consumer
        return None

    def is_active(self, consumer: Consumer) -> bool:
        """Whether messages may go to it now, as far as the others matter."""
        return not self._single_active or consumer is self.active

    def alone(self) -> bool:
        """Whether only one consumer can be available, so that it may take a batch."""
        return self.count == 1 or self._single_active

    def clear(self) -> list[Consumer]:
        gone = self.registered
        self.registered = []
        self.offered = {}
        self._turns = []
        self.active = None
        self.count = 0
        self._only = None
        self.exclusive = False
        self.selective = False
        return gone
