"""Many locations at once: the same answers as one by one."""

from array import array
from collections import Counter
from random import Random

import pytest

from penstock.broker.store.locations import BLOCK_COUNT, counts_by_segment, may_be_spooled
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
