"""How fast a segment is copied beside clients, and that it goes at full speed without them."""

from dataclasses import replace

from penstock.broker.store.reclaim_pace import (
    BUSY_MS,
    BYTES_PER_MS,
    COPIED_PER_WRITTEN,
    ReclaimPace,
)
from tests.broker.store.doubles import SMALL, Broker, audit

STEP = 512 * 1024


def test_without_clients_every_step_is_whole() -> None:
    pace = ReclaimPace(STEP, BUSY_MS)
    pace.look(0, 1_000)
    for now in range(1_000, 1_010):
        assert pace.step_bytes(now) == STEP
        pace.copied(STEP, 1_000)
        pace.look(1_000 * (now - 999), now)
        assert not pace.is_busy(now)


def copied_beside(written_per_ms: int, milliseconds: int) -> int:
    """Octets that are read by steps, one in each millisecond, of which half live."""
    pace = ReclaimPace(STEP, BUSY_MS)
    position = 0
    total = 0
    for now in range(1_000, 1_000 + milliseconds):
        position += written_per_ms
        pace.look(position, now)
        step = pace.step_bytes(now)
        assert pace.is_busy(now)
        if step:
            pace.copied(step, step // 2)
            position += step // 2
            total += step
    return total


def test_while_clients_publish_much_twice_as_much_is_copied() -> None:
    written = 100_000
    wanted = COPIED_PER_WRITTEN * written * 1_000
    # What was not copied yet is less than a step.
    assert wanted - STEP <= copied_beside(written, 1_000) <= wanted + STEP


def test_while_clients_publish_little_copying_goes_on_at_its_own_rate() -> None:
    wanted = BYTES_PER_MS * 1_000
    assert wanted - STEP <= copied_beside(2_000, 1_000) <= wanted + STEP


def test_a_step_that_was_too_large_is_paid_for_later() -> None:
    pace = ReclaimPace(STEP, BUSY_MS)
    pace.look(STEP, 1_000)
    assert pace.step_bytes(1_000) == STEP
    pace.copied(3 * STEP, 0)
    pace.look(STEP + STEP // 2, 1_001)
    assert pace.step_bytes(1_001) == 0
    pace.look(STEP + 2 * STEP, 1_002)
    assert pace.step_bytes(1_002) > 0


def test_once_nothing_was_written_for_a_moment_copying_is_not_held_back() -> None:
    pace = ReclaimPace(STEP, BUSY_MS)
    pace.look(1 << 20, 1_000)
    assert pace.is_busy(1_000 + BUSY_MS - 1)
    assert not pace.is_busy(1_000 + BUSY_MS)


def test_a_tick_of_busy_clients_is_not_followed_by_one_for_copying_alone() -> None:
    """Else what arrives next would not be gathered: each publish would be a tick of its own."""
    limits = replace(SMALL, segment_bytes_max=40_000, reclaim_step_bytes=2_000)
    broker = Broker(limits=replace(limits, reclaim_busy_ms=BUSY_MS))
    broker.declare("q")
    broker.declare("dead")
    for number in range(100):
        broker.put("q", b"%03d" % number)
        broker.put("dead", b"x" * 2_000)
        broker.tick()
        broker.take("dead")
    oldest = broker.journal.segments()[0]
    ticks = 0
    copying = 0
    while oldest in broker.journal.segments():
        broker.put("dead", b"x" * 2_000)
        broker.tick()
        broker.take("dead")
        if broker.stored.reclaimer.is_busy():
            copying += 1
            assert not broker.stored.has_work() or broker.store.has_pending()
        ticks += 1
        assert ticks < 1_000
    assert copying > 0
    # Without clients it goes on at once.
    broker.tick(BUSY_MS)
    broker.rest()
    audit(broker)
    assert broker.restarted().drain("q") == [b"%03d" % number for number in range(100)]
