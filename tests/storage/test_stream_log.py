"""A stream log gives back what was added to it, by offset and by time."""

import struct

import pytest

from penstock.storage.errors import Damaged
from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.stream_composer import BATCH_BYTES_MAX
from penstock.storage.stream_log import OPEN_SEGMENTS_MAX, StreamLog
from tests.storage.stream_writing import ADDRESS, FOLDER, HEADER, bodies, open_log, write


def test_what_was_written_is_read_by_offset() -> None:
    log = open_log(MemoryDisk())
    write(log, b"a", b"bb")
    write(log, b"", b"dddd")
    assert bodies(log) == [b"a", b"bb", b"", b"dddd"]
    entry = log.read(1, 1, 0)[0]
    assert (entry.exchange, entry.routing_key, entry.header) == ("ex", "key", HEADER)


def test_what_is_composed_is_not_there_before_it_is_written() -> None:
    log = open_log(MemoryDisk())
    assert log.add(ADDRESS, HEADER, b"a", 0, 1) == 0
    assert log.add(ADDRESS, HEADER, b"b", 0, 1) == 1
    assert (log.end_offset, log.composed_count) == (0, 2)
    log.write()
    assert (log.end_offset, log.composed_count) == (2, 0)


def test_a_read_is_bounded_by_count_and_by_octets_but_gives_one_message() -> None:
    log = open_log(MemoryDisk())
    write(log, b"x" * 100, b"y" * 100, b"z" * 100)
    assert len(log.read(0, 2, 10_000)) == 2
    assert len(log.read(0, 10, 250)) == 2
    assert len(log.read(0, 10, 1)) == 1


def test_messages_with_other_addresses_and_headers_do_not_mix() -> None:
    log = open_log(MemoryDisk())
    expected = []
    for number in range(20):
        address = bytes([1]) + b"e" + bytes([number]) + b"k" * number
        header = b"h" * (number % 3)
        log.add(address, header, b"%d" % number, 0, number)
        expected.append(("e", "k" * number, header, b"%d" % number, number))
    log.write()
    found = log.read(0, 100, 100_000)
    assert [
        (entry.exchange, entry.routing_key, entry.header, entry.body, entry.timestamp)
        for entry in found
    ] == expected


def test_an_entry_of_the_index_is_what_the_documentation_says() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    write(log, b"one", timestamp=1234, is_safe=False)
    write(log, b"three", timestamp=1235)
    index = bytes(disk.files[f"{FOLDER}/{0:020d}.idx"].content)
    payloads = bytes(disk.files[f"{FOLDER}/{0:020d}.log"].content)
    timestamp, header, body, exchange, key, flags, position, _, unsynced = struct.unpack_from(
        "<QIIBBHIII", index, 64
    )
    assert (timestamp, header, body, exchange, key, flags) == (1235, 6, 5, 2, 3, 1)
    assert unsynced == 1
    assert (
        payloads[position:]
        == (b"\x02ex\x03key" + (6).to_bytes(4, "little") + b"header" + (5).to_bytes(4, "little"))
        + b"three"
    )


def test_a_message_is_found_by_its_time() -> None:
    log = open_log(MemoryDisk(), segment_bytes_max=300)
    for number in range(10):
        write(log, b"a", b"b", timestamp=100 * number)
    assert len(log.segments) > 2
    assert log.offset_at(0) == 0
    assert log.offset_at(300) == 6
    assert log.offset_at(301) == 8
    assert log.offset_at(901) == 20


def test_time_never_goes_back() -> None:
    log = open_log(MemoryDisk())
    write(log, b"a", timestamp=500)
    write(log, b"b", timestamp=400)
    assert [entry.timestamp for entry in log.read(0, 2, 1000)] == [500, 500]


def test_the_last_batch_begins_where_the_last_tick_began() -> None:
    log = open_log(MemoryDisk())
    write(log, b"a", b"b")
    write(log, b"c", b"d", b"e")
    assert log.last_batch_offset() == 2


def test_a_full_segment_is_followed_by_another() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=200)
    for number in range(12):
        write(log, b"%02d" % number)
    assert [segment.first_offset for segment in log.segments] == [0, 3, 6, 9]
    assert bodies(log) == [b"%02d" % number for number in range(12)]
    assert log.size() == sum(len(file.content) for file in disk.files.values())


def test_a_large_batch_asks_to_be_written_early() -> None:
    log = open_log(MemoryDisk())
    log.add(ADDRESS, HEADER, b"x", 0, 1)
    assert not log.is_full_batch()
    log.add(ADDRESS, HEADER, bytes(BATCH_BYTES_MAX), 0, 1)
    assert log.is_full_batch()


def test_size_is_bounded_by_removing_the_oldest_segments() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=200)
    for number in range(12):
        write(log, b"%02d" % number)
    assert doomed(log, 500, -1) == [0, 3]
    assert log.first_offset == 6
    assert log.size() <= 500
    assert bodies(log) == [b"%02d" % number for number in range(6, 12)]


def test_age_is_bounded_by_the_last_message_of_a_segment() -> None:
    log = open_log(MemoryDisk(), segment_bytes_max=200)
    for number in range(12):
        write(log, b"%02d" % number, timestamp=100 + number)
    assert doomed(log, -1, 102) == []
    assert doomed(log, -1, 103) == [0]
    assert doomed(log, -1, 10_000) == [3, 6]
    assert log.first_offset == 9


def test_nothing_is_removed_before_it_was_safe() -> None:
    log = open_log(MemoryDisk(), segment_bytes_max=200)
    for number in range(6):
        write(log, b"%02d" % number, is_safe=False)
    assert doomed(log, 0, -1) == []
    log.became_durable(log.end_offset)
    assert doomed(log, 0, -1) == [0]


def test_a_flush_must_cover_a_segment_that_was_left_in_the_same_tick() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=200)
    write(log, b"x" * 200, is_safe=False)
    write(log, b"y", is_safe=False)
    dirty = log.dirty_files()
    assert len(dirty) == 4
    log.flush_requested()
    assert len(log.dirty_files()) == 2
    assert log.segments[0].is_open()
    log.became_durable(1)
    assert not log.segments[0].is_open()


def test_few_sealed_segments_stay_open() -> None:
    log = open_log(MemoryDisk(), segment_bytes_max=200)
    for number in range(40):
        write(log, b"%02d" % number)
    assert bodies(log) == [b"%02d" % number for number in range(40)]
    assert sum(segment.is_open() for segment in log.segments) <= OPEN_SEGMENTS_MAX + 1


def test_a_flipped_octet_is_noticed_by_who_reads_it() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    write(log, b"good", b"bad!", b"good")
    content = disk.files[f"{FOLDER}/{0:020d}.log"].content
    content[content.index(b"bad!")] ^= 1
    assert [entry.body for entry in log.read(0, 3, 1000)] == [b"good"]
    with pytest.raises(Damaged, match="message 1 is damaged") as damage:
        log.read(1, 2, 1000)
    assert damage.value.file.endswith(".log")
    assert [entry.body for entry in log.read(2, 1, 1000)] == [b"good"]


def test_flagged_messages_are_found_without_reading_the_others() -> None:
    log = open_log(MemoryDisk())
    for number in range(12):
        log.add(ADDRESS, HEADER, b"x", 2 if number % 5 == 0 else 8, 1)
        log.write()
    segment = log.segments[0]
    assert segment.flagged(2, 0) == [0, 5, 10]
    assert segment.flagged(2, 1) == [5, 10]
    assert segment.flagged(2, 12) == []


def test_a_removed_segment_leaves_no_file() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    write(log, b"a")
    log.segments[0].remove()
    assert disk.names() == []


def doomed(log: StreamLog, bytes_max: int, oldest_timestamp: int) -> list[int]:
    return [segment.first_offset for segment in log.take_doomed(bytes_max, oldest_timestamp)]
