"""What peers present: every part is checked, and parts that are missing or odd are refused."""

import pytest

from penstock.cluster.peer_identity import CLOCKS_APART_MS_MAX, PeerIdentity, Presented, why_refused

OWN = PeerIdentity("a", "a:1", b"a" * 16, "c", "d")
OTHER = PeerIdentity("b", "b:1", b"b" * 16, "c", "d")
MEMBERS = {"a": "a:1", "b": "b:1"}
WALL = 1_700_000_000_000


def judged(expected: str = "", /, **changes: object) -> str:
    table = {**OTHER.table("a", WALL), **changes}
    return why_refused(OWN, Presented(table), MEMBERS, expected, WALL)


def test_a_fitting_peer_is_let_in() -> None:
    assert judged() == ""
    assert judged("b", wanted="") == ""


@pytest.mark.parametrize(
    "part", ["name", "wanted", "store", "protocol", "cluster", "digest", "wall"]
)
@pytest.mark.parametrize("odd", [None, 5.5, [], {}, b"", "", -1, b"b" * 15, b"b" * 300])
def test_a_part_that_is_missing_or_odd_is_refused(part: str, odd: object) -> None:
    assert judged(**{part: odd})


def test_an_empty_table_is_refused() -> None:
    assert why_refused(OWN, Presented({}), MEMBERS, "", WALL)


@pytest.mark.parametrize("apart", [-CLOCKS_APART_MS_MAX, CLOCKS_APART_MS_MAX])
def test_clocks_may_be_apart_by_the_limit_and_no_more(apart: int) -> None:
    assert judged(wall=WALL + apart) == ""
    assert "ms apart" in judged(wall=WALL + apart + (1 if apart > 0 else -1))


def test_another_name_than_the_one_that_was_dialled_is_refused() -> None:
    assert "'b' answers at the address of member 'c'" in judged("c")
