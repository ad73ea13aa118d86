"""Many locations at once: the same answers as one by one."""

import itertools
from array import array
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.store.locations import (
    BLOCK_COUNT,
    STRETCHES_MAX,
    counts_by_segment,
    may_be_spooled,
    stretches,
)
from penstock.broker.store.spool import SPOOLED
from penstock.storage.segment import location_of, segment_of

COUNT = BLOCK_COUNT * 5 + 7


def test_no_locations_are_in_no_segment() -> None:
    assert counts_by_segment(array("Q")) == {}
    assert not may_be_spooled(array("Q"))


@pytest.mark.parametrize("seed", range(5))
def test_segments_are_counted_whatever_their_order(seed: int) -> None:
    dice = Random(seed)
    segments = [dice.randint(1, 4) for _ in range(COUNT)]
    if seed % 2:
        segments.sort()
    locations = array("Q", [location_of(number, dice.randint(0, 1 << 32)) for number in segments])
    assert counts_by_segment(locations) == Counter(segment_of(each) for each in locations)


@pytest.mark.parametrize("place", [0, 1, COUNT - 1])
def test_one_spooled_location_among_many_is_seen(place: int) -> None:
    locations = array("Q", [location_of(3, number) for number in range(COUNT)])
    assert not may_be_spooled(locations)
    locations[place] |= SPOOLED
    assert may_be_spooled(locations)


@given(st.sets(st.integers(0, 300)))
def test_stretches_are_the_positions_without_gaps_in_order(wanted: set[int]) -> None:
    found = stretches(array("Q", sorted(wanted)))
    assert found is not None
    assert [first + place for first, count in found for place in range(count)] == sorted(wanted)
    # None of them could be joined with the next.
    for (first, count), (following, _) in itertools.pairwise(found):
        assert first + count < following


def test_too_many_stretches_are_not_searched_for() -> None:
    apart = array("Q", range(0, 2 * STRETCHES_MAX, 2))
    assert stretches(apart) == [(position, 1) for position in apart]
    apart.append(2 * STRETCHES_MAX)
    assert stretches(apart) is None
