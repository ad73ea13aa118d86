"""The note beside a segment counts only where the log holds what it tells of."""

import pytest

from penstock.formats.stream_index import NOTED
from penstock.storage.errors import Damaged
from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.publisher_notes import (
    PublisherNote,
    encode_group,
    encode_table,
    read_note,
)
from penstock.storage.stream_log import StreamLog
from penstock.storage.stream_segment import publishers_name
from tests.storage.stream_writing import ADDRESS, FOLDER, HEADER, copy_of, open_log

NOTE = publishers_name(FOLDER, 0)


def add(log: StreamLog, *bodies: bytes, flags: int = NOTED, timestamp: int = 1) -> None:
    for body in bodies:
        log.add(ADDRESS, HEADER, body, flags, timestamp)
    log.write()


def make_safe(log: StreamLog) -> None:
    log.flush_requested()
    log.became_durable(log.end_offset)


def note(disk: MemoryDisk, log: StreamLog, begin: int, rows: int) -> None:
    """Of the messages from an offset on."""
    file = disk.open(NOTE)
    if not file.size():
        file.append(encode_table({}, {}))
    crc = log.entries_crc(begin)
    file.append(encode_group({"p": rows}, {"stage": rows}, begin, log.end_offset, crc))


def said(disk: MemoryDisk, log: StreamLog, durable_offset: int = 0) -> PublisherNote:
    segment = log.segments[-1]
    return read_note(disk, FOLDER, disk.names(), segment, log.end_offset, durable_offset)


def test_numbers_hold_up_to_the_last_mark() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    add(log, b"a", b"b")
    note(disk, log, 0, 2)
    add(log, b"c")
    note(disk, log, 2, 3)
    add(log, b"d", flags=0)
    found = said(disk, log)
    assert (found.sequences, found.stages, found.offset) == ({"p": 3}, {"stage": 3}, 3)
    assert found.unnoted() == -1


def test_a_note_that_is_cut_anywhere_says_what_held_at_an_earlier_mark() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for number in range(1, 4):
        add(log, b"%d" % number)
        note(disk, log, number - 1, number)
    octets = bytes(disk.files[NOTE].content)
    for size in range(len(octets) + 1):
        cut = copy_of(disk)
        cut.files[NOTE].truncate(size)
        found = said(cut, open_log(cut))
        # The log is cut back to what the note counts.
        assert found.offset == open_log(cut).end_offset
        assert found.stages.get("stage", 0) == found.offset


def test_a_mark_of_other_messages_at_the_same_offsets_does_not_count() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    add(log, b"a")
    note(disk, log, 0, 1)
    lost = MemoryDisk()
    other = open_log(lost)
    add(other, b"b", flags=0)
    lost.open(NOTE).append(bytes(disk.files[NOTE].content))
    assert said(lost, other).stages == {}
    assert said(lost, other).is_begun


def test_a_mark_beyond_the_end_of_the_log_does_not_count() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    add(log, b"a", b"b")
    note(disk, log, 0, 2)
    segment = log.segments[-1]
    octets = bytes(disk.files[NOTE].content)
    assert PublisherNote(segment, octets, 1, 0).stages == {}
    assert PublisherNote(segment, octets, 2, 0).stages == {"stage": 2}


def test_rows_without_their_note_are_cut_off_with_what_follows_them() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    add(log, b"plain", flags=0)
    add(log, b"noted")
    note(disk, log, 1, 1)
    add(log, b"not noted")
    add(log, b"behind", flags=0)
    again = open_log(copy_of(disk))
    assert again.end_offset == 2


def test_rows_that_had_been_safe_and_have_no_note_are_damage() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    add(log, b"row")
    note(disk, log, 0, 1)
    make_safe(log)
    add(log, b"behind", flags=0)
    assert open_log(copy_of(disk)).end_offset == 2
    damaged = copy_of(disk)
    damaged.files[NOTE].truncate(20)
    with pytest.raises(Damaged):
        open_log(damaged)


def test_rows_of_a_sealed_segment_that_had_been_safe_need_their_note() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=1)
    add(log, b"row")
    note(disk, log, 0, 1)
    log.roll()
    add(log, b"behind", flags=0)
    make_safe(log)
    add(log, b"last", flags=0)
    disk.remove(NOTE)
    with pytest.raises(Damaged):
        open_log(copy_of(disk), segment_bytes_max=1)
