"""What is read back out of a journal is checked: a changed octet is never handed on."""

import pytest

from penstock.storage.batch import batch_header
from penstock.storage.checked_reading import BLOCK_BYTES, WHOLE_BYTES_MAX, SegmentBlocks
from penstock.storage.journal import Journal
from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.recovery import recover
from penstock.storage.segment import offset_of, segment_name, segment_of
from penstock.world.disk import AppendFile, DiskError
from tests.storage.doubles import Collector, RecordingOwner

STORE_ID = bytes(range(16))


def opened(disk: MemoryDisk, segment_bytes_max: int = 1 << 30) -> Journal:
    return Journal(disk, RecordingOwner(), recover(disk, STORE_ID, Collector()), segment_bytes_max)


def read(journal: Journal, location: int, size: int) -> bytes:
    checked = journal.checked(location, size)
    at = offset_of(location) - checked.start
    return checked.data[at : at + size]


SIZES = [1, 500, BLOCK_BYTES - 40, 7, BLOCK_BYTES * 2, 100, WHOLE_BYTES_MAX + 5, 3, 90_000, 90_000]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("segment_bytes_max", [1 << 30, 300_000])
def test_every_batch_is_read_as_it_was_written(is_restarted: bool, segment_bytes_max: int) -> None:
    disk = MemoryDisk()
    journal = opened(disk, segment_bytes_max)
    payloads = [bytes([number]) * size for number, size in enumerate(SIZES, 1)]
    locations = [journal.append(payload) for payload in payloads]
    if is_restarted:
        journal = opened(disk, segment_bytes_max)
    for location, payload in zip(locations, payloads, strict=True):
        assert read(journal, location, len(payload)) == payload
        head = location - 28
        assert journal.batch_payload(head) == payload


@pytest.mark.parametrize("size", [200, WHOLE_BYTES_MAX + 1])
@pytest.mark.parametrize("at", [-28, -21, -17, -9, -1, 0, 150])
def test_an_octet_that_changed_in_a_batch_is_named(size: int, at: int) -> None:
    disk = MemoryDisk()
    journal = opened(disk)
    journal.append(b"before" * BLOCK_BYTES)
    location = journal.append(b"x" * size)
    journal.append(b"behind" * BLOCK_BYTES)
    name = segment_name(segment_of(location))
    disk.files[name].content[offset_of(location) + at] ^= 1
    begin = offset_of(location) - 28
    with pytest.raises(DiskError, match=f"{name} is damaged at offset {begin}: .*store check"):
        journal.checked(location, 1)
    with pytest.raises(DiskError, match=f"{name} is damaged at offset {begin}: "):
        journal.batch_payload(location - 28)


def test_a_file_that_was_cut_is_named() -> None:
    disk = MemoryDisk()
    journal = opened(disk)
    location = journal.append(b"x" * 200)
    file = disk.files[segment_name(1)]
    file.truncate(offset_of(location) + 100)
    with pytest.raises(DiskError, match="is damaged at offset"):
        journal.checked(location, 1)


def test_many_small_batches_are_remembered_by_a_few_numbers() -> None:
    journal = opened(MemoryDisk())
    locations = [journal.append(b"%06d" % number) for number in range(20_000)]
    assert read(journal, locations[12_345], 6) == b"012345"
    assert len(journal._blocks[1]._starts) == 20_000 * 34 // BLOCK_BYTES + 1


class CountingFile(AppendFile):
    """Says how many octets of it were read."""

    def __init__(self) -> None:
        self.content = b""
        self.read_bytes = 0

    def size(self) -> int:
        return len(self.content)

    def append(self, data: bytes) -> int:
        self.content += data
        return len(data)

    def read(self, position: int, size: int) -> bytes:
        found = self.content[position : position + size]
        self.read_bytes += len(found)
        return found

    def truncate(self, size: int) -> None:
        self.content = self.content[:size]

    def close(self) -> None:
        """Nothing is open."""


def test_a_large_batch_at_the_end_is_checked_once_and_again_when_it_has_grown() -> None:
    """A commit of a hundred megabytes was checked anew for every page that was read of it."""
    file = CountingFile()
    blocks = SegmentBlocks()
    payload = b"x" * (WHOLE_BYTES_MAX + 1)
    blocks.batch_at(0)
    file.append(batch_header(payload, 0, 0, 7) + payload)
    blocks.read("segment", file, 7, 28, 1)
    assert file.read_bytes > WHOLE_BYTES_MAX
    file.read_bytes = 0
    for _ in range(3):
        blocks.read("segment", file, 7, 28, 1)
    assert file.read_bytes == 3 * BLOCK_BYTES
    file.append(batch_header(b"more", 0, 0, 8) + b"more")
    with pytest.raises(DiskError):
        blocks.read("segment", file, 7, 28, 1)
