"""Payloads in pieces: the same octets and the same checksum as joined ones."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.batch import batch_header, long_batch_header, summed_batch_header
from penstock.storage.journal import JOINED_BYTES_MAX, NOT_SUMMED, SUMMED_BYTES_MIN
from penstock.storage.long_payload import LongPayload, combined
from penstock.storage.segment import offset_of, segment_name, segment_of
from penstock.world.disk import AppendFile, DiskError
from tests.storage.doubles import MemoryDisk, MemoryFile, journal_on, recovered

PIECES = st.lists(st.binary(max_size=200), min_size=1, max_size=20)


def payload_of(pieces: list[bytes]) -> LongPayload:
    payload = LongPayload()
    for piece in pieces:
        payload.add(piece)
    return payload


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 0xFFFF_FFFF))
def test_a_checksum_follows_from_those_of_two_parts(one: bytes, other: bytes, seed: int) -> None:
    assert combined(crc32(one, seed), crc32(other), len(other)) == crc32(one + other, seed)


def test_a_checksum_follows_from_those_of_two_very_long_parts() -> None:
    other = bytes(range(256)) * 70_001
    assert combined(crc32(b"header"), crc32(other), len(other)) == crc32(b"header" + other)


@given(PIECES, PIECES, st.integers(0, 1 << 60), st.integers(0, 0xFFFF_FFFF))
def test_the_header_of_a_batch_is_the_same_as_of_the_joined_payload(
    pieces: list[bytes], more: list[bytes], position: int, seed: int
) -> None:
    payload = payload_of(pieces)
    payload.extend(payload_of(more))
    joined = b"".join(pieces + more)
    assert b"".join(payload.pieces) == joined
    assert payload.size == len(joined)
    expected = batch_header(joined, position, position // 2, seed)
    assert long_batch_header(payload, position, position // 2, seed) == expected


@given(st.lists(PIECES.filter(any), min_size=1, max_size=6), st.integers(100, 3000))
def test_a_journal_written_in_pieces_has_the_same_octets_and_is_recovered(
    batches: list[list[bytes]], segment_bytes_max: int
) -> None:
    joined_disk, pieces_disk = MemoryDisk(), MemoryDisk()
    joined_journal = journal_on(joined_disk, segment_bytes_max)
    pieces_journal = journal_on(pieces_disk, segment_bytes_max)
    for number, pieces in enumerate(batches):
        joined = b"".join(pieces)
        location = joined_journal.append(joined)
        assert pieces_journal.append_long(payload_of(pieces)) == location
        assert pieces_journal.position == joined_journal.position
        assert pieces_journal.read(location, len(joined)) == joined
        if number % 2:
            # Both ways in one journal.
            assert pieces_journal.append(b"small") == joined_journal.append(b"small")
    assert pieces_disk.contents() == joined_disk.contents()
    assert recovered(pieces_disk)[0] == recovered(joined_disk)[0]


@given(PIECES.filter(any), st.data())
def test_a_batch_in_pieces_that_is_torn_anywhere_is_cut_off(
    pieces: list[bytes], data: st.DataObject
) -> None:
    disk = MemoryDisk()
    journal = journal_on(disk)
    journal.append(b"before")
    name = segment_name(journal.active_segment())
    whole = len(disk.contents()[name])
    journal.append_long(payload_of(pieces))
    size = len(disk.contents()[name])
    kept = data.draw(st.integers(whole, size - 1))
    payloads, state = recovered(MemoryDisk({name: disk.contents()[name][:kept]}))
    assert payloads == [b"before"]
    assert (state.torn_tail is None) == (kept == whole)


@given(PIECES.filter(any), st.data())
def test_an_octet_of_a_batch_in_pieces_that_changed_is_noticed(
    pieces: list[bytes], data: st.DataObject
) -> None:
    disk = MemoryDisk()
    location = journal_on(disk).append_long(payload_of(pieces))
    size = sum(map(len, pieces))
    place = offset_of(location) + data.draw(st.integers(0, size - 1))
    content = bytearray(disk.contents()[segment_name(segment_of(location))])
    content[place] ^= 1
    payloads, _ = recovered(MemoryDisk({segment_name(segment_of(location)): bytes(content)}))
    assert payloads == []


def test_a_disk_that_has_no_room_for_a_batch_in_pieces_ends_the_journal() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk)
    journal.append(b"before")
    disk.room = 10
    with pytest.raises(DiskError, match="no space"):
        journal.append_long(payload_of([b"x" * 20, b"y" * 20]))
    disk.room = 1 << 40
    with pytest.raises(DiskError, match="no space"):
        journal.append(b"after")
    assert recovered(MemoryDisk(disk.contents()))[0] == [b"before"]


class OneAtATime(MemoryFile):
    """Takes pieces as they are, to show that nobody joins them before."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk, b"")
        self.taken: list[list[bytes]] = []

    def append_pieces(self, pieces: list[bytes]) -> int:
        self.taken.append(pieces)
        return super().append_pieces(pieces)


class PieceDisk(MemoryDisk):
    def open(self, name: str) -> AppendFile:
        if name not in self.files:
            self.files[name] = OneAtATime(self)
        return self.files[name]


def test_the_journal_hands_the_pieces_over_as_they_are() -> None:
    disk = PieceDisk()
    pieces = [b"a" * 100, b"b" * 100]
    location = journal_on(disk).append_long(payload_of(pieces))
    file = disk.files[segment_name(segment_of(location))]
    assert isinstance(file, OneAtATime)
    assert len(file.taken) == 1
    assert [id(piece) for piece in file.taken[0][1:]] == [id(piece) for piece in pieces]


@given(st.binary(min_size=1, max_size=300), st.integers(0, 1 << 60), st.integers(0, 0xFFFF_FFFF))
def test_the_header_of_a_batch_follows_from_the_checksum_of_its_payload(
    payload: bytes, position: int, seed: int
) -> None:
    header = summed_batch_header(len(payload), crc32(payload), position, position // 2, seed)
    assert header == batch_header(payload, position, position // 2, seed)


@pytest.mark.parametrize("size", [SUMMED_BYTES_MIN - 1, SUMMED_BYTES_MIN, 5 * SUMMED_BYTES_MIN])
def test_a_journal_with_known_checksums_has_the_same_octets(size: int) -> None:
    plain_disk, summed_disk = MemoryDisk(), MemoryDisk()
    plain_journal, summed_journal = (
        journal_on(plain_disk, 1 << 20),
        journal_on(summed_disk, 1 << 20),
    )
    for number in range(3):
        payload = bytes([number, 7]) * (size // 2)
        location = plain_journal.append(payload)
        assert summed_journal.append(payload, crc32(payload)) == location
    assert summed_disk.contents() == plain_disk.contents()


@pytest.mark.parametrize(
    "size", [10, JOINED_BYTES_MAX, JOINED_BYTES_MAX + 1, SUMMED_BYTES_MIN, 5 * SUMMED_BYTES_MIN]
)
@pytest.mark.parametrize("is_summed", [False, True])
def test_a_payload_may_be_what_follows_a_place_in_longer_octets(
    size: int, *, is_summed: bool
) -> None:
    plain_disk, other_disk = MemoryDisk(), MemoryDisk()
    plain_journal, other_journal = journal_on(plain_disk, 1 << 20), journal_on(other_disk, 1 << 20)
    for number in range(3):
        payload = bytes([number, 7]) * (size // 2)
        checksum = crc32(payload) if is_summed else NOT_SUMMED
        location = plain_journal.append(payload, checksum)
        assert other_journal.append(b"head" + payload, checksum, 4) == location
    assert other_disk.contents() == plain_disk.contents()
