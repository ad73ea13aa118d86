"""Whatever a power loss leaves of a stream, what was safe is there and the rest is cut cleanly."""

import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.stream_index import ENTRY_SIZE, encode_preamble
from penstock.storage.errors import Damaged, NotAStore, WrongVersion
from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.stream_recovery import contiguous_before
from penstock.storage.stream_segment import index_name, log_name
from tests.storage.stream_writing import FOLDER, bodies, copy_of, open_log, write

LOG = log_name(FOLDER, 0)
INDEX = index_name(FOLDER, 0)


def test_a_stream_goes_on_where_it_ended() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=200)
    for number in range(7):
        write(log, b"%02d" % number, timestamp=number)
    again = open_log(copy_of(disk), segment_bytes_max=200)
    assert (again.first_offset, again.end_offset) == (0, 7)
    assert again.size() == log.size()
    write(again, b"07")
    assert bodies(again) == [b"%02d" % number for number in range(8)]
    assert again.read(7, 1, 0)[0].timestamp == 6


def test_offsets_go_on_after_retention() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=200)
    for number in range(9):
        write(log, b"%02d" % number)
    for segment in log.take_doomed(0, -1):
        segment.remove()
    again = open_log(copy_of(disk), segment_bytes_max=200)
    assert (again.first_offset, again.end_offset) == (6, 9)


@given(
    safe_count=st.integers(0, 12),
    lost_of_log=st.integers(0, 2000),
    lost_of_index=st.integers(0, 2000),
    zeroed=st.integers(0, 2000),
)
def test_a_torn_tail_is_cut_and_nothing_that_was_safe(
    safe_count: int, lost_of_log: int, lost_of_index: int, zeroed: int
) -> None:
    """Any part of what was not safe is missing, in either file, or is zeros."""
    disk = MemoryDisk()
    log = open_log(disk)
    for number in range(safe_count):
        write(log, b"%02d" % number * 5)
    safe_log = disk.files[LOG].size()
    safe_index = disk.files[INDEX].size()
    for number in range(safe_count, 16):
        write(log, b"%02d" % number * 5, is_safe=False)
    left = copy_of(disk)
    torn = left.files[LOG]
    torn.truncate(max(safe_log, torn.size() - lost_of_log))
    zero_from = max(safe_log, torn.size() - zeroed)
    torn.content[zero_from:] = bytes(torn.size() - zero_from)
    index = left.files[INDEX]
    index.truncate(max(safe_index, index.size() - lost_of_index))
    again = open_log(left)
    assert safe_count <= again.end_offset <= 16
    assert bodies(again) == [b"%02d" % number * 5 for number in range(again.end_offset)]
    write(again, b"next")
    assert bodies(open_log(copy_of(left)))[-1] == b"next"


@given(crash=st.integers(0, 3000))
def test_a_tail_over_several_segments_is_cut_at_its_first_gap(crash: int) -> None:
    """Files keep a prefix of everything appended, in order of appending."""
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=200)
    write(log, b"00")
    sizes = {name: disk.files[name].size() for name in disk.names()}
    for number in range(1, 12):
        write(log, b"%02d" % number, is_safe=False)
    left = copy_of(disk)
    budget = crash
    for name in sorted(left.names()):
        file = left.files[name]
        kept = sizes.get(name, 0)
        more = min(budget, file.size() - kept)
        budget -= more
        file.truncate(kept + more)
    again = open_log(left, segment_bytes_max=200)
    assert bodies(again) == [b"%02d" % number for number in range(again.end_offset)]
    assert again.end_offset >= 1
    write(again, b"more")
    assert bodies(open_log(copy_of(left), segment_bytes_max=200))[-1] == b"more"


def test_a_segment_whose_beginning_is_torn_keeps_its_place_in_the_offsets() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=200)
    for number in range(4):
        write(log, b"%02d" % number)
    for segment in log.take_doomed(0, -1):
        segment.remove()
    left = copy_of(disk)
    left.files[log_name(FOLDER, 3)].truncate(5)
    left.files[index_name(FOLDER, 3)].truncate(0)
    again = open_log(left)
    assert (again.first_offset, again.end_offset) == (3, 3)
    write(again, b"new")
    assert again.read(3, 1, 0)[0].body == b"new"


def damaged(disk: MemoryDisk) -> Damaged:
    before = {name: bytes(file.content) for name, file in disk.files.items()}
    with pytest.raises(Damaged) as damage:
        open_log(disk, segment_bytes_max=200)
    assert {name: bytes(file.content) for name, file in disk.files.items()} == before
    return damage.value


def test_damage_before_what_was_safe_is_refused_with_its_place() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    write(log, b"first", is_safe=False)
    write(log, b"second")
    write(log, b"third")
    left = copy_of(disk)
    content = left.files[LOG].content
    place = content.index(b"first")
    content[place] ^= 1
    damage = damaged(left)
    assert damage.file == LOG
    assert damage.offset == ENTRY_SIZE
    assert "message 0" in damage.what


def test_damage_to_the_index_before_what_was_safe_is_refused() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    write(log, b"first", is_safe=False)
    write(log, b"second")
    write(log, b"third")
    left = copy_of(disk)
    left.files[INDEX].content[ENTRY_SIZE + 9] ^= 1
    assert "message 0" in damaged(left).what


def test_a_sealed_segment_that_lost_its_end_is_refused() -> None:
    for name in (log_name(FOLDER, 0), index_name(FOLDER, 0)):
        disk = MemoryDisk()
        log = open_log(disk, segment_bytes_max=200)
        for number in range(6):
            write(log, b"%02d" % number)
        left = copy_of(disk)
        left.files[name].truncate(left.files[name].size() - 1)
        assert damaged(left).file == log_name(FOLDER, 0)


def test_another_version_is_refused() -> None:
    disk = MemoryDisk()
    write(open_log(disk), b"a")
    left = copy_of(disk)
    preamble = bytearray(encode_preamble(b"PENSTLOG", 0))
    preamble[8] = 9
    preamble[-4:] = zlib.crc32(preamble[:-4]).to_bytes(4, "little")
    left.files[LOG].content[:ENTRY_SIZE] = preamble
    with pytest.raises(WrongVersion):
        open_log(left)


def test_a_segment_under_another_name_is_refused() -> None:
    disk = MemoryDisk()
    write(open_log(disk), b"a")
    left = MemoryDisk()
    left.open(log_name(FOLDER, 5)).append(bytes(disk.files[LOG].content))
    left.open(index_name(FOLDER, 5)).append(bytes(disk.files[INDEX].content))
    with pytest.raises(NotAStore):
        open_log(left)


def test_what_is_behind_the_last_known_safe_message_waits_for_a_flush() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    write(log, b"a", b"b")
    write(log, b"c", is_safe=False)
    write(log, b"d", is_safe=False)
    again = open_log(copy_of(disk))
    assert again.durable_offset == 2
    assert again.end_offset == 4


def test_segments_whose_past_is_lost_and_had_not_been_safe_are_no_beginning() -> None:
    """A power loss may undo the removal of a segment and keep nothing of those before it."""
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=1)
    write(log, b"lost", is_safe=False)
    write(log, b"left", is_safe=False)
    orphan = copy_of(disk)
    for kind in ("log", "idx"):
        orphan.remove(f"{FOLDER}/{0:020d}.{kind}")
    again = open_log(orphan)
    assert (again.first_offset, again.end_offset) == (1, 1)


def test_segments_behind_what_retention_left_are_a_beginning() -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=1)
    write(log, b"gone")
    write(log, b"left")
    write(log, b"last", is_safe=False)
    kept = copy_of(disk)
    for kind in ("log", "idx"):
        kept.remove(f"{FOLDER}/{0:020d}.{kind}")
    assert bodies(open_log(kept)) == [b"left", b"last"]


@pytest.mark.parametrize("name_of", [log_name, index_name])
def test_a_segment_whose_removal_had_begun_does_not_count(
    name_of: Callable[[str, int], str],
) -> None:
    disk = MemoryDisk()
    log = open_log(disk, segment_bytes_max=200)
    for number in range(9):
        write(log, b"%02d" % number)
    assert contiguous_before(disk, FOLDER, disk.names(), 6) == 0
    disk.remove(name_of(FOLDER, 3))
    assert contiguous_before(disk, FOLDER, disk.names(), 6) == 6
    # Not one that was never given up: what is left of it shows the damage.
    assert contiguous_before(disk, FOLDER, disk.names(), 3) == 0
