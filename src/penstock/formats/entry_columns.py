"""One field of many index entries at once: an entry has eight words of 32 bits, a column is every eighth.

Most messages repeat the one before them, and what is done for a column costs a tenth of what it costs
entry by entry. The layout of an entry is in `stream_index`.
"""

import sys
from array import array
from itertools import accumulate
from typing import Final

from penstock.formats.stream_index import (
    BODY_SIZE_AT,
    CRC_AT,
    ENTRY_SIZE,
    EXCHANGE_SIZE_AT,
    FIXED_SIZE,
    HEADER_SIZE_AT,
    KEY_SIZE_AT,
    POSITION_AT,
    UNSYNCED_AT,
    UNSYNCED_MAX,
)
from penstock.formats.stream_payload import FRAMING_SIZE

_WORD_SIZE: Final = 4
_WORDS: Final = ENTRY_SIZE // _WORD_SIZE
_WORD_MAX: Final = 0xFFFF_FFFF
_NOTHING_VARIED: Final = bytes(ENTRY_SIZE - FIXED_SIZE)
# Fewer entries cost less one by one.
COLUMN_COUNT_MIN: Final = 8
_NO_END: Final = -1


def _words(octets: bytes) -> "array[int]":
    """As they stand in a file: on a big-endian machine their values are not the numbers."""
    words = array("I", octets)
    assert words.itemsize == _WORD_SIZE, "an unsigned int has 32 bits"
    return words


def _column(words: "array[int]", at: int) -> "array[int]":
    column = words[at // _WORD_SIZE :: _WORDS]
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _set_column(words: "array[int]", at: int, column: "array[int]") -> None:
    if sys.byteorder == "big":
        column.byteswap()
    words[at // _WORD_SIZE :: _WORDS] = column


def _unsynced_column(first: int, count: int) -> "array[int]":
    if first + count <= UNSYNCED_MAX:
        return array("I", range(first, first + count))
    return array("I", [min(first + place, UNSYNCED_MAX) for place in range(count)])


def repeated_entries(
    fixed: bytes, position: int, size: int, checksums: list[int], unsynced: int
) -> bytes:
    """Entries with the same beginning, one for each checksum: the first payload is at a position, all
    have one size, and so many messages before the first are not durable.
    """
    count = len(checksums)
    words = _words((fixed + _NOTHING_VARIED) * count)
    _set_column(words, POSITION_AT, array("I", range(position, position + count * size, size)))
    _set_column(words, CRC_AT, array("I", checksums))
    _set_column(words, UNSYNCED_AT, _unsynced_column(unsynced, count))
    return words.tobytes()


def with_unsynced(entries: bytes, unsynced: int) -> bytes:
    """The entries with how many messages before each are not known to be durable, where the first
    one has so many. The checksum does not cover it.
    """
    words = _words(entries)
    _set_column(words, UNSYNCED_AT, _unsynced_column(unsynced, len(entries) // ENTRY_SIZE))
    return words.tobytes()


def payloads_end(entries: bytes) -> int:
    """The position behind the payload of the last entry; -1 unless each payload begins where the one
    before ends.
    """
    words = _words(entries)
    positions = _column(words, POSITION_AT)
    headers = _column(words, HEADER_SIZE_AT)
    bodies = _column(words, BODY_SIZE_AT)
    exchanges = entries[EXCHANGE_SIZE_AT::ENTRY_SIZE]
    keys = entries[KEY_SIZE_AT::ENTRY_SIZE]
    count = len(positions)
    first: int = positions[0]
    if _is_one(exchanges, 1) and _is_one(keys, 1) and _is_one(headers.tobytes(), _WORD_SIZE):
        if _is_one(bodies.tobytes(), _WORD_SIZE):
            size: int = FRAMING_SIZE + exchanges[0] + keys[0] + headers[0] + bodies[0]
            end = first + count * size
            if end - size > _WORD_MAX or positions != array("I", range(first, end, size)):
                return _NO_END
            return end
    sizes = [
        FRAMING_SIZE + exchange + key + header + body
        for exchange, key, header, body in zip(exchanges, keys, headers, bodies, strict=True)
    ]
    ends = list(accumulate(sizes, initial=first))
    last = ends.pop()
    return last if ends == positions.tolist() else _NO_END


def _is_one(column: bytes, width: int) -> bool:
    """Whether all values of a column are the same."""
    return column == column[:width] * (len(column) // width)
