"""Replication ids: epoch and count in one number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.replication_id import (
    COUNT_BITS,
    EPOCH_MAX,
    count_of,
    epoch_of,
    first_id,
)

EPOCHS = st.integers(0, EPOCH_MAX)
COUNTS = st.integers(1, (1 << COUNT_BITS) - 1)


def test_without_a_cluster_numbers_count_from_one() -> None:
    assert first_id(0) == 1
    assert (epoch_of(7), count_of(7)) == (0, 7)


@given(EPOCHS, COUNTS)
def test_a_number_says_its_epoch_and_its_count(epoch: int, count: int) -> None:
    number = first_id(epoch) + count - 1
    assert (epoch_of(number), count_of(number)) == (epoch, count)
    # A machine word of the compiled build, and a field of eight octets.
    assert number < 1 << 62


@given(st.integers(0, EPOCH_MAX - 1), COUNTS)
def test_a_later_epoch_has_higher_numbers(epoch: int, count: int) -> None:
    assert first_id(epoch) + count - 1 < first_id(epoch + 1)


def test_an_epoch_that_does_not_fit_is_refused() -> None:
    with pytest.raises(AssertionError, match="repeat"):
        first_id(EPOCH_MAX + 1)
