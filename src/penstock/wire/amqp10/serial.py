"""Serial numbers of 32 bits (RFC 1982): transfer ids, delivery ids and delivery counts wrap around.

`difference` is only meaningful while both numbers lie within 2**31 of each other, which is why no
window and no credit may be larger.
"""

from typing import Final

MASK: Final = 0xFFFF_FFFF
# Half of the numbers: what lies further ahead counts as behind.
HALF: Final = 0x8000_0000


def advance(number: int, count: int) -> int:
    return (number + count) & MASK


def difference(later: int, earlier: int) -> int:
    """How far `later` is ahead of `earlier`; negative when it is behind."""
    distance = (later - earlier) & MASK
    return distance - 0x1_0000_0000 if distance >= HALF else distance
