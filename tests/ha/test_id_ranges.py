"""Ranges of ids against a model that is a set, and their octets against bad input."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha.id_ranges import (
    IdRanges,
    IdSets,
    add_ids,
    count_of_ids,
    minus_sets,
    ranges_of,
    remove_ids,
    union_sets,
)
from penstock.ha.queue_snapshot import (
    ID_MAX,
    QUEUE_RANGES,
    RANGE_COUNT_MAX,
    SnapshotsReader,
    encode_in_parts,
)
from tests.ha.doubles import decode_id_sets, encode_id_sets

STEPS = st.lists(
    st.tuples(st.booleans(), st.integers(1, 60), st.integers(1, 12)), min_size=1, max_size=40
)
TABLES = st.dictionaries(st.integers(1, 9), st.sets(st.integers(1, 50), min_size=1), max_size=5)


def made_of(ids: set[int]) -> IdRanges:
    return ranges_of([(position, 1) for position in sorted(ids)])


def ids_in(ranges: IdRanges) -> set[int]:
    return {n for first, count in ranges.ranges() for n in range(first, first + count)}


def sets_of(table: dict[int, set[int]]) -> IdSets:
    return {number: made_of(ids) for number, ids in table.items()}


@given(STEPS)
def test_adding_and_removing_is_what_a_set_does(steps: list[tuple[bool, int, int]]) -> None:
    ranges = IdRanges()
    model: set[int] = set()
    for is_added, first, count in steps:
        if is_added:
            ranges.add_range(first, count)
            model.update(range(first, first + count))
        else:
            ranges.remove_range(first, count)
            model.difference_update(range(first, first + count))
        assert ids_in(ranges) == model
        assert ranges.count() == len(model)
        assert ranges.is_empty() == (not model)
        assert ranges.first() == min(model, default=0)
    # Disjoint, not adjacent, ascending: the same set has one form.
    assert ranges == made_of(model)
    assert [n for n in range(75) if ranges.contains(n)] == sorted(model)


@given(st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60)))
def test_minus_and_union_are_those_of_sets(left: set[int], right: set[int]) -> None:
    assert made_of(left).minus(made_of(right)) == made_of(left - right)
    assert made_of(left).union(made_of(right)) == made_of(left | right)


@given(st.sets(st.integers(1, 60)), st.integers(0, 70))
def test_removing_below_keeps_the_rest(ids: set[int], end: int) -> None:
    ranges = made_of(ids)
    ranges.remove_below(end)
    assert ids_in(ranges) == {n for n in ids if n >= end}


@given(TABLES, TABLES)
def test_sets_of_queues_are_compared_queue_by_queue(
    left: dict[int, set[int]], right: dict[int, set[int]]
) -> None:
    difference = minus_sets(sets_of(left), sets_of(right))
    expected = {n: ids - right.get(n, set()) for n, ids in left.items()}
    assert difference == sets_of({n: ids for n, ids in expected.items() if ids})
    both = {n: left.get(n, set()) | right.get(n, set()) for n in {*left, *right}}
    assert union_sets(sets_of(left), sets_of(right)) == sets_of(both)
    assert count_of_ids(sets_of(left)) == sum(map(len, left.values()))


def test_a_queue_without_ids_leaves_the_sets() -> None:
    sets: IdSets = {}
    add_ids(sets, 3, 10, 2)
    remove_ids(sets, 3, 10, 1)
    assert sets == sets_of({3: {11}})
    remove_ids(sets, 3, 5, 20)
    remove_ids(sets, 4, 5, 20)
    assert sets == {}


@given(TABLES, st.integers(0, 7))
def test_sets_survive_the_wire_in_parts_of_any_size(
    table: dict[int, set[int]], ranges_max: int
) -> None:
    sets = sets_of(table)
    reader = SnapshotsReader(10_000)
    parts = encode_in_parts(sets, ranges_max)
    for part in parts:
        assert reader.read(part, 0) == len(part)
        if ranges_max:
            assert len(part) <= 4 + 24 * ranges_max
    assert reader.sets == sets
    assert decode_id_sets(b"xx" + encode_id_sets(sets), 2, 10_000) == sets


def test_a_range_with_more_ids_than_its_count_can_say_is_sent_as_several() -> None:
    ranges = IdRanges()
    ranges.add_range(5, 2 * RANGE_COUNT_MAX + 7)
    assert decode_id_sets(encode_id_sets({1: ranges}), 0, QUEUE_RANGES + 3) == {1: ranges}


def queue(number: int, *ranges: tuple[int, int]) -> bytes:
    return pack(">QI", number, len(ranges)) + b"".join(pack(">QI", *one) for one in ranges)


BAD = [
    (b"\0\0", "cut short"),
    (pack(">I", 1), "cut short"),
    (pack(">I", 1) + queue(1, (1, 1))[:-1], "cut short"),
    (pack(">I", 0xFFFF_FFFF), "cut short"),
    (pack(">I", 1) + pack(">QI", 1, 0xFFFF_FFFF), "cut short"),
    (pack(">I", 1) + queue(1, (5, 2), (4, 1)), "not in order"),
    (pack(">I", 1) + queue(1, (5, 2), (6, 1)), "not in order"),
    (pack(">I", 2) + queue(2, (5, 2)) + queue(1, (6, 1)), "stands behind"),
    (pack(">I", 2) + queue(2, (5, 2)) + queue(2, (5, 1)), "not in order"),
    (pack(">I", 1) + queue(0, (5, 2)), "not a valid queue number"),
    (pack(">I", 1) + queue(ID_MAX + 1, (5, 2)), "not a valid queue number"),
    (pack(">I", 1) + queue(1, (0, 2)), "not a valid range"),
    (pack(">I", 1) + queue(1, (1, 0)), "not a valid range"),
    (pack(">I", 1) + queue(1, (ID_MAX, 2)), "not a valid range"),
    (pack(">I", 1) + queue(1), "no ranges"),
    (
        pack(">I", 1) + queue(1, (1, 1), (3, 1), (5, 1), (7, 1), (9, 1)),
        f"more than {QUEUE_RANGES + 4} ranges",
    ),
    (pack(">I", 1) + queue(1, (1, 1)) + b"x", "follow"),
]


@pytest.mark.parametrize(("octets", "reason"), BAD)
def test_a_bad_set_is_refused_with_its_reason(octets: bytes, reason: str) -> None:
    with pytest.raises(BadPeerMessage, match=reason):
        decode_id_sets(octets, 0, QUEUE_RANGES + 4)


def test_order_and_limit_hold_across_parts() -> None:
    reader = SnapshotsReader(QUEUE_RANGES + 3)
    reader.read(pack(">I", 1) + queue(2, (5, 2), (9, 1)), 0)
    with pytest.raises(BadPeerMessage, match="not in order"):
        reader.read(pack(">I", 1) + queue(2, (9, 1)), 0)
    reader = SnapshotsReader(QUEUE_RANGES + 3)
    reader.read(pack(">I", 1) + queue(2, (5, 2), (9, 1)), 0)
    with pytest.raises(BadPeerMessage, match=f"more than {QUEUE_RANGES + 3}"):
        reader.read(pack(">I", 1) + queue(2, (19, 1), (29, 1)), 0)


@given(st.binary(max_size=80))
def test_any_octets_are_read_or_refused(octets: bytes) -> None:
    try:
        sets = decode_id_sets(octets, 0, 3 * QUEUE_RANGES)
    except BadPeerMessage:
        return
    assert all(not ids.is_empty() for ids in sets.values())


def test_each_queue_counts_for_what_it_takes() -> None:
    many = pack(">I", 2) + queue(2, (5, 2)) + queue(3, (5, 2))
    assert len(decode_id_sets(many, 0, 2 * QUEUE_RANGES + 2)) == 2
    with pytest.raises(BadPeerMessage, match="each queue counts as"):
        decode_id_sets(many, 0, 2 * QUEUE_RANGES + 1)


def test_ranges_show_themselves_and_have_no_hash() -> None:
    ranges = ranges_of([(1, 2)])
    assert repr(ranges) == "IdRanges([(1, 2)])"
    assert ranges != "something else"
    with pytest.raises(TypeError):
        hash(ranges)
