"""Lines: order under tearing and joining, back-pressure, and each kind of failure."""

import pytest

from penstock.simulation.endpoint import (
    GIVE_UP_US,
    RECEIVE_BYTES_MAX,
    VANISHED_BYTES_MAX,
    WRITE_BYTES_HIGH,
)
from tests.simulation.doubles import Pair

SECOND = 1_000_000
MESSAGE = bytes(range(256)) * 40


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_in_order_however_they_are_torn_and_joined(seed: int) -> None:
    pair = Pair(seed)
    for start in range(0, len(MESSAGE), 100):
        pair.near.write(MESSAGE[start : start + 100])
        pair.clock.run(100)
    pair.clock.run(20 * SECOND)
    assert pair.far_user.data == MESSAGE
    assert any(size % 100 for size in pair.far_user.reads), "some were torn"
    assert any(size > 100 for size in pair.far_user.reads), "some were joined"


def test_a_reader_that_pauses_stops_the_writer_within_bounds() -> None:
    pair = Pair(1)
    pair.far.pause_reading()
    pair.near.write(b"x" * (WRITE_BYTES_HIGH + RECEIVE_BYTES_MAX + 1))
    pair.clock.run(10 * SECOND)
    assert pair.near_user.writable == [False]
    assert pair.far.unread_size == RECEIVE_BYTES_MAX
    assert pair.far_user.data == b""
    pair.far.resume_reading()
    pair.clock.run(10 * SECOND)
    assert pair.near_user.writable == [False, True]
    assert len(pair.far_user.data) == WRITE_BYTES_HIGH + RECEIVE_BYTES_MAX + 1


def test_a_close_comes_behind_everything_that_was_written() -> None:
    pair = Pair(2)
    pair.near.write(MESSAGE)
    pair.near.close()
    pair.near.write(b"too late")
    pair.clock.run(20 * SECOND)
    assert pair.far_user.data == MESSAGE
    assert (pair.near_user.lost_count, pair.far_user.lost_count) == (1, 1)
    assert pair.network.lines() == []


def test_a_reset_is_heard_at_both_ends_once() -> None:
    pair = Pair(3)
    pair.line.reset()
    pair.near.write(b"in vain")
    pair.clock.run(SECOND)
    pair.line.reset()
    pair.clock.run(SECOND)
    assert (pair.near_user.lost_count, pair.far_user.lost_count) == (1, 1)


@pytest.mark.parametrize("seed", range(10))
def test_after_a_reset_nothing_arrives_behind_what_it_dropped(seed: int) -> None:
    """Not even what is written before that end has heard of the reset."""
    pair = Pair(seed)
    pair.near.write(MESSAGE)
    pair.clock.run(1000)
    pair.line.reset()
    pair.near.write(b"behind a gap")
    pair.clock.run(SECOND)
    assert MESSAGE.startswith(pair.far_user.data)


def test_an_abort_drops_what_waits_and_resets_the_peer() -> None:
    pair = Pair(4)
    pair.near.write(MESSAGE)
    pair.near.abort()
    pair.near.write(b"too late")
    pair.clock.run(SECOND)
    assert pair.far_user.data == b""
    assert (pair.near_user.lost_count, pair.far_user.lost_count) == (1, 1)


def test_a_paused_reader_hears_of_a_reset_when_it_reads_or_writes() -> None:
    for notice in ("read", "write"):
        pair = Pair(5)
        pair.far.pause_reading()
        pair.line.reset()
        pair.clock.run(SECOND)
        assert pair.far_user.lost_count == 0
        if notice == "read":
            pair.far.resume_reading()
        else:
            pair.far.write(b"is anybody there")
        pair.clock.run(SECOND)
        assert pair.far_user.lost_count == 1


def test_nobody_hears_of_a_cut_until_the_system_gives_up() -> None:
    pair = Pair(6)
    pair.line.cut(from_near=True, from_far=True)
    pair.near.write(MESSAGE)
    pair.clock.run(GIVE_UP_US - SECOND)
    assert pair.far_user.data == b""
    assert (pair.near_user.lost_count, pair.far_user.lost_count) == (0, 0)
    pair.clock.run(2 * SECOND)
    assert (pair.near_user.lost_count, pair.far_user.lost_count) == (1, 0)


def test_a_writer_into_a_cut_line_feels_it_once_the_system_holds_enough() -> None:
    pair = Pair(7)
    pair.line.cut(from_near=True, from_far=True)
    pair.near.write(b"x" * (VANISHED_BYTES_MAX + WRITE_BYTES_HIGH + 1))
    pair.clock.run(SECOND)
    assert pair.near_user.writable == [False]


def test_a_line_cut_one_way_still_works_the_other_way() -> None:
    pair = Pair(8)
    pair.line.cut(from_near=True, from_far=False)
    pair.near.write(b"vanishes")
    pair.far.write(MESSAGE)
    pair.clock.run(5 * SECOND)
    assert (pair.near_user.data, pair.far_user.data) == (MESSAGE, b"")


def test_a_stalled_line_goes_on_where_it_stopped() -> None:
    pair = Pair(9)
    pair.near.write(MESSAGE[:100])
    pair.line.stall(3 * SECOND)
    pair.near.write(MESSAGE[100:])
    pair.clock.run(2 * SECOND)
    assert pair.far_user.data == b""
    pair.clock.run(20 * SECOND)
    assert pair.far_user.data == MESSAGE
