"""A ready list whose tail is not in memory, against a plain list that holds the same."""

from array import array

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.broker.entry import QueueEntry
from penstock.broker.message import NOBODY
from penstock.broker.queues.paged_list import PagedReadyList, PagingLimits
from penstock.broker.queues.queue_journal import MessagePages
from tests.broker.queues.doubles import message

LITTLE = PagingLimits(head_count_max=5, head_count_kept=2, head_bytes_max=400, page_count=4)


class KeptPages(MessagePages):
    """Keeps what is paged out by its location; reads back at most so many at once."""

    def __init__(self, page_max: int = 3) -> None:
        self.kept: dict[int, bytes] = {}
        self.page_max = page_max
        self.out_count = 0
        self._next = 1000

    def page_out(self, entries: list[QueueEntry]) -> list[int]:
        self.out_count += len(entries)
        return [self.add(entry.message.body) for entry in entries]

    def add(self, body: bytes) -> int:
        self._next += 1
        self.kept[self._next] = body
        return self._next

    def page_in(self, positions: list[int], locations: list[int]) -> list[QueueEntry]:
        return [
            QueueEntry(message(self.kept[location]), position)
            for position, location in list(zip(positions, locations, strict=True))[: self.page_max]
        ]

    def forget(self, locations: list[int]) -> None:
        for location in locations:
            del self.kept[location]


def body_of(position: int) -> bytes:
    return b"%d" % position + b"x" * (position % 7 * 20)


class PagedListMachine(RuleBasedStateMachine):
    """The model is the list of positions, and which of them somebody may have seen."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = KeptPages()
        self.page_list: list[PagedReadyList] = []
        self.list = PagedReadyList(self.pages, self.page_list, LITTLE)
        self.model: list[int] = []
        self.seen: set[int] = set()
        self.returns: dict[int, int] = {}
        self.out: list[QueueEntry] = []
        self.next_position = 1

    @initialize(positions=st.lists(st.integers(1, 40), unique=True))
    def restore(self, positions: list[int]) -> None:
        positions.sort()
        locations = [self.pages.add(body_of(position)) for position in positions]
        self.list.restore(array("Q", positions), array("Q", locations))
        self.model = positions
        self.seen = set(positions)
        self.next_position = max(positions, default=0) + 1

    @rule(count=st.integers(1, 12), seen=st.booleans(), together=st.booleans())
    def append(self, count: int, seen: bool, together: bool) -> None:
        entries: list[QueueEntry] = []
        for _ in range(count):
            position = self.next_position
            self.next_position += 1
            entry = QueueEntry(message(body_of(position)), position)
            entry.is_redelivered = seen
            if seen:
                self.seen.add(position)
            entries.append(entry)
            self.model.append(position)
        if together:
            self.list.extend(entries)
            return
        for entry in entries:
            self.list.append(entry)

    @rule()
    def end_of_tick(self) -> None:
        for ready in self.page_list:
            ready.page_out()
        self.page_list.clear()

    def check(self, entry: QueueEntry, position: int) -> None:
        assert entry.position == position
        assert entry.message.body == body_of(position)
        assert entry.is_redelivered == (position in self.seen)
        assert entry.delivery_count == self.returns.get(position, 0)

    @precondition(lambda self: self.model)
    @rule(count=st.integers(1, 9))
    def pop(self, count: int) -> None:
        entries = self.list.pop_many(min(count, len(self.model)))
        assert 1 <= len(entries) <= count
        for entry in entries:
            self.check(entry, self.model.pop(0))
            self.out.append(entry)

    @precondition(lambda self: self.model)
    @rule()
    def pop_first(self) -> None:
        first = self.list.first()
        entry = self.list.pop_first()
        assert first is entry
        self.check(entry, self.model.pop(0))
        self.out.append(entry)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove_from_the_middle(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(self.model))
        start = data.draw(st.integers(0, chosen))
        looked_at = []
        entry = self.list.next_from(start)
        while entry is not None and entry.position != chosen:
            self.check(entry, entry.position)
            looked_at.append(entry.position)
            entry = self.list.next_from(entry.position + 1)
        assert looked_at == [position for position in self.model if start <= position < chosen]
        assert entry is not None, "it is somewhere behind"
        assert self.list.take(chosen) is entry
        self.check(entry, chosen)
        self.model.remove(chosen)
        self.out.append(entry)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.out), min_size=1, unique_by=id))
        for entry in sorted(chosen, key=lambda entry: -entry.position):
            self.out.remove(entry)
            entry.is_redelivered = True
            entry.delivery_count += 1
            self.seen.add(entry.position)
            self.returns[entry.position] = entry.delivery_count
            self.list.insert(entry)
            self.model.append(entry.position)
        self.model.sort()

    @rule()
    def clear(self) -> None:
        positions, locations = self.list.clear_tail()
        for location in locations:
            del self.pages.kept[location]
        gone = [entry.position for entry in self.list.clear()]
        assert sorted(gone + positions.tolist()) == self.model
        self.model = []

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(self.model))
        old = self.list.location_of(position)
        assert (old < 0) == (self.list.entry_of(position) is not None)
        if old < 0:
            assert not self.list.moved(position, 1)
            return
        new = self.pages.add(self.pages.kept.pop(old))
        assert self.list.moved(position, new)
        assert self.list.location_of(position) == new

    @invariant()
    def they_hold_the_same(self) -> None:
        assert self.list.count == len(self.model)
        assert self.list.positions() == self.model
        assert self.list.tail_count() == len(self.pages.kept)


PagedListMachine.TestCase.settings = hypothesis.settings(
    max_examples=150, stateful_step_count=40, deadline=None
)
TestAgainstAPlainList = PagedListMachine.TestCase


def paged_out(count: int) -> tuple[PagedReadyList, KeptPages, list[PagedReadyList]]:
    pages = KeptPages()
    page_list: list[PagedReadyList] = []
    ready = PagedReadyList(pages, page_list, LITTLE)
    for position in range(1, count + 1):
        ready.append(QueueEntry(message(b"m"), position))
    for listed in page_list:
        listed.page_out()
    page_list.clear()
    return ready, pages, page_list


def test_a_short_queue_is_never_paged_out() -> None:
    ready, pages, _ = paged_out(LITTLE.head_count_max)
    assert ready.tail_count() == 0
    assert pages.out_count == 0


def test_a_long_queue_keeps_its_head() -> None:
    ready, _, _ = paged_out(20)
    assert ready.tail_count() == 20 - LITTLE.head_count_kept
    assert ready.count == 20


def test_a_list_asks_to_be_paged_out_once_per_tick() -> None:
    ready, _, page_list = paged_out(20)
    for position in range(21, 40):
        ready.append(QueueEntry(message(b"m"), position))
    assert page_list == [ready]


def test_few_large_messages_are_paged_out_too() -> None:
    page_list: list[PagedReadyList] = []
    ready = PagedReadyList(KeptPages(), page_list, LITTLE)
    for position in range(1, 6):
        ready.append(QueueEntry(message(b"x" * 100), position))
    assert page_list == [ready]
    ready.page_out()
    assert ready.tail_count() == 3


def test_what_came_back_is_paged_out_with_what_is_known_of_it() -> None:
    ready, _, page_list = paged_out(20)
    taken: list[QueueEntry] = []
    while ready.count:
        taken += ready.pop_many(20)
    for entry in reversed(taken):
        entry.is_redelivered = True
        entry.delivery_count = entry.position * 1000
        ready.insert(entry)
    ready.append(QueueEntry(message(b"m"), 21))
    for listed in page_list:
        listed.page_out()
    assert ready.tail_count() == 21 - LITTLE.head_count_kept
    again: list[QueueEntry] = []
    while len(again) < 21:
        again += ready.pop_many(30)
    assert [entry.is_redelivered for entry in again] == [True] * 20 + [False]
    assert [entry.delivery_count for entry in again] == [n * 1000 for n in range(1, 21)] + [0]


def test_the_last_of_the_tail_that_was_taken_and_came_back_is_found_by_its_position() -> None:
    """A consumer that chooses took it out of the middle, and gave it back."""
    ready, _, page_list = paged_out(20)
    entry = ready.next_from(20)
    assert entry is not None
    assert ready.take(20) is entry
    ready.insert(entry)
    for listed in page_list:
        listed.page_out()
    assert ready.positions() == list(range(1, 21))
    assert ready.entry_of(20) is not None or ready.location_of(20) >= 0
    assert ready.next_from(20) is ready.take(20)
    assert ready.positions() == list(range(1, 20))


def test_what_came_out_of_the_journal_is_flagged_and_nobodys() -> None:
    pages = KeptPages()
    ready = PagedReadyList(pages, [], LITTLE)
    ready.restore(array("Q", [3, 5]), array("Q", [pages.add(b"a"), pages.add(b"b")]))
    ready.append(QueueEntry(message(b"new"), 6))
    entries = [ready.pop_first() for _ in range(3)]
    assert [entry.is_redelivered for entry in entries] == [True, True, False]
    assert [entry.message.origin == NOBODY for entry in entries] == [True, True, False]


def test_a_list_is_restored_before_anything_else() -> None:
    ready, pages, _ = paged_out(1)
    with pytest.raises(AssertionError, match="before anything arrives"):
        ready.restore(array("Q", [1]), array("Q", [pages.add(b"a")]))


def together(first: int, count: int, size: int) -> list[QueueEntry]:
    return [QueueEntry(message(b"x" * size), first + place) for place in range(count)]


def test_what_arrives_together_and_is_little_needs_no_look_at_the_end_of_the_tick() -> None:
    """A replicated queue gets all of a tick together; there may be thousands of queues."""
    page_list: list[PagedReadyList] = []
    ready = PagedReadyList(KeptPages(), page_list, LITTLE)
    for first in range(1, 20, 2):
        ready.extend(together(first, 2, 10))
        assert page_list == []
        assert [entry.position for entry in ready.pop_many(2)] == [first, first + 1]
    ready.extend(together(50, 3, 10))
    assert page_list == [ready]


def test_what_arrives_together_and_has_many_octets_is_looked_at() -> None:
    pages = KeptPages()
    page_list: list[PagedReadyList] = []
    ready = PagedReadyList(pages, page_list, LITTLE)
    ready.extend(together(1, 2, 300))
    assert page_list == [ready]
    ready.page_out()
    assert pages.out_count == 1
    assert ready.positions() == [1, 2]
