"""Row blocks have the bytes that the drawing says."""

import zlib

from penstock.formats.row_block import BLOCK_HEAD, BLOCK_HEAD_SIZE, NO_ROWS, RowBlockWriter
from penstock.formats.stream_index import ENTRY_SIZE, WAS_DELIVERED, IndexEntry
from penstock.formats.stream_payload import PayloadParts


def test_a_block_without_rows_is_its_head() -> None:
    assert RowBlockWriter().octets() == NO_ROWS == bytes(8)


def test_a_block_of_one_row_has_known_bytes() -> None:
    writer = RowBlockWriter()
    writer.add(1, WAS_DELIVERED, b"\x00\x01k", b"h", b"bo")
    fixed = bytes.fromhex("0100000000000000010000000200000000010400")
    payload = b"\x00\x01k\x01\0\0\0h\x02\0\0\0bo"
    crc = zlib.crc32(payload, zlib.crc32(fixed)).to_bytes(4, "little")
    head = b"\x01\0\0\0\x0e\0\0\0"
    assert writer.octets() == head + fixed + bytes(4) + crc + bytes(4) + payload


def test_the_index_of_a_block_leads_to_every_row() -> None:
    writer = RowBlockWriter()
    bodies = [b"", b"one", b"x" * 300]
    for number, body in enumerate(bodies):
        writer.add(number, 0, b"\x01e\x00", b"header", body)
    block = writer.octets()
    count, log_size = BLOCK_HEAD.unpack_from(block)
    log = BLOCK_HEAD_SIZE + ENTRY_SIZE * count
    assert (count, len(block)) == (writer.count, log + log_size)
    for number, body in enumerate(bodies):
        entry = IndexEntry(block, BLOCK_HEAD_SIZE + ENTRY_SIZE * number)
        parts = PayloadParts(block, log + entry.position)
        assert (entry.timestamp, entry.body_size) == (number, len(body))
        assert block[parts.body : parts.end] == body
        assert parts.end == log + entry.end()
