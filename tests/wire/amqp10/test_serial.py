"""Serial numbers wrap around (RFC 1982)."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.amqp10.serial import HALF, MASK, advance, difference


@given(st.integers(0, MASK), st.integers(0, HALF - 1))
def test_the_difference_undoes_an_advance(number: int, count: int) -> None:
    later = advance(number, count)
    assert 0 <= later <= MASK
    assert difference(later, number) == count
    assert difference(number, later) == -count


def test_numbers_wrap_around() -> None:
    assert advance(MASK, 1) == 0
    assert difference(1, MASK) == 2
    assert difference(MASK, 1) == -2
    assert difference(HALF, 0) == -HALF
