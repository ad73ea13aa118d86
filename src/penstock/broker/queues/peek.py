"""Looking at messages of a queue without touching them: neither their order, nor their flags, nor
their expiry change, and nobody gets them for it.

A peek goes from a place to the next messages that a selector wants, in steps of bounded size with
others in between. Where it stopped is a place again, which stays valid while messages come and go:
it is a position, and positions are not used twice.

Invariant: what is peeked at is a copy of what the queue says; an entry of the queue is not kept.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.walk import Walk
from penstock.broker.selectors.message_subject import MessageSubject
from penstock.broker.selectors.selector import Selector

# Messages that are looked at in one step: well below a millisecond in memory, and at most one page
# that is read from disk, about two milliseconds.
STEP_LOOKED_AT: Final = 256
# Large ones are fewer: so many bytes of headers and bodies are read from disk and checked in a
# millisecond or two.
STEP_BYTES: Final = 1024 * 1024
# And in one peek, before it answers with what it has found; the caller goes on from `next`.
LOOKED_AT_MAX: Final = 100_000


class PeekPlace:
    """Where a peek begins, or goes on: a position, in queues with priorities of one level."""

    def __init__(self, level: int, position: int) -> None:
        self.level: int = level
        self.position: int = position


class Peeked:
    """One message as it was when it was looked at. Held by who asked."""

    def __init__(self, entry: QueueEntry, age_ms: int) -> None:
        self.message: Message = entry.message
        self.position: int = entry.position
        self.is_redelivered: bool = entry.is_redelivered
        self.delivery_count: int = entry.delivery_count
        # `now` at which it is dead; 0 for never.
        self.expires_at: int = entry.expires_at
        self.age_ms: int = age_ms


class Peek:
    """Held by who asked, while it goes on."""

    def __init__(
        self,
        queue: MessageQueue,
        place: PeekPlace,
        selector: Selector | None,
        count: int,
        body_bytes: int,
        answer_bytes: int,
    ) -> None:
        """At most `count` messages, and about `answer_bytes` of their headers and of their bodies, of
        which each counts up to `body_bytes`.
        """
        self._queue: MessageQueue = queue
        self._walk: Walk = Walk(place.level, place.position)
        self._selector: Selector | None = selector
        self._count: int = count
        self._body_bytes: int = body_bytes
        self._answer_bytes: int = answer_bytes
        self.looked_at: int = 0
        self.found: list[Peeked] = []
        # Whether there is nothing behind it for now.
        self.is_at_end: bool = False

    def step(self, now: int) -> bool:
        """Look at some messages; False when it is over. Raises `Damaged` where a stream is."""
        octets = STEP_BYTES
        for _ in range(STEP_LOOKED_AT):
            if self.is_full():
                return False
            entry = None if self._queue.is_deleted else self._queue.look_on(self._walk)
            if entry is None:
                self.is_at_end = True
                return False
            self.looked_at += 1
            self.see(entry, now)
            octets -= len(entry.message.body) + len(entry.message.properties.encoded())
            if octets <= 0:
                break
        return True

    def is_full(self) -> bool:
        """Whether it has as much as one answer may."""
        return (
            self._answer_bytes <= 0
            or self.looked_at >= LOOKED_AT_MAX
            or len(self.found) >= self._count
        )

    def see(self, entry: QueueEntry, now: int) -> None:
        if self._selector is not None:
            subject = MessageSubject(entry.message, entry.delivery_count, entry.is_redelivered)
            if not self._selector.matches(subject):
                return
        self.found.append(Peeked(entry, self._queue.age_ms_of(entry.position, now)))
        message = entry.message
        self._answer_bytes -= len(message.properties.encoded())
        self._answer_bytes -= min(len(message.body), self._body_bytes)

    @property
    def next(self) -> PeekPlace:
        """Where the next peek goes on."""
        return PeekPlace(self._walk.level_number, self._walk.position())


class PeekAtHeld:
    """The same among messages that are out with consumers, which somebody else has gathered."""

    def __init__(self, peek: Peek, first: int, entries: list[QueueEntry]) -> None:
        self._peek: Peek = peek
        self._entries: list[QueueEntry] = sorted(
            [entry for entry in entries if entry.position >= first], key=_position_of
        )
        self._at: int = 0
        self.next_position: int = first

    def step(self, now: int) -> bool:
        peek = self._peek
        end = min(self._at + STEP_LOOKED_AT, len(self._entries))
        while self._at < end:
            if peek.is_full():
                return False
            entry = self._entries[self._at]
            self._at += 1
            self.next_position = entry.position + 1
            peek.looked_at += 1
            peek.see(entry, now)
        peek.is_at_end = self._at == len(self._entries)
        return not peek.is_at_end


def _position_of(entry: QueueEntry) -> int:
    return entry.position
