"""The simulated disk: what survives a crash, and when a flush is heard of."""

import pytest

from penstock.simulation.clock import VirtualClock
from penstock.simulation.disk import PAGE_BYTES, SimulatedDisk
from penstock.world.disk import DiskError
from tests.simulation.doubles import RecordingFlushListener, dice_of

SECOND = 1_000_000


def test_what_was_flushed_survives_and_a_torn_prefix_of_the_rest_or_zeros() -> None:
    outcomes: set[bytes] = set()
    for seed in range(80):
        clock = VirtualClock()
        disk = SimulatedDisk(clock, dice_of(seed))
        listener = RecordingFlushListener()
        file = disk.open("journal")
        assert file.append(b"safe") == 4
        disk.flush([file], 1, listener)
        clock.run(SECOND)
        assert file.append(b"perhaps") == 11
        disk.crash()
        content = disk.open("journal").read(0, 100)
        assert listener.tokens == [1]
        torn = b"safeperhaps"[: len(content)]
        assert content in {torn, torn[:4] + bytes(len(torn) - 4)}
        outcomes.add(content)
    assert {b"safe", b"safeperhaps", b"safe" + bytes(7)} < outcomes


def test_pages_that_were_not_flushed_persist_in_no_order() -> None:
    out_of_order = 0
    for seed in range(100):
        clock = VirtualClock()
        disk = SimulatedDisk(clock, dice_of(seed))
        file = disk.open("journal")
        file.append(b"x" * 1000)
        disk.flush([file], 1, RecordingFlushListener())
        clock.run(SECOND)
        file.append(b"y" * 5 * PAGE_BYTES)
        disk.crash()
        content = disk.open("journal").read(0, 10 * PAGE_BYTES)
        assert content.startswith(b"x" * 1000)
        pages = [content[at : at + PAGE_BYTES] for at in range(0, len(content), PAGE_BYTES)]
        assert all(set(page[1000:]) in (set(b"y"), {0}) for page in pages if len(page) > 1000)
        out_of_order += b"\0y" in content
    assert out_of_order > 10, "a page is missing and a later one is there"


def test_a_flush_covers_only_what_was_appended_before_it() -> None:
    clock = VirtualClock()
    disk = SimulatedDisk(clock, dice_of(1))
    listener = RecordingFlushListener()
    file = disk.open("journal")
    file.append(b"one")
    disk.flush([file], file.size(), listener)
    file.append(b"two")
    assert listener.tokens == [], "a flush takes time"
    clock.run(SECOND)
    assert listener.tokens == [3]


def test_flushes_are_heard_in_the_order_they_were_asked_for() -> None:
    clock = VirtualClock()
    disk = SimulatedDisk(clock, dice_of(2))
    listener = RecordingFlushListener()
    file = disk.open("journal")
    for _ in range(20):
        file.append(b"record")
        disk.flush([file], file.size(), listener)
    clock.run(20 * SECOND)
    assert listener.tokens == [6 * count for count in range(1, 21)]


def test_a_crash_ends_the_flushes_that_were_on_their_way() -> None:
    clock = VirtualClock()
    disk = SimulatedDisk(clock, dice_of(3))
    listener = RecordingFlushListener()
    file = disk.open("journal")
    file.append(b"record")
    disk.flush([file], file.size(), listener)
    disk.crash()
    clock.run(SECOND)
    assert (listener.tokens, listener.failures) == ([], [])


def test_a_failed_flush_is_told_and_makes_nothing_durable() -> None:
    empty = 0
    for seed in range(20):
        clock = VirtualClock()
        disk = SimulatedDisk(clock, dice_of(seed))
        listener = RecordingFlushListener()
        file = disk.open("journal")
        file.append(b"x")
        disk.fail_next_flush()
        disk.flush([file], file.size(), listener)
        clock.run(SECOND)
        assert (listener.tokens, listener.failures) == ([], ["input/output error"])
        disk.crash()
        empty += disk.open("journal").read(0, 10) == b""
    assert 0 < empty < 20


def test_a_removal_is_for_good_only_after_a_flush_and_each_comes_undone_for_itself() -> None:
    outcomes: set[tuple[str, ...]] = set()
    for seed in range(40):
        clock = VirtualClock()
        disk = SimulatedDisk(clock, dice_of(seed))
        listener = RecordingFlushListener()
        for name in ("a", "b", "c", "d"):
            file = disk.open(name)
            file.append(b"content")
            disk.flush([file], 1, listener)
        clock.run(2 * SECOND)
        disk.remove("a")
        disk.flush([disk.open("b")], 2, listener)
        clock.run(2 * SECOND)
        disk.remove("c")
        disk.remove("d")
        assert disk.names() == ["b"]
        disk.crash()
        names = disk.names()
        assert all(disk.open(name).read(0, 10) == b"content" for name in names)
        outcomes.add(tuple(names))
    assert outcomes == {("b",), ("b", "c"), ("b", "d"), ("b", "c", "d")}


def test_a_file_that_no_flush_followed_may_be_gone_though_the_flush_of_another_keeps_its_name() -> (
    None
):
    names: set[tuple[str, ...]] = set()
    for seed in range(40):
        clock = VirtualClock()
        disk = SimulatedDisk(clock, dice_of(seed))
        disk.open("named").append(b"not flushed")
        disk.flush([disk.open("other")], 1, RecordingFlushListener())
        clock.run(SECOND)
        disk.open("late").append(b"content")
        disk.crash()
        names.add(tuple(disk.names()))
    assert names == {("named", "other"), ("late", "named", "other")}


def test_a_cut_is_for_good_only_after_a_flush() -> None:
    for is_flushed, expected in ((False, {b"ab", b"abcd"}), (True, {b"ab"})):
        contents: set[bytes] = set()
        for seed in range(20):
            clock = VirtualClock()
            disk = SimulatedDisk(clock, dice_of(seed))
            file = disk.open("journal")
            file.append(b"abcd")
            disk.flush([file], 1, RecordingFlushListener())
            clock.run(SECOND)
            file.truncate(2)
            assert (file.size(), file.read(0, 10)) == (2, b"ab")
            if is_flushed:
                disk.flush([file], 2, RecordingFlushListener())
                clock.run(SECOND)
            disk.crash()
            contents.add(disk.open("journal").read(0, 10))
        assert contents == expected


def test_the_death_of_the_process_loses_nothing_and_makes_nothing_safe() -> None:
    sizes: set[int] = set()
    for seed in range(40):
        clock = VirtualClock()
        disk = SimulatedDisk(clock, dice_of(seed))
        listener = RecordingFlushListener()
        file = disk.open("journal")
        disk.flush([file], 1, listener)
        clock.run(SECOND)
        file.append(b"content")
        disk.flush([file], 2, listener)
        disk.kill()
        clock.run(SECOND)
        assert listener.tokens == [1]
        assert disk.open("journal").read(0, 10) == b"content"
        disk.crash()
        sizes.add(disk.open("journal").size())
    assert {0, 7} < sizes


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    disk = SimulatedDisk(VirtualClock(), dice_of(5))
    disk.capacity_bytes = 10
    disk.open("a").append(b"1234")
    assert disk.free_bytes() == 6
    with pytest.raises(DiskError, match="b: no space"):
        disk.open("b").append(b"1234567")
    assert (disk.open("b").read(0, 10), disk.free_bytes()) == (b"123456", 0)
    disk.remove("a")
    assert disk.free_bytes() == 4


def test_a_killed_process_may_lose_the_end_of_what_it_appended_in_pieces_and_nothing_else() -> None:
    outcomes: set[bytes] = set()
    for seed in range(200):
        clock = VirtualClock()
        disk = SimulatedDisk(clock, dice_of(seed))
        file = disk.open("journal")
        file.append(b"one")
        file.append_pieces([b"two", b"three"])
        file.append(b"four")
        if seed % 2:
            disk.flush([file], 1, RecordingFlushListener())
            clock.run(SECOND)
        disk.kill()
        content = disk.open("journal").read(0, 100)
        assert b"onetwothreefour".startswith(content)
        assert content.startswith(b"one")
        assert not seed % 2 or content == b"onetwothreefour"
        outcomes.add(content)
    assert len(outcomes) == len(b"twothreefour") + 1
