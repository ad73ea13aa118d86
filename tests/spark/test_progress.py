"""Ends of streams as servers of a cluster show them: one may lag behind another."""

from __future__ import annotations

from penstock.spark.broker_streams import Stream
from penstock.spark.progress import Position, is_behind


def streams(end: int, identity: str = "one") -> dict[str, Stream]:
    return {"s": Stream("s", "s", 0, identity, 0, end)}


def test_a_stream_is_behind_while_it_ends_before_what_is_known() -> None:
    known = {"s": Position("one", 0, 7)}
    assert is_behind(streams(6), known)
    assert not is_behind(streams(7), known)
    assert not is_behind(streams(8), known)


def test_another_stream_of_the_same_name_is_not_behind() -> None:
    known = {"s": Position("one", 0, 7), "gone": Position("two", 0, 7)}
    assert not is_behind(streams(1, "another"), known)
    assert not is_behind({}, known)
