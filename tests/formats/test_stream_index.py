"""Entries and preambles of a stream's segment have the bytes that the drawing says."""

import zlib

import numpy as np
import pytest

from penstock.formats import stream_index
from penstock.formats.stream_index import (
    ENTRY_FIELDS,
    ENTRY_SIZE,
    FIXED,
    FIXED_SIZE,
    INDEX_MAGIC,
    LOG_MAGIC,
    PREAMBLE_SIZE,
    VARIED,
    IndexEntry,
    decode_preamble,
    encode_entry,
    encode_preamble,
    entry_crc,
)
from penstock.formats.stream_payload import encode_payload

PAYLOAD = encode_payload(b"\x01e\x02kk", b"head", b"body!")
FIXED_PART = FIXED.pack(1_700_000_000_123, 4, 5, 1, 2, 9)
ENTRY = encode_entry(FIXED_PART, 4096, entry_crc(FIXED_PART, PAYLOAD), 7)
KNOWN = bytes.fromhex(
    "7b68e5cf8b010000 04000000 05000000 01 02 0900 00100000 0fc82e68 07000000".replace(" ", "")
)


def test_an_entry_has_known_bytes() -> None:
    assert ENTRY == KNOWN


def test_an_entry_is_read_as_it_was_written() -> None:
    entry = IndexEntry(b"before" + ENTRY, 6)
    assert (entry.timestamp, entry.flags, entry.unsynced) == (1_700_000_000_123, 9, 7)
    assert (entry.exchange_size, entry.key_size) == (1, 2)
    assert (entry.header_size, entry.body_size) == (4, 5)
    assert (entry.position, entry.crc) == (4096, zlib.crc32(PAYLOAD, zlib.crc32(FIXED_PART)))
    assert entry.size() == len(PAYLOAD)
    assert entry.end() == 4096 + len(PAYLOAD)


def test_numpy_reads_an_entry_by_the_same_fields() -> None:
    kind = np.dtype(list(ENTRY_FIELDS))
    assert kind.itemsize == ENTRY_SIZE == len(ENTRY)
    row = np.frombuffer(ENTRY, kind)[0]
    entry = IndexEntry(ENTRY, 0)
    for name, _ in ENTRY_FIELDS:
        assert int(row[name]) == getattr(entry, name), name


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ("HEADER_SIZE_AT", "header_size"),
        ("BODY_SIZE_AT", "body_size"),
        ("EXCHANGE_SIZE_AT", "exchange_size"),
        ("KEY_SIZE_AT", "key_size"),
        ("FLAGS_AT", "flags"),
        ("POSITION_AT", "position"),
        ("CRC_AT", "crc"),
    ],
)
def test_a_place_in_an_entry_is_where_the_fields_have_it(place: str, field: str) -> None:
    fields = np.dtype(list(ENTRY_FIELDS)).fields
    assert fields is not None
    assert getattr(stream_index, place) == fields[field][1]


def test_the_two_parts_of_an_entry_fill_it() -> None:
    assert FIXED.size == FIXED_SIZE
    assert FIXED.size + VARIED.size == ENTRY_SIZE


def test_a_preamble_has_known_bytes_and_is_read_back() -> None:
    octets = encode_preamble(LOG_MAGIC, 258)
    assert len(octets) == PREAMBLE_SIZE == ENTRY_SIZE
    assert octets[:28] == b"PENSTLOG\x01\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0\0\0\0\0"
    found = decode_preamble(octets)
    assert found is not None
    assert (found.magic, found.version, found.first_offset) == (LOG_MAGIC, 1, 258)


def test_a_preamble_that_is_torn_or_changed_is_none() -> None:
    octets = encode_preamble(INDEX_MAGIC, 1)
    assert decode_preamble(octets[:-1]) is None
    for at in range(len(octets)):
        changed = bytearray(octets)
        changed[at] ^= 1
        assert decode_preamble(bytes(changed)) is None, at
