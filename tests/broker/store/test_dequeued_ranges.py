"""Ranges of what left a queue: they name every position once, and are few."""

import hypothesis
from hypothesis import strategies as st

from penstock.broker.store import records
from penstock.broker.store.dequeued_ranges import SHORT_MAX, DequeuedRanges

NEAR = 5 << 40


def decoded(ranges: DequeuedRanges) -> list[tuple[int, int]]:
    octets = b"".join(ranges.encoded())
    return records.read_ranges(octets, 0, len(octets))


def spread(ranges: list[tuple[int, int]]) -> list[int]:
    return [p for first, count in ranges for p in range(first, first + count)]


@hypothesis.given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3 * SHORT_MAX), st.booleans())),
    st.randoms(use_true_random=False),
)
def test_every_position_is_named_once(drawn: list[tuple[int, int, bool]], random: object) -> None:
    parts: list[tuple[int, int, bool]] = []
    first = NEAR
    for gap, count, alone in drawn:
        parts.append((first + gap, count, alone))
        first += gap + count
    random.shuffle(parts)  # type: ignore[attr-defined]
    ranges = DequeuedRanges(parts[0][0] if parts else NEAR)
    for begin, count, alone in parts:
        if alone:
            ranges.add_positions(list(range(begin, begin + count)), 10 * count)
        else:
            ranges.add(begin, count, 10 * count)
    wanted = spread([(begin, count) for begin, count, _ in sorted(parts)])
    assert sorted(spread(decoded(ranges))) == wanted
    assert ranges.body_bytes == 10 * len(wanted)


def test_positions_of_several_priorities_become_one_range() -> None:
    """A queue with ten priorities that were published in turn gives out the highest first."""
    ranges = DequeuedRanges(NEAR + 9)
    for priority in range(9, -1, -1):
        for position in range(priority, 500, 10):
            ranges.add(NEAR + position, 1, 100)
    assert decoded(ranges) == [(NEAR, 500)]


def test_a_long_range_stays_as_it_is() -> None:
    ranges = DequeuedRanges(NEAR)
    ranges.add(NEAR + 1000, 300, 0)
    ranges.add(NEAR, 2, 0)
    assert decoded(ranges) == [(NEAR + 1000, 300), (NEAR, 2)]
