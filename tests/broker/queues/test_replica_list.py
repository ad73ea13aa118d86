"""The list of a backup's queue, against a dictionary of what it should hold."""

from array import array

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.ready_list import merged
from penstock.broker.queues.replica_list import COMPACT_COUNT, ReplicaList
from tests.broker.queues.doubles import message

POSITION_MAX = 60


def ranges_from(drawn: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Gaps and counts as ranges that grow and do not touch."""
    found: list[tuple[int, int]] = []
    first = 0
    for gap, count in drawn:
        first += gap
        found.append((first, count))
        first += count
    return found


def spread(ranges: list[tuple[int, int]]) -> set[int]:
    return {p for first, count in ranges for p in range(first, first + count)}


GROWING_RANGES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=8).map(
    ranges_from
)
ANY_RANGES = st.lists(st.tuples(st.integers(0, 70), st.integers(1, 20)), max_size=6)


class ReplicaListMachine(RuleBasedStateMachine):
    """The model is a location by position."""

    def __init__(self) -> None:
        super().__init__()
        self.list = ReplicaList()
        self.model: dict[int, int] = {}
        # Of all positions that ever were here.
        self.highest = 0
        # Deliveries of those that came back.
        self.counts: dict[int, int] = {}
        self.next_location = 5000

    def new_location(self) -> int:
        self.next_location += 1
        return self.next_location

    def came(self, locations: dict[int, int]) -> None:
        self.model.update(locations)
        self.highest = max([self.highest, *locations])

    def left(self, positions: set[int]) -> list[int]:
        gone = [self.model.pop(p) for p in sorted(positions & set(self.model))]
        for position in positions:
            self.counts.pop(position, None)
        return gone

    @rule(gap=st.integers(0, 3), count=st.integers(1, 8))
    def add_behind(self, gap: int, count: int) -> None:
        first = self.highest + 1 + gap
        for position in range(first, first + count):
            location = self.new_location()
            self.list.add(position, location)
            self.came({position: location})

    @rule(gap=st.integers(0, 3), count=st.integers(1, 300), step=st.integers(1, 300))
    def add_a_run_behind(self, gap: int, count: int, step: int) -> None:
        self.add_run(self.highest + 1 + gap, count, step)

    @rule(first=st.integers(1, POSITION_MAX), count=st.integers(1, 8), step=st.integers(1, 300))
    def add_a_run_anywhere(self, first: int, count: int, step: int) -> None:
        """Also what was here before, and is gone."""
        if set(self.model).isdisjoint(range(first, first + count)):
            self.add_run(first, count, step)

    def add_run(self, first: int, count: int, step: int) -> None:
        location = self.new_location()
        self.list.add_run(first, count, location, step)
        self.came({p: location + (p - first) * step for p in range(first, first + count)})

    @rule(positions=st.lists(st.integers(1, POSITION_MAX), unique=True))
    def add_many_anywhere(self, positions: list[int]) -> None:
        new = {p: self.new_location() for p in sorted(set(positions) - set(self.model))}
        self.list.add_many(array("Q", new.keys()), array("Q", new.values()))
        self.came(new)

    @rule(position=st.integers(1, POSITION_MAX))
    def add_one_anywhere(self, position: int) -> None:
        if position not in self.model:
            location = self.new_location()
            self.list.add(position, location)
            self.came({position: location})

    @rule(positions=st.lists(st.integers(1, POSITION_MAX), unique=True), gone=ANY_RANGES)
    def absorb_another_list(self, positions: list[int], gone: list[tuple[int, int]]) -> None:
        other = ReplicaList()
        new = {p: self.new_location() for p in sorted(set(positions) - set(self.model))}
        other.add_many(array("Q", new.keys()), array("Q", new.values()))
        other.note_returns(1, POSITION_MAX, 3)
        other.remove_ranges(gone)
        self.list.absorb(other)
        self.came({p: location for p, location in new.items() if p not in spread(gone)})
        assert other.count == 0
        assert other.positions() == []

    @rule(ranges=ANY_RANGES)
    def remove_ranges(self, ranges: list[tuple[int, int]]) -> None:
        """They need not be in order, and may overlap."""
        gone: list[int] = []
        for first, count in ranges:
            gone += self.left(set(range(first, first + count)))
        assert self.list.remove_ranges(ranges).tolist() == gone

    @precondition(lambda self: self.model)
    @rule(count=st.integers(1, 5))
    def remove_at_the_front(self, count: int) -> None:
        self.remove_ranges([(min(self.model), count)])

    @rule(ranges=GROWING_RANGES)
    def keep_ranges(self, ranges: list[tuple[int, int]]) -> None:
        dropped = self.left(set(self.model) - spread(ranges))
        assert self.list.keep(ranges).tolist() == dropped

    @rule(first=st.integers(1, POSITION_MAX), count=st.integers(1, 8), n=st.integers(1, 40_000))
    def note_returns(self, first: int, count: int, n: int) -> None:
        """Also of what is gone, and not of what is yet to come."""
        count = min(count, self.highest + 1 - first)
        self.list.note_returns(first, count, n)
        for position in range(first, first + count):
            if position in self.model:
                self.counts[position] = min(n, 0x7FFE)

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
        self.left(set(self.model))

    @rule()
    def drain(self) -> None:
        positions = sorted(self.model)
        runs, locations = self.list.drain()
        assert runs.positions().tolist() == positions
        assert locations.tolist() == self.left(set(positions))

    @rule(ranges=GROWING_RANGES)
    def count_what_lies_in_ranges(self, ranges: list[tuple[int, int]]) -> None:
        assert self.list.count_in(ranges) == len(set(self.model) & spread(ranges))

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        wanted = sorted(self.model)
        assert self.list.count == len(wanted)
        assert self.list.positions() == wanted
        assert self.list.oldest_position() == (wanted[0] if wanted else -1)
        assert self.list.journalled()[1].tolist() == [self.model[p] for p in wanted]
        assert [self.list.location_of(position) for position in range(80)] == [
            self.model.get(position, -1) for position in range(80)
        ]
        counts = [(p, self.counts[p]) for p in wanted if p in self.counts]
        assert self.list.delivery_counts() == counts

    @invariant()
    def tells_ranges_and_locations(self) -> None:
        ranges = self.list.ranges()
        assert spread(ranges) == set(self.model)
        assert sum([count for _, count in ranges]) == len(self.model)
        assert ranges == sorted(ranges)
        locations = [each for block in self.list.location_blocks() for each in block]
        assert locations == [self.model[p] for p in sorted(self.model)]


TestReplicaListMachine = ReplicaListMachine.TestCase
TestReplicaListMachine.settings = hypothesis.settings(max_examples=80, stateful_step_count=30)


LONG = 5000
LONG_RANGES = st.lists(
    st.tuples(st.integers(1, 2 * LONG), st.integers(1, LONG)), min_size=1, max_size=12
)


@hypothesis.given(LONG_RANGES, LONG_RANGES, LONG_RANGES)
@hypothesis.settings(max_examples=40)
def test_a_long_list_holds_what_was_added_and_not_removed(
    added: list[tuple[int, int]], removed: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:
    """Longer than what is looked at together."""
    ready = ReplicaList()
    model: set[int] = set()
    for index, (first, count) in enumerate(added):
        if model.isdisjoint(range(first, first + count)):
            ready.add_run(first, count, first * 10, 10)
            model.update(range(first, first + count))
        assert ready.positions() == sorted(model)
        if index < len(removed):
            ready.remove_ranges([removed[index]])
            model -= spread([removed[index]])
        assert ready.ranges() == sorted(ready.ranges())
        assert ready.positions() == sorted(model)
    assert ready.journalled()[1].tolist() == [p * 10 for p in sorted(model)]
    distinct = [(p, 1) for p in sorted(spread(kept))]
    assert sorted(ready.keep(distinct)) == [p * 10 for p in sorted(model - spread(kept))]
    model &= spread(kept)
    assert ready.positions() == sorted(model)
    assert ready.drain()[1].tolist() == [p * 10 for p in sorted(model)]


def test_counts_may_be_known_before_the_messages() -> None:
    """A backup reads definitions and counts first when it starts."""
    ready = ReplicaList()
    ready.note_returns(3, 4, 2)
    ready.note_returns(4, 1, 3)
    ready.note_returns(9, 1, 1)
    ready.add_many(array("Q", [1, 3, 4, 6, 8]), array("Q", [10, 30, 40, 60, 80]))
    assert ready.delivery_counts() == [(3, 2), (4, 3), (6, 2)]


@hypothesis.given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), unique_by=lambda p: p[0]))
def test_two_lists_are_merged_in_order(drawn: list[tuple[int, bool]]) -> None:
    drawn.sort()
    some = array("Q", [p for p, of_some in drawn if of_some])
    others = array("Q", [p for p, of_some in drawn if not of_some])
    positions, locations = merged((some, array("Q", some)), (others, array("Q", others)))
    assert positions.tolist() == [p for p, _ in drawn]
    assert locations.tolist() == [p for p, _ in drawn]


def octets_of(ready: ReplicaList) -> int:
    runs = ready._runs
    arrays = [ready._locations, ready._marks, runs._firsts, runs._begins]
    return sum(numbers.itemsize * len(numbers) for numbers in arrays)


def test_a_long_queue_that_drains_gives_its_memory_back() -> None:
    ready = ReplicaList()
    for position in range(1, 4 * COMPACT_COUNT):
        ready.add(position, position)
    ready.remove_ranges([(1, 3 * COMPACT_COUNT)])
    assert ready.count == COMPACT_COUNT - 1
    assert octets_of(ready) == 8 * ready.count + 16


def test_runs_of_a_long_queue_that_drains_are_dropped() -> None:
    ready = ReplicaList()
    for position in range(1, 4 * COMPACT_COUNT):
        ready.add(2 * position, position)
    ready.remove_ranges([(1, 6 * COMPACT_COUNT)])
    assert octets_of(ready) == 24 * ready.count
    assert ready.oldest_position() == 6 * COMPACT_COUNT + 2


def test_a_long_stretch_that_left_from_the_middle_is_skipped_with_the_front() -> None:
    ready = ReplicaList()
    ready.add_run(1, 3 * COMPACT_COUNT, 100, 1)
    ready.remove_ranges([(3, 2 * COMPACT_COUNT)])
    assert (ready.count, ready.oldest_position()) == (COMPACT_COUNT, 1)
    ready.remove_ranges([(1, 2)])
    assert ready.oldest_position() == 2 * COMPACT_COUNT + 3
    assert ready.ranges() == [(2 * COMPACT_COUNT + 3, COMPACT_COUNT - 2)]


def test_what_lies_in_ranges_is_counted_without_what_has_gone() -> None:
    ready = ReplicaList()
    ready.add_many(array("Q", range(10, 30)), array("Q", range(100, 120)))
    ready.remove_ranges([(10, 2)])
    assert ready.count_in([(1, 5), (8, 6), (20, 100)]) == 12
    assert ready.journalled()[1].tolist() == list(range(102, 120))
    ready.remove_ranges([(25, 1), (20, 3)])
    assert ready.count_in([(12, 4), (19, 5), (25, 2)]) == 7
    assert ready.journalled()[1].tolist() == [*range(102, 110), 113, 114, *range(116, 120)]
    assert ready.count_in([]) == 0


def test_eight_octets_per_message_and_ten_once_one_came_back() -> None:
    ready = ReplicaList()
    for position in range(1, 1001):
        ready.add(position, position)
    assert octets_of(ready) == 8_000 + 16
    ready.remove_ranges([(1, 10)])
    assert octets_of(ready) == 8_000 + 16
    ready.note_returns(500, 1, 2)
    assert octets_of(ready) == 10_000 + 16
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
