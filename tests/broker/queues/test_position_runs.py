"""Positions as runs, against the list of numbers that they stand for."""

from array import array
from bisect import bisect_left
from itertools import pairwise

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.broker.queues.position_runs import PositionRuns, progression, runs_of


class PositionRunsMachine(RuleBasedStateMachine):
    """The model is a list of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = PositionRuns()
        self.model: list[int] = []

    @rule(gap=st.sampled_from([0, 0, 1, 2, 1 << 40]), count=st.integers(1, 9))
    def append(self, gap: int, count: int) -> None:
        first = (self.model[-1] if self.model else 0) + 1 + gap
        self.runs.append(first, count)
        self.model.extend(range(first, first + count))

    @rule(count=st.integers(0, 20))
    def cut_front(self, count: int) -> None:
        self.runs.cut_front(count)
        del self.model[:count]

    @rule(place=st.integers(0, 60))
    def cut_tail(self, place: int) -> None:
        self.runs.cut_tail(place)
        del self.model[place:]

    @rule(place=st.integers(0, 60), end=st.integers(0, 60))
    def copy_a_part_to_the_end_of_another(self, place: int, end: int) -> None:
        other = PositionRuns()
        other.append(1, 2)
        end = min(end, len(self.model))
        place = max(place, bisect_left(self.model, 3))
        self.runs.copy_into(other, place, end)
        assert other.positions().tolist() == [1, 2, *self.model[place:end]]

    @rule()
    def become_another_one_that_has_them(self) -> None:
        other = self.runs
        self.runs = PositionRuns()
        self.runs.extend(other)

    @rule()
    def clear(self) -> None:
        self.runs.clear()
        self.model = []

    @rule(position=st.integers(0, 80))
    def look_for_a_position(self, position: int) -> None:
        assert self.runs.place_of(position) == bisect_left(self.model, position)
        found = self.model.index(position) if position in self.model else -1
        assert self.runs.find(position) == found

    @rule(data=st.data())
    def look_at_a_place(self, data: st.DataObject) -> None:
        if self.model:
            place = data.draw(st.integers(0, len(self.model) - 1))
            assert self.runs.position_at(place) == self.model[place]
            assert self.runs.place_of(self.model[place]) == place
            assert self.runs.find(self.model[place]) == place

    @rule(place=st.integers(0, 60))
    def tell_ranges_from_a_place_on(self, place: int) -> None:
        ranges = self.runs.ranges(place)
        spread = [p for first, count in ranges for p in range(first, first + count)]
        assert spread == self.model[place:]
        for (first, count), (following, _) in pairwise(ranges):
            assert first + count < following

    @invariant()
    def has_whole_runs(self) -> None:
        """Asked in a way that does not look at any of them."""
        runs = self.runs
        ranges = [(runs.first_of(run), runs.end_of(run)) for run in range(runs.run_count())]
        assert [p for first, end in ranges for p in range(first, end)] == self.model
        assert runs.count == len(self.model)
        for (_, end), (following, _) in pairwise(ranges):
            assert end < following


TestPositionRunsMachine = PositionRunsMachine.TestCase
TestPositionRunsMachine.settings = hypothesis.settings(max_examples=100, stateful_step_count=40)


@hypothesis.given(st.lists(st.integers(0, 100), unique=True))
def test_runs_are_as_few_as_possible(positions: list[int]) -> None:
    positions.sort()
    runs = runs_of(array("Q", positions))
    assert runs.positions().tolist() == positions
    assert runs.run_count() == len(runs.ranges(0))
    for (first, count), (following, _) in pairwise(runs.ranges(0)):
        assert first + count < following


def test_a_run_that_grew_since_it_was_looked_at_is_one_range() -> None:
    runs = PositionRuns()
    runs.append(5, 3)
    assert runs.find(6) == 1
    runs.append(8, 2)
    assert runs.ranges(0) == [(5, 5)]
    assert runs.ranges(1) == [(6, 4)]


def test_the_positions_of_a_long_run_are_made_in_parts() -> None:
    runs = PositionRuns()
    runs.append(7, 200_000)
    runs.append(1 << 50, 3)
    assert runs.positions().tolist() == [*range(7, 200_007), *range(1 << 50, (1 << 50) + 3)]


@hypothesis.given(
    st.integers(0, 1 << 62), st.one_of(st.integers(0, 600), st.just(256)), st.integers(1, 1 << 30)
)
def test_a_progression_is_what_a_range_is(first: int, count: int, step: int) -> None:
    assert progression(first, count, step).tolist() == list(
        range(first, first + count * step, step)
    )
