"""Answers in the order of what was published: none before an earlier message is complete and durable."""

from collections import deque

from penstock.dialects.container import Durability, EndOfTickAnswer


class OrderedAnswers(EndOfTickAnswer):
    """What the confirms of a channel and the outcomes of a link have in common: which numbers can be
    answered. Held by the messages until they are complete.
    """

    def __init__(self, answer_list: list[EndOfTickAnswer], durability: Durability) -> None:
        # Those who have something to answer at the end of this tick.
        self._answer_list: list[EndOfTickAnswer] = answer_list
        self._is_listed: bool = False
        self._durability: Durability = durability
        # The last number given to a message, and the last one that was answered.
        self.sequence: int = 0
        self._answered: int = 0
        self._held: deque[int] = deque()
        self._completed: set[int] = set()
        # The first number of this tick whose message was written down, or 0; and for earlier ticks
        # such numbers with the journal position that must become safe first.
        self._first_journalled: int = 0
        self._waits: deque[tuple[int, int]] = deque()
        self.closed: bool = False
        # Up to which number the ticks of messages are known; and for those that were not answered
        # in their own tick, the last number of each tick and when it began.
        self._seen: int = 0
        self._arrivals: deque[tuple[int, int]] = deque()

    def answered(self) -> int:
        """How many messages were confirmed, or refused."""
        return self._answered

    def listed(self) -> None:
        """`flush` is called when the tick ends."""
        if not self._is_listed:
            self._is_listed = True
            self._answer_list.append(self)

    def held(self, sequence: int) -> None:
        self._held.append(sequence)

    def completed(self, sequence: int) -> None:
        self._completed.add(sequence)
        self.listed()

    def journalled(self, sequence: int) -> None:
        """The message was journalled: its answer, and all later ones, wait for the flush."""
        if self._first_journalled == 0:
            self._first_journalled = sequence

    def is_waiting(self) -> bool:
        return bool(self._waits)

    def became_durable(self) -> None:
        self.listed()

    def answerable(self) -> int:
        """Up to which number everything is complete and durable; for `flush`, once per tick."""
        held = self._held
        while held and held[0] in self._completed:
            self._completed.discard(held.popleft())
        limit = held[0] - 1 if held else self.sequence
        if self._first_journalled:
            self._waits.append((self._first_journalled, self._durability.written))
            self._first_journalled = 0
        waits = self._waits
        while waits and waits[0][1] <= self._durability.durable:
            waits.popleft()
        if waits and waits[0][0] <= limit:
            limit = waits[0][0] - 1
        if self.sequence > self._seen or limit > self._answered:
            self._take_times(limit)
        return limit

    def _take_times(self, limit: int) -> None:
        """Everything up to the limit is answered now."""
        durability = self._durability
        arrivals = self._arrivals
        if self.sequence > self._seen:
            self._seen = self.sequence
            if limit == self.sequence and not arrivals:
                durability.times.answered(durability.tick_began, limit - self._answered)
                return
            arrivals.append((self.sequence, durability.tick_began))
        answered = self._answered
        while answered < limit:
            last, came = arrivals[0]
            until = min(last, limit)
            durability.times.answered(came, until - answered)
            answered = until
            if last <= limit:
                arrivals.popleft()
