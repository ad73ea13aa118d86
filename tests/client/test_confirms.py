"""Confirms: what each answer of the broker settles, and what a loss leaves open."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.confirms import OutstandingPublishes, Settled


def outstanding(*counts: int) -> OutstandingPublishes[str]:
    publishes: OutstandingPublishes[str] = OutstandingPublishes()
    for index, count in enumerate(counts):
        publishes.published(chr(ord("a") + index), count)
    return publishes


def shares(settled: list[Settled[str]]) -> list[tuple[str, list[int]]]:
    return [(part.note, list(part.tags)) for part in settled]


def flat(settled: list[Settled[int]]) -> list[tuple[int, int]]:
    return [(part.note, tag) for part in settled for tag in part.tags]


def test_tags_count_from_one_without_gaps() -> None:
    publishes: OutstandingPublishes[None] = OutstandingPublishes()
    assert [publishes.published(None), publishes.published(None, 3)] == [1, 2]
    assert publishes.next_tag == 5
    assert len(publishes) == 4


def test_a_single_answer_gives_back_its_note() -> None:
    publishes = outstanding(1, 1, 1)
    assert publishes.settle(2, multiple=False) == [Settled("b", (2,))]
    assert shares(publishes.in_doubt()) == [("a", [1]), ("c", [3])]


def test_a_multiple_answer_settles_everything_up_to_its_tag() -> None:
    publishes = outstanding(1, 1, 1)
    assert shares(publishes.settle(2, multiple=True)) == [("a", [1]), ("b", [2])]
    assert len(publishes) == 1


def test_tag_zero_and_multiple_settle_all() -> None:
    publishes = outstanding(2, 3)
    assert shares(publishes.settle(0, multiple=True)) == [("a", [1, 2]), ("b", [3, 4, 5])]
    assert len(publishes) == 0


def test_a_batch_is_settled_in_parts() -> None:
    publishes = outstanding(10)
    assert shares(publishes.settle(4, multiple=True)) == [("a", [1, 2, 3, 4])]
    assert shares(publishes.settle(6, multiple=False)) == [("a", [6])]
    assert shares(publishes.in_doubt()) == [("a", [5, 7, 8, 9, 10])]
    assert shares(publishes.settle(8, multiple=True)) == [("a", [5, 7, 8])]
    assert shares(publishes.settle(10, multiple=True)) == [("a", [9, 10])]


def test_the_same_answer_twice_settles_nothing_more() -> None:
    publishes = outstanding(3, 1)
    publishes.settle(2, multiple=False)
    assert publishes.settle(2, multiple=False) == []
    publishes.settle(3, multiple=True)
    assert publishes.settle(3, multiple=True) == []
    assert publishes.settle(1, multiple=False) == []


def test_answers_for_what_was_never_published_settle_nothing() -> None:
    publishes = outstanding(1)
    assert publishes.settle(2, multiple=False) == []
    assert OutstandingPublishes[str]().settle(1, multiple=False) == []
    assert shares(publishes.settle(9, multiple=True)) == [("a", [1])]


answers = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), answers)
def test_any_answers_agree_with_a_plain_set_of_tags(
    counts: list[int], given_answers: list[tuple[int, bool]]
) -> None:
    publishes: OutstandingPublishes[int] = OutstandingPublishes()
    owner: dict[int, int] = {}
    for note, count in enumerate(counts):
        first = publishes.published(note, count)
        owner.update(dict.fromkeys(range(first, first + count), note))
    for tag, multiple in given_answers:
        if multiple:
            gone = [open_tag for open_tag in owner if tag == 0 or open_tag <= tag]
        else:
            gone = [tag] if tag in owner else []
        expected = [(owner.pop(open_tag), open_tag) for open_tag in gone]
        assert flat(publishes.settle(tag, multiple)) == expected
        assert len(publishes) == len(owner)
        assert flat(publishes.in_doubt()) == [(note, open_tag) for open_tag, note in owner.items()]
