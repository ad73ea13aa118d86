"""What a new root may have changed in its first tick, and nothing else."""

import pytest

from penstock.broker.topology import ChangeStream
from penstock.simulation.definition_history import after_retention


def stream(first_offset: int, *epochs: tuple[int, int], cursor: int = 4) -> ChangeStream:
    """Epochs with the first offset of each."""
    firsts = tuple([first for _, first in epochs])
    numbers = tuple([epoch for epoch, _ in epochs])
    return ChangeStream("log", {"c": cursor}, {}, {}, first_offset, numbers, firsts)


KNOWN = stream(5, (1, 0), (3, 20), (4, 30))


@pytest.mark.parametrize(
    "found",
    [
        KNOWN,
        stream(6, (1, 0), (3, 20), (4, 30)),
        stream(20, (3, 20), (4, 30)),
        stream(29, (3, 20), (4, 30)),
        stream(5, (1, 0), (3, 20), (4, 30), (7, 33)),
        stream(40, (7, 40)),
    ],
)
def test_retention_and_appends_of_a_later_epoch_are_allowed(found: ChangeStream) -> None:
    assert after_retention(KNOWN, found) == found


@pytest.mark.parametrize(
    "found",
    [
        stream(4, (1, 0), (3, 20), (4, 30)),
        stream(5, (3, 20), (4, 30)),
        stream(5, (1, 0), (4, 30)),
        stream(5, (1, 0), (3, 21), (4, 30)),
        stream(5, (1, 0), (2, 9), (3, 20), (4, 30)),
        stream(20, (4, 30)),
        stream(5, (1, 0), (3, 20), (4, 30), cursor=5),
    ],
)
def test_anything_else_is_a_difference(found: ChangeStream) -> None:
    assert after_retention(KNOWN, found) != found


def test_a_stream_without_messages_may_get_some() -> None:
    found = stream(0, (2, 0))
    assert after_retention(stream(0), found) == found
