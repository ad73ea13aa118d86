"""The note of how far a store is safe: the newest whole one counts, and none outlives its truth."""

import pytest

from penstock.storage.safe_point import JOURNAL, SEGMENT, SafePoint
from penstock.world.disk import DiskError, DiskFull
from tests.storage.doubles import MemoryDisk

FIRST = "safe-0000000001.tab"
SECOND = "safe-0000000002.tab"
NUMBERS = {JOURNAL: 7, SEGMENT: 2, "streams/2f/71-1": 5}


def noted(numbers: dict[str, int]) -> MemoryDisk:
    disk = MemoryDisk()
    SafePoint(disk).note(numbers)
    disk.settle()
    return disk


def test_a_note_is_read_back() -> None:
    found = SafePoint(noted(NUMBERS))
    assert (found.position(), found.segment(), found.ends()) == (7, 2, {"streams/2f/71-1": 5})


def test_without_a_note_nothing_is_known() -> None:
    found = SafePoint(MemoryDisk())
    assert (found.position(), found.segment(), found.ends()) == (0, 0, {})


def test_a_note_is_safe_when_its_flush_is_heard_and_the_older_one_goes_then() -> None:
    disk = noted(NUMBERS)
    point = SafePoint(disk)
    point.note({JOURNAL: 9})
    known = [point.is_safe]
    assert disk.names() == [FIRST, SECOND]
    disk.settle()
    known.append(point.is_safe)
    assert known == [False, True]
    assert disk.names() == [SECOND]
    assert SafePoint(disk).position() == 9


def test_a_note_that_was_torn_at_any_octet_leaves_the_one_before_it() -> None:
    disk = noted(NUMBERS)
    SafePoint(disk).note({JOURNAL: 9})
    whole = disk.contents()
    for size in range(len(whole[SECOND])):
        torn = MemoryDisk({**whole, SECOND: whole[SECOND][:size]})
        point = SafePoint(torn)
        assert point.numbers == NUMBERS
        # The next one has a name of its own.
        point.note({JOURNAL: 11})
        assert SafePoint(MemoryDisk(torn.contents())).position() == 11


def test_a_note_that_cannot_be_written_or_flushed_is_not_safe() -> None:
    disk = noted(NUMBERS)
    disk.room = 3
    point = SafePoint(disk)
    with pytest.raises(DiskError):
        point.note({JOURNAL: 9})
    disk = MemoryDisk(disk.contents())
    point = SafePoint(disk)
    assert point.numbers == NUMBERS
    point.note({JOURNAL: 10})
    asked = disk.flushes.pop()
    asked.listener.flush_failed("no", 0)
    assert (point.is_safe, point.failure) == (False, "no")


def test_a_note_that_found_no_room_changes_nothing_and_may_be_tried_again() -> None:
    disk = noted(NUMBERS)
    disk.room = 3
    point = SafePoint(disk)
    for _ in range(2):
        with pytest.raises(DiskFull):
            point.note({JOURNAL: 9})
        assert point.numbers == NUMBERS
        assert SafePoint(MemoryDisk(disk.contents())).numbers == NUMBERS
    assert disk.names() == [FIRST, SECOND]
    disk.room = 1000
    point.note({JOURNAL: 9})
    disk.settle()
    assert disk.names() == [SECOND]
    assert SafePoint(disk).numbers == {JOURNAL: 9}
