"""Columns of index entries: what is done for many at once is what is done one by one."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.entry_columns import payloads_end, repeated_entries, with_unsynced
from penstock.formats.stream_index import (
    ENTRY_SIZE,
    FIXED,
    POSITION_AT,
    UNSYNCED_MAX,
    IndexEntry,
    encode_entry,
)

FIXED_OCTETS = FIXED.pack(1_700_000_000_000, 10, 100, 3, 5, 0)
# Framing, both names, header, body.
SIZE = IndexEntry(encode_entry(FIXED_OCTETS, 0, 0, 0), 0).size()


def entries_of(sizes: list[tuple[int, int, int, int]], first: int) -> bytes:
    """Entries whose payloads follow one another; of each header, body, exchange and key."""
    found: list[bytes] = []
    position = first
    for number, (header, body, exchange, key) in enumerate(sizes):
        fixed = FIXED.pack(7, header, body, exchange, key, number % 3)
        entry = encode_entry(fixed, position, number * 1_000_003 % 2**32, number)
        found.append(entry)
        position = IndexEntry(entry, 0).end()
    return b"".join(found)


SIZES = st.tuples(
    st.integers(0, 1000), st.integers(0, 100_000), st.integers(0, 255), st.integers(0, 255)
)


@given(
    st.integers(0, 1_000_000),
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40),
    st.one_of(st.integers(0, 10_000), st.integers(UNSYNCED_MAX - 20, UNSYNCED_MAX)),
)
def test_repeated_entries_are_those_that_are_encoded_one_by_one(
    position: int, checksums: list[int], unsynced: int
) -> None:
    assert repeated_entries(FIXED_OCTETS, position, SIZE, checksums, unsynced) == b"".join(
        encode_entry(
            FIXED_OCTETS, position + place * SIZE, checksum, min(unsynced + place, UNSYNCED_MAX)
        )
        for place, checksum in enumerate(checksums)
    )


@given(
    st.lists(SIZES, min_size=1, max_size=30),
    st.one_of(st.integers(0, 10_000), st.integers(UNSYNCED_MAX - 20, UNSYNCED_MAX)),
)
def test_only_what_was_not_durable_is_changed(
    sizes: list[tuple[int, int, int, int]], unsynced: int
) -> None:
    entries = entries_of(sizes, 32)
    changed = with_unsynced(entries, unsynced)
    for place in range(len(sizes)):
        at = place * ENTRY_SIZE
        before, after = IndexEntry(entries, at), IndexEntry(changed, at)
        assert after.unsynced == min(unsynced + place, UNSYNCED_MAX)
        assert changed[at : at + ENTRY_SIZE - 4] == entries[at : at + ENTRY_SIZE - 4]
        assert (after.position, after.crc) == (before.position, before.crc)


@given(st.one_of(st.lists(SIZES, min_size=1, max_size=30), SIZES.map(lambda one: [one] * 20)))
def test_the_end_of_payloads_that_follow_one_another(
    sizes: list[tuple[int, int, int, int]],
) -> None:
    entries = entries_of(sizes, 32)
    assert payloads_end(entries) == IndexEntry(entries, len(entries) - ENTRY_SIZE).end()


@pytest.mark.parametrize("is_uniform", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_a_payload_at_another_place_is_noticed(seed: int, *, is_uniform: bool) -> None:
    dice = Random(seed)
    sizes = [(dice.randint(0, 9), dice.randint(0, 99), 1, 2) for _ in range(20)]
    entries = bytearray(entries_of([sizes[0]] * 20 if is_uniform else sizes, 32))
    place = dice.randrange(1, 20) * ENTRY_SIZE + POSITION_AT
    value = int.from_bytes(entries[place : place + 4], "little")
    entries[place : place + 4] = (value + dice.choice([-1, 1, 70_000])).to_bytes(4, "little")
    assert payloads_end(bytes(entries)) == -1


def test_positions_that_do_not_fit_their_field_are_noticed() -> None:
    entry = encode_entry(FIXED.pack(7, 0, 2**31, 0, 0, 0), 2**31, 0, 0)
    assert payloads_end(entry * 3) == -1
