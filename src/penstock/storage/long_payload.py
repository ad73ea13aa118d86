"""A payload that is composed over many ticks and written in one, without being joined.

Its checksum grows with it. A batch's checksum covers the header first, which is known last, so the
two are combined: the checksum of `a + b` follows from those of `a` and `b` and the size of `b`.
"""

from typing import Final
from zlib import crc32

# Of the checksum: x^32 + x^26 + ... + 1, lowest power first, without the highest.
_POLYNOMIAL: Final = 0xEDB8_8320
_HIGHEST: Final = 1 << 31
# x to the power of one octet, in the same notation: 1 is the highest bit.
_OCTET: Final = 1 << 23
# The same to the powers of 1, 2, 4 and so on, as far as they were needed: one for each bit of a size.
_SQUARES: Final = [_OCTET]


class LongPayload:
    """Held by the code that prepares it, and by the journal while it is appended."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size: int = 0
        self.checksum: int = 0

    def add(self, piece: bytes) -> None:
        if piece:
            self.pieces.append(piece)
        self.size += len(piece)
        self.checksum = crc32(piece, self.checksum)

    def extend(self, other: "LongPayload") -> None:
        """The cost does not depend on the length of the other one."""
        self.pieces.extend(other.pieces)
        self.size += other.size
        self.checksum = combined(self.checksum, other.checksum, other.size)


def combined(first: int, second: int, second_size: int) -> int:
    """The checksum of two parts: from the checksums of both and the size of the second."""
    return _product(_power_of_octet(second_size), first) ^ second


def _power_of_octet(exponent: int) -> int:
    result = _HIGHEST
    index = 0
    while exponent:
        if index == len(_SQUARES):
            _SQUARES.append(_product(_SQUARES[index - 1], _SQUARES[index - 1]))
        if exponent & 1:
            result = _product(_SQUARES[index], result)
        index += 1
        exponent >>= 1
    return result


def _product(one: int, other: int) -> int:
    """The product of two polynomials over the field of two elements, modulo that of the
    checksum.
    """
    result = 0
    while one:
        if one & _HIGHEST:
            result ^= other
        one = (one << 1) & 0xFFFF_FFFF
        other = other >> 1 ^ _POLYNOMIAL if other & 1 else other >> 1
    return result
