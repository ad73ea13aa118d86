"""The simulated disk: what survives a crash, and when a flush is heard of."""

from penstock.simulation.clock import VirtualClock
from penstock.simulation.disk import SimulatedDisk
from tests.simulation.doubles import RecordingFlushListener, dice_of

SECOND = 1_000_000


def test_what_was_flushed_survives_and_a_torn_prefix_of_the_rest() -> None:
    kept_sizes: set[int] = set()
    for seed in range(40):
        clock = VirtualClock()
        disk = SimulatedDisk(clock, dice_of(seed))
        listener = RecordingFlushListener()
        file = disk.open("journal")
        assert file.append(b"safe") == 4
        file.request_flush(listener)
        clock.run(SECOND)
        assert file.append(b"perhaps") == 11
        disk.crash()
        content = disk.open("journal").read(0, 100)
        assert listener.positions == [4]
        assert content.startswith(b"safe") and b"safeperhaps".startswith(content)
        kept_sizes.add(len(content))
    assert {4, 11} < kept_sizes, "whole, not at all, and torn"


def test_a_flush_covers_only_what_was_appended_before_it() -> None:
    clock = VirtualClock()
    disk = SimulatedDisk(clock, dice_of(1))
    listener = RecordingFlushListener()
    file = disk.open("journal")
    file.append(b"one")
    file.request_flush(listener)
    file.append(b"two")
    assert listener.positions == [], "a flush takes time"
    clock.run(SECOND)
    assert listener.positions == [3]


def test_flushes_are_heard_in_the_order_they_were_asked_for() -> None:
    clock = VirtualClock()
    disk = SimulatedDisk(clock, dice_of(2))
    listener = RecordingFlushListener()
    file = disk.open("journal")
    for _ in range(20):
        file.append(b"record")
        file.request_flush(listener)
    clock.run(20 * SECOND)
    assert listener.positions == [6 * count for count in range(1, 21)]


def test_a_crash_ends_the_flushes_that_were_on_their_way() -> None:
    clock = VirtualClock()
    disk = SimulatedDisk(clock, dice_of(3))
    listener = RecordingFlushListener()
    file = disk.open("journal")
    file.append(b"record")
    file.request_flush(listener)
    disk.crash()
    clock.run(SECOND)
    assert (listener.positions, listener.failures) == ([], [])


def test_a_failed_flush_is_told_and_makes_nothing_durable() -> None:
    empty = 0
    for seed in range(20):
        clock = VirtualClock()
        disk = SimulatedDisk(clock, dice_of(seed))
        listener = RecordingFlushListener()
        file = disk.open("journal")
        file.append(b"x")
        disk.fail_next_flush()
        file.request_flush(listener)
        clock.run(SECOND)
        assert (listener.positions, listener.failures) == ([], ["input/output error"])
        disk.crash()
        empty += disk.open("journal").read(0, 10) == b""
    assert 0 < empty < 20


def test_a_removal_is_for_good_only_after_a_flush() -> None:
    clock = VirtualClock()
    disk = SimulatedDisk(clock, dice_of(4))
    listener = RecordingFlushListener()
    for name in ("a", "b", "c"):
        file = disk.open(name)
        file.append(b"content")
        file.request_flush(listener)
    clock.run(SECOND)
    disk.remove("a")
    disk.open("b").request_flush(listener)
    clock.run(SECOND)
    disk.remove("c")
    assert disk.names() == ["b"]
    disk.crash()
    assert disk.names() == ["b", "c"]
    assert disk.open("c").read(0, 10) == b"content"
