"""Batches: valid as a whole and where they were written, and found again behind damage."""

import pytest

from penstock.storage.batch import (
    BATCH_HEADER_BYTES,
    WINDOW_BYTES,
    BatchReader,
    batch_header,
    find_batch,
)
from tests.storage.doubles import MemoryDisk, MemoryFile

SEED = 7


def file_of(content: bytes) -> MemoryFile:
    return MemoryFile(MemoryDisk(), content)


def batch(payload: bytes, position: int, durable: int = 0) -> bytes:
    return batch_header(payload, position, durable, SEED) + payload


def test_batches_are_read_one_after_the_other() -> None:
    content = batch(b"one", 100) + batch(b"", 131, 100) + batch(b"three", 159, 131)
    reader = BatchReader(file_of(b"head" + content), 4, 100, SEED)
    found = []
    while reader.next():
        found.append((reader.payload, reader.payload_offset, reader.durable))
    assert found == [(b"one", 32, 0), (b"", 63, 100), (b"three", 91, 131)]
    assert reader.is_at_end()
    assert reader.position == 100 + len(content)


@pytest.mark.parametrize("size", [WINDOW_BYTES // 3, WINDOW_BYTES, WINDOW_BYTES * 2 + 5])
def test_batches_of_any_size_are_read_whole(size: int) -> None:
    payloads = [bytes([number]) * size for number in range(4)]
    content = b""
    for payload in payloads:
        content += batch(payload, len(content))
    reader = BatchReader(file_of(content), 0, 0, SEED)
    for payload in payloads:
        assert reader.next() and reader.payload == payload
    assert reader.is_at_end() and not reader.next()


@pytest.mark.parametrize(
    "content",
    [
        batch(b"payload", 1),  # written somewhere else
        batch(b"payload", 0, 1),  # says that more was safe than there was
        batch_header(b"payload", 0, 0, SEED + 1) + b"payload",  # of another store
        batch(b"payload", 0)[:-1],
        batch(b"payload", 0)[: BATCH_HEADER_BYTES - 1],
        b"",
    ],
)
def test_a_batch_that_is_not_whole_or_not_in_its_place_is_not_valid(content: bytes) -> None:
    reader = BatchReader(file_of(content), 0, 0, SEED)
    assert not reader.next()
    assert reader.offset == 0
    assert find_batch(file_of(content), 0, 0, SEED, -1) == -1


@pytest.mark.parametrize("before", [*range(BATCH_HEADER_BYTES + 2), 500])
def test_a_batch_is_found_wherever_a_window_ends(before: int) -> None:
    offset = WINDOW_BYTES - before
    content = bytes(offset) + batch(b"payload", offset + 9) + bytes(before)
    for shift in (9, None):
        assert find_batch(file_of(content), 0, shift, SEED, -1) == offset
        assert find_batch(file_of(content), offset, shift, SEED, -1) == offset
        assert find_batch(file_of(content), offset + 1, shift, SEED, -1) == -1
    assert find_batch(file_of(content), 0, 8, SEED, -1) == -1


def test_only_a_batch_that_says_enough_is_found() -> None:
    content = batch(b"a", 0) + batch(b"b", 29, 20) + batch(b"c", 58, 50)
    for above, offset in ((-1, 0), (0, 29), (19, 29), (20, 58), (49, 58), (50, -1)):
        assert find_batch(file_of(content), 0, 0, SEED, above) == offset
