"""Messages that need not survive a restart, in files that are never flushed."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.store.spool import FOLDER, Spool, file_of
from penstock.storage.checked_reading import BLOCK_BYTES
from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.segment import offset_of
from penstock.world.disk import DiskError


def spooled_files(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.names() if name.startswith(FOLDER)]


def read(spool: Spool, location: int, size: int) -> bytes:
    checked = spool.checked(location)
    at = offset_of(location) - checked.start
    return checked.data[at : at + size]


def test_what_was_put_is_read_before_and_after_it_is_written() -> None:
    spool = Spool(MemoryDisk())
    one = spool.put(b"one")
    two = spool.put(b"second")
    assert read(spool, two, 6) == b"second"
    spool.write()
    assert read(spool, one, 3) == b"one"


def test_nothing_is_written_before_the_end_of_the_tick() -> None:
    disk = MemoryDisk()
    spool = Spool(disk)
    spool.put(b"one")
    assert [disk.files[name].size() for name in spooled_files(disk)] == [0]
    spool.write()
    assert [disk.files[name].size() for name in spooled_files(disk)] == [3]


def test_a_full_file_is_followed_by_another() -> None:
    spool = Spool(MemoryDisk(), file_bytes_max=10)
    locations = [spool.put(b"12345") for _ in range(5)]
    assert [file_of(location) for location in locations] == [1, 1, 2, 2, 3]
    assert [read(spool, location, 5) for location in locations] == [b"12345"] * 5


def test_a_file_goes_with_the_last_message_in_it() -> None:
    disk = MemoryDisk()
    spool = Spool(disk, file_bytes_max=10)
    locations = [spool.put(b"12345") for _ in range(5)]
    spool.write()
    spool.forget(locations[0])
    assert spool.file_count() == 3
    spool.forget(locations[1])
    assert spool.file_count() == 2
    assert len(spooled_files(disk)) == 2


def test_the_file_that_is_written_to_stays_and_goes_when_another_follows() -> None:
    disk = MemoryDisk()
    spool = Spool(disk, file_bytes_max=10)
    for _ in range(2):
        spool.forget(spool.put(b"12345"))
    assert spool.file_count() == 1
    spool.put(b"12345")
    assert spool.file_count() == 1
    assert spooled_files(disk) == ["spool/000000000002.log"]


def test_a_start_removes_what_the_last_process_left() -> None:
    disk = MemoryDisk()
    spool = Spool(disk)
    spool.put(b"old")
    spool.write()
    disk.open("journal/000000000001.log").append(b"not the spool's")
    Spool(disk)
    assert disk.names() == ["journal/000000000001.log"]


def test_a_message_is_forgotten_once() -> None:
    spool = Spool(MemoryDisk())
    location = spool.put(b"one")
    spool.put(b"two")
    spool.forget(location)
    spool.forget(location)
    with pytest.raises(AssertionError, match="more often"):
        spool.forget(location)


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=20), st.none()), max_size=60))
def test_in_any_order_everything_that_is_needed_can_be_read(steps: list[bytes | None]) -> None:
    """Octets are put, None forgets the oldest."""
    disk = MemoryDisk()
    spool = Spool(disk, file_bytes_max=32)
    kept: deque[tuple[int, bytes]] = deque()
    for step in steps:
        if step is not None:
            kept.append((spool.put(step), step))
        elif kept:
            spool.forget(kept.popleft()[0])
        for location, octets in kept:
            assert read(spool, location, len(octets)) == octets
    needed = {file_of(location) for location, _ in kept}
    assert spool.file_count() <= len(needed) + 1, "the active one may be empty"
    assert len(spooled_files(disk)) == spool.file_count()


def test_records_are_checked_in_blocks_over_ticks() -> None:
    disk = MemoryDisk()
    spool = Spool(disk)
    records = [bytes([number]) * (BLOCK_BYTES // 3 + number) for number in range(10)]
    locations: list[int] = []
    for number, record in enumerate(records):
        locations.append(spool.put(record))
        if number % 4 == 3:
            spool.write()
    for location, record in zip(locations, records, strict=True):
        assert read(spool, location, len(record)) == record
        assert len(spool.checked(location).data) < 2 * BLOCK_BYTES
    [name] = spooled_files(disk)
    disk.files[name].content[offset_of(locations[7])] ^= 1
    with pytest.raises(DiskError, match=f"{name} is damaged between offset"):
        spool.checked(locations[7])
    assert read(spool, locations[0], 1) == b"\0"
