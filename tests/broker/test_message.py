"""Delayed completion: a publisher hears of its message when the last hold is released."""

import pytest

from penstock.broker.message import Publisher
from tests.broker.queues.doubles import message


class Ear(Publisher):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def held(self, sequence: int) -> None:
        self.heard.append(f"held {sequence}")

    def completed(self, sequence: int) -> None:
        self.heard.append(f"completed {sequence}")

    def refused(self, sequence: int) -> None:
        self.heard.append(f"refused {sequence}")


def test_completion_waits_for_every_hold_and_comes_once() -> None:
    ear = Ear()
    held = message(b"")
    held.publisher = ear
    held.sequence = 5
    held.hold()
    held.hold()
    held.release()
    assert ear.heard == ["held 5"]
    held.release()
    assert ear.heard == ["held 5", "completed 5"]


def test_a_message_that_one_of_its_holders_gives_up_is_refused_before_it_is_complete() -> None:
    ear = Ear()
    held = message(b"")
    held.publisher = ear
    held.sequence = 5
    held.hold()
    held.hold()
    held.refuse()
    held.release()
    assert ear.heard == ["held 5", "refused 5"]
    held.release()
    assert ear.heard == ["held 5", "refused 5", "completed 5"]
    assert held.publisher is None


def test_only_a_holder_of_a_message_can_refuse_it() -> None:
    with pytest.raises(AssertionError, match="only a holder"):
        message(b"").refuse()


def test_a_completed_message_lets_go_of_its_publisher() -> None:
    held = message(b"")
    held.publisher = Ear()
    held.hold()
    held.release()
    assert held.publisher is None


def test_releasing_more_than_was_held_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="released more often"):
        message(b"").release()
