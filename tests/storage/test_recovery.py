"""Recovery: a torn tail is cut, damage is refused with its place, and nothing else happens."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.batch import BATCH_HEADER_BYTES, batch_header
from penstock.storage.errors import Damaged, NotAStore, StorageError, WrongVersion
from penstock.storage.recovery import recover
from penstock.storage.segment import (
    FORMAT_VERSION,
    SEGMENT_HEADER_BYTES,
    batch_seed,
    encode_segment_header,
    segment_name,
    segment_number,
    segment_of,
)
from tests.storage.doubles import (
    OTHER_ID,
    STORE_ID,
    Collector,
    MemoryDisk,
    journal_on,
    recovered,
)

Contents = dict[str, bytes]

# Batches that make three segments of two each, with a note behind each batch or without.
PAYLOADS = [bytes([65 + number]) * 40 for number in range(6)]
SEGMENT_BYTES = SEGMENT_HEADER_BYTES + 2 * (BATCH_HEADER_BYTES + 40)
NOTED_SEGMENT_BYTES = SEGMENT_BYTES + 2 * BATCH_HEADER_BYTES


def flushed_store(payloads: list[bytes] = PAYLOADS) -> Contents:
    """Every batch flushed on its own, and the note behind the last."""
    disk = MemoryDisk()
    journal = journal_on(disk, NOTED_SEGMENT_BYTES)
    for payload in payloads:
        journal.append(payload)
        journal.request_flush()
        disk.settle()
    return disk.contents()


def unflushed_store(payloads: list[bytes] = PAYLOADS) -> Contents:
    disk = MemoryDisk()
    journal = journal_on(disk, SEGMENT_BYTES)
    for payload in payloads:
        journal.append(payload)
    return disk.contents()


def batches_of(contents: Contents) -> list[tuple[str, int, int]]:
    """File, offset of the batch and offset behind it, notes too."""
    found = []
    for name in sorted(contents):
        offset = SEGMENT_HEADER_BYTES
        while offset < len(contents[name]):
            length = int.from_bytes(contents[name][offset + 8 : offset + 12], "big")
            end = offset + BATCH_HEADER_BYTES + length
            found.append((name, offset, end))
            offset = end
    return found


def test_the_layout_of_the_two_stores_is_what_the_tests_below_think() -> None:
    for store, count in ((unflushed_store(), 6), (flushed_store(), 12)):
        assert sorted(store) == [segment_name(number) for number in (1, 2, 3)]
        assert len(batches_of(store)) == count
    assert recovered(MemoryDisk(unflushed_store()))[0] == PAYLOADS
    assert recovered(MemoryDisk(flushed_store()))[0] == PAYLOADS
    assert recovered(MemoryDisk(flushed_store()))[1].torn_tail is None


def test_a_new_store_has_the_given_id_and_an_old_one_keeps_its_own() -> None:
    assert recovered(MemoryDisk())[1].store_id == OTHER_ID
    assert recovered(MemoryDisk(flushed_store()))[1].store_id == STORE_ID


def test_locations_given_at_recovery_are_those_given_when_appending() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, SEGMENT_BYTES)
    locations = [journal.append(payload) for payload in PAYLOADS]
    disk = MemoryDisk(disk.contents())
    collector = Collector()
    journal = journal_on(disk)
    recover(disk, OTHER_ID, collector)
    assert collector.locations == locations
    assert [journal.read(location, 40) for location in locations] == PAYLOADS


def test_every_cut_through_the_last_batch_loses_that_batch_alone() -> None:
    contents = unflushed_store()
    name, offset, end = batches_of(contents)[-1]
    for size in range(offset, end):
        disk = MemoryDisk({**contents, name: contents[name][:size]})
        payloads, state = recovered(disk)
        assert payloads == PAYLOADS[:-1]
        assert len(disk.contents()[name]) == offset
        if size == offset:
            assert state.torn_tail is None
        else:
            assert state.torn_tail is not None
            tail = (state.torn_tail.file, state.torn_tail.offset, state.torn_tail.octets)
            assert tail == (name, offset, size - offset)


def test_every_cut_through_a_store_of_one_unflushed_segment_keeps_the_batches_before_it() -> None:
    contents = unflushed_store(PAYLOADS[:2])
    (name,) = contents
    ends = [end for _, _, end in batches_of(contents)]
    for size in range(len(contents[name])):
        payloads, _ = recovered(MemoryDisk({name: contents[name][:size]}))
        assert payloads == PAYLOADS[: sum(end <= size for end in ends)]


@given(lost=st.sets(st.integers(0, 5), min_size=1))
def test_unflushed_batches_that_persist_in_no_order_are_cut_and_not_called_damage(
    lost: set[int],
) -> None:
    contents = unflushed_store()
    batches = batches_of(contents)
    for index in lost:
        name, offset, end = batches[index]
        content = contents[name]
        contents[name] = content[:offset] + bytes(end - offset) + content[end:]
    disk = MemoryDisk(contents)
    payloads, state = recovered(disk)
    assert payloads == PAYLOADS[: min(lost)]
    assert state.torn_tail is not None
    assert recovered(MemoryDisk(disk.contents()))[0] == payloads, "cut once and for all"


@given(
    flushed_count=st.integers(0, 5),
    # As long as a header at least: a disk writes sectors, so a header is there or it is zeros.
    holes=st.lists(st.tuples(st.integers(0, 200), st.integers(SEGMENT_HEADER_BYTES, 200))),
    data=st.data(),
)
def test_whatever_becomes_of_the_unflushed_part_the_flushed_part_is_recovered(
    flushed_count: int, holes: list[tuple[int, int]], data: st.DataObject
) -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, SEGMENT_BYTES)
    for payload in PAYLOADS[:flushed_count]:
        journal.append(payload)
    journal.request_flush()
    disk.settle()
    safe = disk.contents()
    for payload in PAYLOADS[flushed_count:]:
        journal.append(payload)
    contents = disk.contents()
    for name, content in contents.items():
        begin = len(safe.get(name, b""))
        if flushed_count and name in safe and name == max(safe):
            begin -= BATCH_HEADER_BYTES  # the note was not flushed
        kept = data.draw(st.integers(begin, len(content)))
        torn = bytearray(content[:kept])
        for at, size in holes:
            end = min(begin + at + size, kept)
            torn[begin + at : end] = bytes(max(0, end - begin - at))
        contents[name] = bytes(torn)
    payloads, _ = recovered(MemoryDisk(contents))
    assert payloads[:flushed_count] == PAYLOADS[:flushed_count]
    assert payloads == PAYLOADS[: len(payloads)]


def test_a_flipped_bit_anywhere_in_what_was_flushed_is_damage_with_its_place() -> None:
    contents = flushed_store()
    places = batches_of(contents)
    note = places.pop()
    for name, content in contents.items():
        for at in range(len(content)):
            if name == note[0] and at >= note[1]:
                continue
            offset = 0
            for file, begin, end in places:
                if file == name and begin <= at < end:
                    offset = begin
            for bit in (0x01, 0x80):
                flipped = bytearray(content)
                flipped[at] ^= bit
                disk = MemoryDisk({**contents, name: bytes(flipped)})
                with pytest.raises(Damaged) as caught:
                    recovered(disk)
                assert (caught.value.file, caught.value.offset) == (name, offset)
                assert name in str(caught.value) and f"offset {offset}:" in str(caught.value)
                assert disk.contents() == {**contents, name: bytes(flipped)}, "nothing changed"


def test_a_flipped_bit_in_the_last_note_loses_nothing() -> None:
    contents = flushed_store()
    name, offset, end = batches_of(contents)[-1]
    for at in range(offset, end):
        flipped = bytearray(contents[name])
        flipped[at] ^= 1
        assert recovered(MemoryDisk({**contents, name: bytes(flipped)}))[0] == PAYLOADS


def test_every_cut_through_a_flushed_segment_before_the_last_is_damage() -> None:
    contents = flushed_store()
    name = segment_name(2)
    for size in range(len(contents[name])):
        disk = MemoryDisk({**contents, name: contents[name][:size]})
        with pytest.raises(Damaged) as caught:
            recovered(disk)
        assert caught.value.file in {name, segment_name(3)}


def test_a_missing_segment_in_the_middle_is_damage() -> None:
    contents = flushed_store()
    del contents[segment_name(2)]
    with pytest.raises(Damaged, match="missing") as caught:
        recovered(MemoryDisk(contents))
    assert (caught.value.file, caught.value.offset) == (segment_name(3), 0)


def test_a_missing_segment_that_was_never_flushed_is_a_torn_tail() -> None:
    contents = unflushed_store()
    del contents[segment_name(2)]
    disk = MemoryDisk(contents)
    payloads, state = recovered(disk)
    assert payloads == PAYLOADS[:2]
    assert disk.names() == [segment_name(1)]
    assert state.next_number == 4, "the removal of the third may come undone"


def test_a_store_whose_oldest_segments_were_reclaimed_is_whole() -> None:
    contents = flushed_store()
    del contents[segment_name(1)]
    assert recovered(MemoryDisk(contents))[0] == PAYLOADS[2:]


def test_a_bad_header_of_the_first_segment_left_is_damage() -> None:
    contents = flushed_store()
    del contents[segment_name(1)]
    contents[segment_name(2)] = bytes(46) + contents[segment_name(2)][46:]
    with pytest.raises(Damaged) as caught:
        recovered(MemoryDisk(contents))
    assert (caught.value.file, caught.value.offset) == (segment_name(2), 0)


def test_a_first_segment_that_was_never_flushed_and_is_lost_takes_the_rest_with_it() -> None:
    contents = unflushed_store()
    del contents[segment_name(1)]
    disk = MemoryDisk(contents)
    payloads, state = recovered(disk)
    assert (payloads, state.position, disk.names()) == ([], 0, [])


def test_a_first_segment_that_was_flushed_and_not_reclaimed_is_damage_when_it_is_missing() -> None:
    disk = MemoryDisk()
    journal = journal_on(disk, SEGMENT_BYTES)
    journal.append(PAYLOADS[0])
    journal.request_flush()
    disk.settle()
    journal.append(PAYLOADS[1])
    journal.append(PAYLOADS[2])
    contents = disk.contents()
    del contents[segment_name(1)]
    with pytest.raises(Damaged, match="missing") as caught:
        recovered(MemoryDisk(contents))
    assert (caught.value.file, caught.value.offset) == (segment_name(2), 0)


@pytest.mark.parametrize("zeros", [1, BATCH_HEADER_BYTES, 4096, 3 << 20])
def test_a_tail_of_zeros_is_cut(zeros: int) -> None:
    contents = flushed_store()
    name = max(contents)
    disk = MemoryDisk({**contents, name: contents[name] + bytes(zeros)})
    payloads, state = recovered(disk)
    assert payloads == PAYLOADS
    assert state.torn_tail is not None and state.torn_tail.octets == zeros
    assert disk.contents() == contents


@pytest.mark.parametrize("content", [b"", bytes(10), bytes(500), b"PEN", b"PENST" + bytes(60)])
def test_an_empty_or_half_made_segment_is_removed(content: bytes) -> None:
    contents = flushed_store()
    disk = MemoryDisk({**contents, segment_name(4): content})
    assert recovered(disk)[0] == PAYLOADS
    assert disk.contents() == contents
    alone = MemoryDisk({segment_name(1): content})
    assert recovered(alone)[0] == []
    assert alone.names() == []


def test_a_journal_goes_on_in_a_new_segment_behind_a_cut() -> None:
    contents = unflushed_store(PAYLOADS[:2])
    (name,) = contents
    disk = MemoryDisk({name: contents[name][:-1]})
    journal = journal_on(disk)
    assert segment_of(journal.append(b"after the cut")) == 2
    journal.request_flush()
    assert disk.files[name] in disk.flushes[0].files, "the cut must become safe too"
    assert recovered(MemoryDisk(disk.contents()))[0] == [PAYLOADS[0], b"after the cut"]


def test_a_cut_that_comes_undone_is_cut_again() -> None:
    contents = unflushed_store(PAYLOADS[:2])
    (name,) = contents
    torn = contents[name][:-1]
    disk = MemoryDisk({name: torn})
    journal = journal_on(disk)
    journal.append(b"after the cut")
    undone = MemoryDisk({**disk.contents(), name: torn})
    assert recovered(undone)[0] == PAYLOADS[:1]


def test_a_cut_is_safe_before_anybody_is_served() -> None:
    contents = flushed_store()
    last = max(contents)
    disk = MemoryDisk({**contents, last: contents[last][:-1]})
    state = recovered(disk)[1]
    assert state.torn_tail is not None
    assert disk.waited_for == [([disk.files[last]], disk.names())]


def test_segments_behind_a_cut_are_gone_for_good_before_anybody_is_served() -> None:
    contents = flushed_store()
    last = max(contents)
    disk = MemoryDisk({**contents, last: b""})
    state = recovered(disk)[1]
    assert state.torn_tail is not None
    ((files, names),) = disk.waited_for
    assert files == []
    assert last not in names


@pytest.mark.parametrize("version", [FORMAT_VERSION - 1, FORMAT_VERSION + 1])
def test_another_version_is_refused_by_number(version: int) -> None:
    contents = flushed_store()
    name = max(contents)
    header = bytearray(encode_segment_header(STORE_ID, 3, 0)[:-4])
    header[8:10] = version.to_bytes(2, "big")
    contents[name] = bytes(header) + crc32(header).to_bytes(4, "big") + b"who knows"
    disk = MemoryDisk(contents)
    said = f"{name} has format version {version}.* Nothing was changed. Use the version"
    with pytest.raises(WrongVersion, match=said):
        recovered(disk)
    assert disk.contents() == contents


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("journal/notes.txt", b"to do"),
        ("journal/1.log", b""),
        (segment_name(1), b"somebody else's log\n" * 10),
        (segment_name(4), b"somebody else's log\n" * 10),
    ],
)
def test_somebody_elses_file_is_refused_and_left_alone(name: str, content: bytes) -> None:
    contents = {name: content}
    if segment_number(name) != 1:
        contents |= flushed_store()
    disk = MemoryDisk(contents)
    with pytest.raises(NotAStore, match=name):
        recovered(disk)
    assert disk.contents() == contents


def test_files_outside_the_journals_folder_are_not_looked_at() -> None:
    contents = {**flushed_store(), "meta": b"{}", "streams/a": b"x", "journal/.nfs0001": b""}
    assert recovered(MemoryDisk(contents))[0] == PAYLOADS


def test_a_segment_of_another_store_is_refused() -> None:
    contents = flushed_store()
    contents[segment_name(4)] = encode_segment_header(OTHER_ID, 4, 408)
    with pytest.raises(NotAStore, match="another data directory"):
        recovered(MemoryDisk(contents))


def test_a_renamed_segment_is_damage() -> None:
    contents = flushed_store()
    contents[segment_name(9)] = contents.pop(segment_name(3))
    with pytest.raises(Damaged, match="segment 3"):
        recovered(MemoryDisk(contents))


def test_a_batch_inside_a_torn_payload_is_not_taken_for_a_promise() -> None:
    """Somebody may send the journal's own octets as a message."""
    disk = MemoryDisk()
    journal = journal_on(disk)
    journal.append(b"safe")
    for store_id, position, durable in ((STORE_ID, 5000, 4000), (OTHER_ID, 88, 70)):
        forged = batch_header(b"", position, durable, batch_seed(store_id))
        copied = MemoryDisk(disk.contents())
        again = journal_on(copied)
        again.append(forged + b"the rest")
        (name,) = copied.names()
        assert recovered(MemoryDisk({name: copied.contents()[name][:-1]}))[0] == [b"safe"]


@given(garbage=st.binary(max_size=200), data=st.data())
def test_any_octets_in_place_of_the_end_are_cut_or_refused_and_never_replayed(
    garbage: bytes, data: st.DataObject
) -> None:
    contents = unflushed_store(PAYLOADS[:2])
    (name,) = contents
    keep = data.draw(st.integers(0, len(contents[name])))
    try:
        payloads, _ = recovered(MemoryDisk({name: contents[name][:keep] + garbage}))
    except StorageError:
        return
    assert payloads == PAYLOADS[: len(payloads)]
