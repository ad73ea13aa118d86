"""Deliveries of one channel that wait for their acknowledgement, by delivery tag.

Tags of a channel count up without gaps, so the deliveries stand in two parallel lists and a tag is
an index. Settled slots become None; the head moves over them.

Invariants: slot i holds tag `_first_tag + i`; slots before the head are None; `count` is the
number of slots that hold an entry.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.consumer import Consumer
from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.sampled import sampled_bytes
from penstock.dialects.unsettled_part import UnsettledPart

# Settled slots before the head are cut off when they are this many and at least half.
COMPACT_SLOTS_MIN: Final = 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class Receiver(Consumer):
    """A consumer that settles what it received."""

    def __init__(
        self, queue: MessageQueue, tag: str, priority: int, exclusive: bool, takes_ownership: bool
    ) -> None:
        super().__init__(tag, priority, exclusive, takes_ownership)
        self.queue: MessageQueue = queue

    def settled(self, count: int) -> None:
        """This many of its deliveries were acknowledged, rejected or requeued."""
        raise NotImplementedError


class Unacknowledged:
    """Held by one channel."""

    def __init__(self) -> None:
        self._entries: list[QueueEntry | None] = []
        self._consumers: list[Receiver | None] = []
        self._head: int = 0
        self._first_tag: int = 1
        self.count: int = 0

    def add(self, tag: int, entry: QueueEntry, consumer: Receiver) -> None:
        slot = tag - self._first_tag
        length = len(self._entries)
        if slot != length:
            # Tags in between went to deliveries that need no acknowledgement.
            if self.count == 0:
                self._restart_at(tag)
            else:
                self._entries.extend([None] * (slot - length))
                self._consumers.extend([None] * (slot - length))
        self._entries.append(entry)
        self._consumers.append(consumer)
        self.count += 1

    def add_many(self, tag: int, entries: list[QueueEntry], consumer: Receiver) -> None:
        """Entries with tags from `tag` on, all delivered to one consumer."""
        self.add(tag, entries[0], consumer)
        if len(entries) > 1:
            self._entries.extend(entries[1:])
            self._consumers.extend([consumer] * (len(entries) - 1))
            self.count += len(entries) - 1

    def _restart_at(self, tag: int) -> None:
        self._entries = []
        self._consumers = []
        self._head = 0
        self._first_tag = tag

    def holds(self, tag: int) -> bool:
        slot = tag - self._first_tag
        return self._head <= slot < len(self._entries) and self._entries[slot] is not None

    def end_of(self, tag: int) -> int:
        """One past the slot of a tag; 0 stands for every tag."""
        return len(self._entries) if tag == 0 else tag - self._first_tag + 1

    def entry_at(self, slot: int) -> QueueEntry | None:
        return self._entries[slot]

    def consumer_at(self, slot: int) -> Receiver | None:
        return self._consumers[slot]

    def head(self) -> int:
        """First slot that may hold an entry."""
        return self._head

    def tag_of(self, slot: int) -> int:
        return self._first_tag + slot

    def slot_of(self, tag: int) -> int:
        return tag - self._first_tag

    def settle(self, slot: int) -> None:
        """Forget one delivery. The caller calls `trim` when it is done."""
        self._entries[slot] = None
        self._consumers[slot] = None
        self.count -= 1

    def settle_run(self, begin: int, end: int) -> list[QueueEntry]:
        """Forget the delivery of slot `begin`, which holds one, and all that follow it before slot
        `end` and went to the same consumer; returns them. A multiple acknowledgement settles a few
        such runs, and not every delivery by itself.
        """
        consumers = self._consumers
        consumer = consumers[begin]
        after = begin + 1
        while after < end and consumers[after] is consumer:
            after += 1
        entries = [entry for entry in self._entries[begin:after] if entry is not None]
        count = after - begin
        assert len(entries) == count, "both lists hold the same slots"
        gone: list[QueueEntry | None] = [None] * count
        self._entries[begin:after] = gone
        nobody: list[Receiver | None] = [None] * count
        consumers[begin:after] = nobody
        self.count -= count
        return entries

    def add_to(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        """Append everything that is outstanding."""
        self.add_between(self._first_tag, self.end_tag(), found)

    def end_tag(self) -> int:
        """The tag of the next delivery, if it follows without a gap."""
        return self._first_tag + len(self._entries)

    def add_between(
        self, first: int, end: int, found: list[tuple[MessageQueue, QueueEntry]]
    ) -> None:
        """Append what is outstanding of the tags from `first` to before `end`."""
        length = len(self._entries)
        for slot in range(
            max(first - self._first_tag, self._head), min(end - self._first_tag, length)
        ):
            entry = self._entries[slot]
            consumer = self._consumers[slot]
            if entry is not None and consumer is not None:
                found.append((consumer.queue, entry))

    def held_bytes(self) -> int:
        """Octets of the bodies of everything that is outstanding, by a sample when it is much."""
        return sampled_bytes(self._entries, self._head, self.count)

    def trim(self) -> None:
        """Move the head over what is settled."""
        entries = self._entries
        head = self._head
        length = len(entries)
        if self.count == 0:
            self._restart_at(self._first_tag + length)
            return
        while head < length and entries[head] is None:
            head += 1
        self._head = head
        if head >= COMPACT_SLOTS_MIN and head * 2 >= length:
            del self._entries[:head]
            del self._consumers[:head]
            self._first_tag += head
            self._head = 0


class UnacknowledgedPart(UnsettledPart):
    """Of one channel. Its tags say how far it is, whatever is settled meanwhile."""

    def __init__(self, unacknowledged: Unacknowledged) -> None:
        super().__init__()
        self._unacknowledged: Unacknowledged = unacknowledged
        self._tag: int = unacknowledged.tag_of(unacknowledged.head())
        self._end: int = unacknowledged.end_tag()

    def take(self, count: int) -> list[tuple[MessageQueue, QueueEntry]]:
        found: list[tuple[MessageQueue, QueueEntry]] = []
        end = min(self._tag + count, self._end)
        self._unacknowledged.add_between(self._tag, end, found)
        self._tag = end
        self.is_over = end == self._end
        return found
