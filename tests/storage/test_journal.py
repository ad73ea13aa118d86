"""The journal: locations, segments, group commit, removal, and what a failing disk does to it."""

import pytest

from penstock.storage.batch import BATCH_HEADER_BYTES
from penstock.storage.journal import JOINED_BYTES_MAX
from penstock.storage.segment import SEGMENT_HEADER_BYTES, offset_of, segment_name, segment_of
from penstock.world.disk import DiskError
from tests.storage.doubles import MemoryDisk, MemoryFile, RecordingOwner, journal_on, recovered


def test_a_payload_is_read_back_from_its_location_alone_or_in_part() -> None:
    journal = journal_on(MemoryDisk())
    payloads = [b"one", b"two two", b"x" * (JOINED_BYTES_MAX + 1), b"four"]
    locations = [journal.append(payload) for payload in payloads]
    for payload, location in zip(payloads, locations, strict=True):
        assert journal.read(location, len(payload)) == payload
    assert journal.read(locations[1] + 4, 3) == b"two"
    assert locations == sorted(set(locations))


def test_a_location_is_the_number_of_a_segment_and_an_offset_in_its_file() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, segment_bytes_max=200)
    for _ in range(5):
        location = journal.append(b"payload" * 10)
        content = disk.contents()[segment_name(segment_of(location))]
        assert content[offset_of(location) :] == b"payload" * 10
    assert segment_of(location) == 5


def test_reading_beyond_what_was_appended_is_an_error_and_not_a_short_answer() -> None:
    journal = journal_on(MemoryDisk())
    location = journal.append(b"payload")
    with pytest.raises(DiskError, match=r"000000000001\.log"):
        journal.read(location, 8)


def test_the_position_counts_headers_of_batches_and_not_those_of_segments() -> None:
    journal = journal_on(MemoryDisk(), segment_bytes_max=100)
    for count in range(1, 5):
        journal.append(b"p" * 40)
        assert journal.position == count * (BATCH_HEADER_BYTES + 40)
    assert journal.segments() == [1, 2, 3, 4]


def test_a_segment_takes_batches_until_the_next_would_not_fit() -> None:
    room = 3 * (BATCH_HEADER_BYTES + 10) + SEGMENT_HEADER_BYTES
    journal = journal_on(MemoryDisk(), segment_bytes_max=room)
    numbers = [segment_of(journal.append(b"p" * 10)) for _ in range(7)]
    assert numbers == [1, 1, 1, 2, 2, 2, 3]
    assert journal.active_segment() == 3
    assert [journal.segment_size(number) for number in (1, 2)] == [room, room]


def test_a_batch_that_is_larger_than_a_segment_has_its_own() -> None:
    journal = journal_on(MemoryDisk(), segment_bytes_max=100)
    numbers = [segment_of(journal.append(payload)) for payload in (b"a", b"b" * 500, b"c")]
    assert numbers == [1, 2, 3]


def test_requests_during_a_flush_are_answered_by_exactly_one_more() -> None:
    disk = MemoryDisk()
    owner = RecordingOwner()
    journal = journal_on(disk, owner=owner)
    journal.append(b"first")
    journal.request_flush()
    first = journal.position
    for _ in range(10):
        journal.append(b"more")
        journal.request_flush()
    assert len(disk.flushes) == 1
    disk.answer()
    assert owner.positions == [first]
    assert len(disk.flushes) == 1
    journal.append(b"too late for the second")
    disk.answer()
    assert not disk.flushes
    assert owner.positions[1:] == [first + 10 * (BATCH_HEADER_BYTES + 4)]
    assert journal.durable_position < journal.position


def test_the_journal_says_since_when_a_flush_has_been_running() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, owner=RecordingOwner())
    assert journal.flush_began_at == 0
    journal.now = 1000
    journal.append(b"first")
    journal.request_flush()
    journal.now = 1700
    journal.append(b"more")
    journal.request_flush()
    assert journal.flush_began_at == 1000, "the second one has not begun"
    disk.answer(2500)
    assert journal.flush_began_at == 2500, "it begins when the first one ends"
    disk.answer(2600)
    assert journal.flush_began_at == 0


def test_a_flush_at_time_zero_is_running_too() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, owner=RecordingOwner())
    journal.append(b"first")
    journal.request_flush()
    assert journal.flush_began_at > 0


def test_a_flush_covers_every_segment_since_the_last() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, segment_bytes_max=100)
    for _ in range(3):
        journal.append(b"p" * 60)
    journal.request_flush()
    assert disk.flushes[0].files == [disk.files[segment_name(number)] for number in (1, 2, 3)]
    disk.answer()
    journal.append(b"p" * 60)
    journal.request_flush()
    assert disk.flushes[0].files == [disk.files[segment_name(number)] for number in (3, 4)]


def test_when_nothing_follows_a_flush_a_note_says_how_far_the_journal_is_safe() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk)
    journal.append(b"payload")
    position = journal.position
    journal.request_flush()
    disk.answer()
    assert (journal.position, journal.durable_position) == (position, position)
    payloads, state = recovered(MemoryDisk(disk.contents()))
    assert payloads == [b"payload"]
    assert state.durable_position == position
    location = journal.append(b"next")
    assert journal.read(location, 4) == b"next"
    assert recovered(MemoryDisk(disk.contents()))[0] == [b"payload", b"next"]
    # A flush of nothing new ends too: notes do not beget notes.
    journal.request_flush()
    disk.answer()
    assert not disk.flushes


def test_a_failed_flush_is_told_and_nothing_is_appended_or_flushed_after_it() -> None:
    disk = MemoryDisk()
    owner = RecordingOwner()
    journal = journal_on(disk, owner=owner)
    journal.append(b"payload")
    journal.request_flush()
    disk.flushes.pop().listener.flush_failed("input/output error", 0)
    assert (owner.positions, owner.failures) == ([], ["input/output error"])
    assert journal.durable_position == 0
    with pytest.raises(DiskError, match="input/output error"):
        journal.append(b"more")
    journal.request_flush()
    assert not disk.flushes


@pytest.mark.parametrize("size", [10, JOINED_BYTES_MAX + 1])
def test_a_full_disk_ends_appending_and_what_was_appended_before_is_recovered(size: int) -> None:
    disk = MemoryDisk()
    journal = journal_on(disk)
    journal.append(b"before")
    for room in range(BATCH_HEADER_BYTES + 10):
        full = MemoryDisk(disk.contents())
        journal = journal_on(full)
        full.room = room
        with pytest.raises(DiskError, match="no space"):
            journal.append(b"p" * size)
        full.room = 1000
        with pytest.raises(DiskError, match="no space"):
            journal.append(b"q")
        assert recovered(MemoryDisk(full.contents()))[0] == [b"before"]


def test_a_full_disk_at_a_new_segment_ends_appending() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, segment_bytes_max=100)
    journal.append(b"p" * 60)
    disk.room = 10
    with pytest.raises(DiskError, match="no space"):
        journal.append(b"p" * 60)
    payloads, state = recovered(MemoryDisk(disk.contents()))
    assert payloads == [b"p" * 60]
    assert state.torn_tail is not None and state.torn_tail.offset == 0


def test_a_note_that_finds_no_room_is_left_out_and_appending_goes_on() -> None:
    disk = MemoryDisk()
    owner = RecordingOwner()
    journal = journal_on(disk, owner=owner)
    journal.append(b"payload")
    journal.request_flush()
    disk.room = 3
    disk.answer()
    assert owner.positions == [journal.position]
    assert owner.failures == []
    payloads, state = recovered(MemoryDisk(disk.contents()))
    assert (payloads, state.torn_tail) == ([b"payload"], None)
    disk.room = 1000
    journal.append(b"more")
    journal.request_flush()
    disk.settle()
    payloads, state = recovered(MemoryDisk(disk.contents()))
    assert (payloads, state.torn_tail) == ([b"payload", b"more"], None)
    assert state.durable_position == journal.position


def test_a_note_that_fails_for_another_reason_is_told_as_a_failure() -> None:
    disk = MemoryDisk()
    owner = RecordingOwner()
    journal = journal_on(disk, owner=owner)
    journal.append(b"payload")
    journal.request_flush()
    disk.breaks = True
    disk.answer()
    assert owner.failures == ["input/output error"]


def test_a_segment_is_not_begun_for_a_note_alone_while_there_is_no_room() -> None:
    disk = MemoryDisk()
    journal_on(disk).append(b"payload")
    disk.open(segment_name(1)).append(b"torn")
    owner = RecordingOwner()
    journal = journal_on(disk, owner=owner)
    disk.room = 3
    journal.request_flush()
    disk.answer()
    assert (owner.positions, owner.failures) == ([journal.position], [])
    assert disk.names() == [segment_name(1)]


def test_a_segment_is_removed_only_when_what_was_appended_before_is_safe_and_said_to_be() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, segment_bytes_max=100)
    journal.append(b"old" * 20)
    journal.append(b"new" * 20)
    journal.request_flush()
    journal.append(b"takes the place of the old one" * 2)
    journal.remove_segment(1)
    assert journal.segments() == [2, 3]
    disk.answer()
    assert segment_name(1) in disk.files, "this flush was asked for too early"
    disk.answer()
    assert segment_name(1) in disk.files, "nothing safe says that it is safe"
    disk.answer()
    assert segment_name(1) not in disk.files
    assert len(disk.flushes) == 1, "the removal becomes safe by itself"
    disk.answer()
    assert not disk.flushes


def test_segments_are_removed_one_after_the_other_with_a_flush_between() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, segment_bytes_max=100)
    for _ in range(4):
        journal.append(b"p" * 60)
    for number in (1, 2, 3):
        journal.remove_segment(number)
    seen = []
    while disk.flushes:
        seen.append(len(disk.files))
        disk.answer()
    assert seen == [4, 4, 3, 2, 1]
    assert disk.names() == [segment_name(4)]


def test_only_the_oldest_segment_goes_and_never_the_active_one() -> None:
    journal = journal_on(MemoryDisk(), segment_bytes_max=100)
    for _ in range(3):
        journal.append(b"p" * 60)
    for number in (2, 3):
        with pytest.raises(AssertionError):
            journal.remove_segment(number)


def test_a_removed_segments_file_is_closed() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, segment_bytes_max=100)
    journal.append(b"p" * 60)
    journal.append(b"p" * 60)
    file = disk.open(segment_name(1))
    assert isinstance(file, MemoryFile)
    journal.remove_segment(1)
    disk.settle()
    assert file.is_closed


def test_the_owner_may_append_while_it_hears_that_the_journal_is_safe() -> None:
    class Appender(RecordingOwner):
        def durable(self, position: int, now: int) -> None:
            super().durable(position, now)
            if len(self.positions) < 3:
                journal.append(b"again")
                journal.request_flush()

    disk = MemoryDisk()
    owner = Appender()
    journal = journal_on(disk, owner=owner)
    journal.append(b"first")
    journal.request_flush()
    disk.settle()
    assert owner.positions == [33, 66, 99]
    assert recovered(MemoryDisk(disk.contents()))[0] == [b"first", b"again", b"again"]


def test_a_recovered_journal_goes_on_where_it_ended() -> None:
    contents: dict[str, bytes] = {}
    expected: list[bytes] = []
    for number in range(6):
        disk = MemoryDisk(contents)
        journal = journal_on(disk, segment_bytes_max=150)
        for payload in (b"life %d" % number, b"p" * 20):
            journal.append(payload)
            expected.append(payload)
        journal.request_flush()
        disk.settle()
        contents = disk.contents()
    payloads, state = recovered(MemoryDisk(contents))
    assert payloads == expected
    assert len(contents) > 2
    assert state.torn_tail is None


def test_what_a_killed_process_left_unflushed_is_flushed_by_the_next() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, segment_bytes_max=100)
    for _ in range(2):
        journal.append(b"p" * 60)
    journal.request_flush()
    disk.settle()
    for _ in range(2):
        journal.append(b"p" * 60)
    again = MemoryDisk(disk.contents())
    journal = journal_on(again, segment_bytes_max=100)
    assert journal.durable_position < journal.position
    journal.request_flush()
    flushed = again.flushes[0].files
    assert [again.files[segment_name(number)] in flushed for number in (1, 3, 4)] == [
        False,
        True,
        True,
    ]
    again.settle()
    assert journal.durable_position == journal.position
