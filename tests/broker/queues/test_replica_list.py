"""The list of a backup's queue, against a dictionary of what it should hold."""

from array import array
from itertools import pairwise

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.ready_list import merged
from penstock.broker.queues.replica_list import (
    COMPACT_COUNT,
    ReplicaList,
    progression,
    ranges_of,
)
from tests.broker.queues.doubles import message


class ReplicaListMachine(RuleBasedStateMachine):
    """The model is a location by position."""

    def __init__(self) -> None:
        super().__init__()
        self.list = ReplicaList()
        self.model: dict[int, int] = {}
        self.used: set[int] = set()
        # Deliveries of those that came back.
        self.counts: dict[int, int] = {}
        self.next_location = 5000

    def new_location(self) -> int:
        self.next_location += 1
        return self.next_location

    @rule(gap=st.integers(0, 3), count=st.integers(1, 8))
    def add_behind(self, gap: int, count: int) -> None:
        first = max(self.used, default=0) + 1 + gap
        for position in range(first, first + count):
            location = self.new_location()
            self.list.add(position, location)
            self.model[position] = location
            self.used.add(position)

    @rule(first=st.integers(1, 60), count=st.integers(1, 8), step=st.integers(1, 300))
    def add_a_run_anywhere(self, first: int, count: int, step: int) -> None:
        positions = range(first, first + count)
        if self.used.isdisjoint(positions):
            location = self.new_location()
            self.next_location += count * step
            self.list.add_run(first, count, location, step)
            self.model.update({p: location + (p - first) * step for p in positions})
            self.used.update(positions)

    @rule(positions=st.lists(st.integers(1, 60), unique=True))
    def add_many_anywhere(self, positions: list[int]) -> None:
        new = sorted(set(positions) - self.used)
        locations = [self.new_location() for _ in new]
        self.list.add_many(array("Q", new), array("Q", locations))
        self.model.update(zip(new, locations, strict=True))
        self.used.update(new)

    @rule(position=st.integers(1, 60))
    def add_one_anywhere(self, position: int) -> None:
        if position not in self.used:
            location = self.new_location()
            self.list.add(position, location)
            self.model[position] = location
            self.used.add(position)

    @rule(first=st.integers(0, 70), count=st.integers(1, 20))
    def remove_a_range(self, first: int, count: int) -> None:
        gone = [self.model.pop(p) for p in sorted(self.model) if first <= p < first + count]
        assert self.list.remove_range(first, count).tolist() == gone

    @precondition(lambda self: self.model)
    @rule(count=st.integers(1, 5))
    def remove_at_the_front(self, count: int) -> None:
        self.remove_a_range(min(self.model), count)

    @rule(first=st.integers(1, 60), count=st.integers(1, 8), deliveries=st.integers(1, 40_000))
    def note_returns(self, first: int, count: int, deliveries: int) -> None:
        """Also of what is gone, and not of what is yet to come."""
        count = min(count, max(self.used, default=0) + 1 - first)
        self.list.note_returns(first, count, deliveries)
        for position in range(first, first + count):
            if position in self.model:
                self.counts[position] = min(deliveries, 0x7FFE)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.model)))
        self.model[position] = self.new_location()
        assert self.list.moved(position, self.model[position])

    @rule(position=st.integers(0, 80))
    def move_what_is_not_there(self, position: int) -> None:
        if position not in self.model:
            assert not self.list.moved(position, 1)

    @rule()
    def take_all(self) -> None:
        positions, locations = self.list.take_all()
        assert dict(zip(positions.tolist(), locations.tolist(), strict=True)) == self.model
        assert positions.tolist() == sorted(self.model)
        self.model = {}

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        wanted = sorted(self.model)
        assert self.list.count == len(wanted)
        assert self.list.positions() == wanted
        assert self.list.oldest_position() == (wanted[0] if wanted else -1)
        assert [self.list.location_of(position) for position in range(80)] == [
            self.model.get(position, -1) for position in range(80)
        ]
        positions, locations = self.list.between(10, 20)
        assert positions.tolist() == [p for p in wanted if 10 <= p < 30]
        assert locations.tolist() == [self.model[p] for p in wanted if 10 <= p < 30]
        spread = [p for first, count in self.list.ranges() for p in range(first, first + count)]
        assert spread == wanted
        counts = [(p, self.counts[p]) for p in wanted if p in self.counts]
        assert self.list.delivery_counts() == counts


TestReplicaListMachine = ReplicaListMachine.TestCase
TestReplicaListMachine.settings = hypothesis.settings(max_examples=60, stateful_step_count=30)


def test_counts_may_be_known_before_the_messages() -> None:
    """A backup reads definitions and counts first when it starts."""
    ready = ReplicaList()
    ready.note_returns(3, 4, 2)
    ready.note_returns(4, 1, 3)
    ready.note_returns(9, 1, 1)
    ready.add_many(array("Q", [1, 3, 4, 6, 8]), array("Q", [10, 30, 40, 60, 80]))
    assert ready.delivery_counts() == [(3, 2), (4, 3), (6, 2)]


@hypothesis.given(st.lists(st.integers(0, 100), unique=True))
def test_ranges_are_as_few_as_possible(positions: list[int]) -> None:
    positions.sort()
    found = ranges_of(array("Q", positions))
    assert [p for first, count in found for p in range(first, first + count)] == positions
    for (first, count), (following, _) in pairwise(found):
        assert first + count < following


@hypothesis.given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), unique_by=lambda p: p[0]))
def test_two_lists_are_merged_in_order(drawn: list[tuple[int, bool]]) -> None:
    drawn.sort()
    some = array("Q", [p for p, of_some in drawn if of_some])
    others = array("Q", [p for p, of_some in drawn if not of_some])
    positions, locations = merged((some, array("Q", some)), (others, array("Q", others)))
    assert positions.tolist() == [p for p, _ in drawn]
    assert locations.tolist() == [p for p, _ in drawn]


@hypothesis.given(
    st.integers(0, 1 << 62), st.one_of(st.integers(0, 600), st.just(256)), st.integers(1, 1 << 30)
)
def test_a_progression_is_what_a_range_is(first: int, count: int, step: int) -> None:
    assert progression(first, count, step).tolist() == list(
        range(first, first + count * step, step)
    )


def test_a_long_queue_that_drains_gives_its_memory_back() -> None:
    ready = ReplicaList()
    for position in range(1, 4 * COMPACT_COUNT):
        ready.add(position, position)
    ready.remove_range(1, 3 * COMPACT_COUNT)
    assert len(ready._positions) == ready.count == COMPACT_COUNT - 1


def test_what_lies_in_ranges_is_counted_without_what_has_gone() -> None:
    ready = ReplicaList()
    ready.add_many(array("Q", range(10, 30)), array("Q", range(100, 120)))
    ready.remove_range(10, 2)
    assert ready.count_in([(1, 5), (8, 6), (20, 100)]) == 12
    assert ready.locations().tolist() == list(range(102, 120))
    ready.remove_range(20, 3)
    ready.remove_range(25, 1)
    assert ready.count_in([(12, 4), (19, 5), (25, 2)]) == 7
    assert ready.locations().tolist() == [*range(102, 110), 113, 114, *range(116, 120)]
    assert ready.count_in([]) == 0


def test_sixteen_octets_per_message_and_eighteen_once_one_came_back() -> None:
    ready = ReplicaList()
    for position in range(1, 1001):
        ready.add(position, position)

    def octets() -> int:
        arrays = [ready._positions, ready._locations, ready._marks]
        return sum(numbers.itemsize * len(numbers) for numbers in arrays)

    assert octets() == 16_000
    ready.remove_range(1, 10)
    assert octets() == 16_000
    ready.note_returns(500, 1, 2)
    assert octets() == 18_000
    assert ready.delivery_counts() == [(500, 2)]


def test_nothing_of_it_can_be_delivered() -> None:
    ready = ReplicaList()
    ready.add(1, 100)
    assert ready.first() is None
    assert ready.next_from(0) is None
    assert ready.entry_of(1) is None
    assert ready.in_memory_count() == 0
    for change in (ready.append, ready.insert):
        with pytest.raises(AssertionError):
            change(QueueEntry(message(b"x"), 2))
    with pytest.raises(AssertionError):
        ready.extend([QueueEntry(message(b"x"), 2)])
