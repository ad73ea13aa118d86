"""How much of each segment is still needed."""

import pytest

from penstock.broker.store.segments import RECORD_WEIGHT, SegmentLives


def test_what_is_written_lives_until_it_leaves() -> None:
    lives = SegmentLives()
    lives.wrote(1, 3, 1050, False)
    lives.dequeued(1, 1, 1000)
    life = lives.of(1)
    assert life.live_count == 2
    assert (life.total_weight, life.live_weight) == (
        3 * RECORD_WEIGHT + 1050,
        2 * RECORD_WEIGHT + 50,
    )


def test_what_is_moved_lives_no_longer_in_the_old_segment() -> None:
    lives = SegmentLives()
    lives.wrote(1, 5, 50, False)
    lives.wrote(2, 4, 40, False)
    lives.dequeued(1, 4, 40)
    assert (lives.of(1).live_count, lives.of(1).live_weight) == (1, RECORD_WEIGHT + 10)
    assert (lives.of(2).live_count, lives.of(2).live_weight) == (4, 4 * RECORD_WEIGHT + 40)


def test_what_leaves_unread_weighs_as_much_as_the_others() -> None:
    lives = SegmentLives()
    lives.wrote(1, 4, 400, False)
    lives.dequeued_unread(1)
    assert (lives.of(1).live_count, lives.of(1).live_weight) == (3, 3 * (RECORD_WEIGHT + 100))
    for _ in range(3):
        lives.dequeued_unread(1)
    assert (lives.of(1).live_count, lives.of(1).live_weight) == (0, 0)


def test_nothing_weighs_less_than_nothing() -> None:
    lives = SegmentLives()
    lives.wrote(1, 3, 1000, False)
    lives.dequeued_unread(1)
    lives.dequeued(1, 1, 1000)
    assert (lives.of(1).live_count, lives.of(1).live_weight) == (1, 0)
    lives.dequeued(1, 1, 0)
    assert lives.of(1).live_weight == 0


def test_a_segment_with_definitions_is_remembered_as_one() -> None:
    lives = SegmentLives()
    lives.wrote(1, 0, 0, True)
    lives.wrote(1, 1, 0, False)
    assert lives.of(1).has_definitions
    assert not lives.of(2).has_definitions


def test_a_removed_segment_is_forgotten() -> None:
    lives = SegmentLives()
    lives.wrote(1, 5, 0, True)
    lives.removed(1)
    lives.removed(1)
    assert lives.of(1).total_weight == 0
    assert not lives.of(1).has_definitions


def test_more_cannot_leave_than_was_written() -> None:
    lives = SegmentLives()
    lives.wrote(1, 1, 0, False)
    lives.dequeued(1, 1, 0)
    with pytest.raises(AssertionError, match="more was dequeued"):
        lives.dequeued(1, 1, 0)
    lives.wrote(2, 1, 0, False)
    with pytest.raises(AssertionError, match="more was dequeued"):
        lives.dequeued(2, 2, 0)


def test_appends_to_streams_live_and_are_not_worth_copying() -> None:
    lives = SegmentLives()
    lives.wrote_blocks(1, 2, 500, True)
    assert lives.of(1).live_count == 2
    assert not lives.of(1).may_be_copied()
    lives.wrote(1, 1, 10, False)
    assert lives.of(1).may_be_copied()
    lives.released_block(1, 250)
    lives.dequeued(1, 1, 10)
    assert lives.of(1).live_count == 1
    assert not lives.of(1).may_be_copied()
    lives.of(1).found_block(250)
    assert (lives.of(1).live_count, lives.of(1).block_count) == (2, 2)
