"""How much of each segment is still needed."""

import pytest

from penstock.broker.store.segments import SegmentLives


def test_what_is_written_lives_until_it_leaves() -> None:
    lives = SegmentLives()
    lives.wrote(1, 3, False)
    lives.left(1)
    assert (lives.of(1).total_count, lives.of(1).live_count) == (3, 2)


def test_what_is_moved_lives_no_longer_in_the_old_segment() -> None:
    lives = SegmentLives()
    lives.wrote(1, 5, False)
    lives.wrote(2, 4, False)
    lives.moved(1, 4)
    assert lives.of(1).live_count == 1
    assert lives.of(2).live_count == 4


def test_a_segment_with_definitions_is_remembered_as_one() -> None:
    lives = SegmentLives()
    lives.wrote(1, 0, True)
    lives.wrote(1, 1, False)
    assert lives.of(1).has_definitions
    assert not lives.of(2).has_definitions


def test_a_removed_segment_is_forgotten() -> None:
    lives = SegmentLives()
    lives.wrote(1, 5, True)
    lives.removed(1)
    lives.removed(1)
    assert lives.of(1).total_count == 0
    assert not lives.of(1).has_definitions


def test_more_cannot_leave_than_was_written() -> None:
    lives = SegmentLives()
    lives.wrote(1, 1, False)
    lives.left(1)
    with pytest.raises(AssertionError, match="more left"):
        lives.left(1)
    with pytest.raises(AssertionError, match="more was copied"):
        lives.moved(1, 1)
