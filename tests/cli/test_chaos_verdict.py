"""The verdict of `penstock chaos`: each broken promise is found."""

import pytest

from penstock.cli.chaos_steps.ledger import ChaosLedger
from penstock.cli.chaos_steps.verdict import checks_of


class Told:
    """A run in which everything went well, until a test changes something."""

    def __init__(self) -> None:
        self.ledger = ChaosLedger()
        self.ledger.confirm([b"1", b"2"])
        self.ledger.doubt([b"3"])
        for body in (b"1", b"2", b"3"):
            self.ledger.deliver(body, is_redelivered=False)
        self.ledger.complete([b"1", b"2", b"3"])
        self.kept = ChaosLedger()
        self.kept.confirm([b"1"])
        self.copies = {"a": [b"1"], "b": [b"1"], "c": [b"1"]}
        self.stalls: list[str] = []
        self.left_over = 0

    def faults(self) -> dict[str, str]:
        found = checks_of(self.ledger, self.kept, self.copies, self.stalls, self.left_over)
        return {check.what: check.fault for check in found if check.fault}


def test_a_run_without_fault() -> None:
    told = Told()
    # One whose acknowledgement was not completed may come again, flagged.
    told.ledger.confirm([b"4"])
    told.ledger.deliver(b"4", is_redelivered=False)
    told.ledger.deliver(b"4", is_redelivered=True)
    assert told.faults() == {}
    assert told.ledger.redelivered_count == 1


def test_a_confirmed_message_that_never_came_is_lost() -> None:
    told = Told()
    told.ledger.confirm([b"5"])
    assert told.faults() == {
        "nothing confirmed is lost": "1 confirmed messages are lost, b'5' among them"
    }


def test_one_that_is_not_in_the_queue_that_nobody_reads_is_lost_too() -> None:
    told = Told()
    told.kept.confirm([b"2"])
    assert list(told.faults()) == ["nothing confirmed is lost"]


def test_a_completed_message_that_comes_back() -> None:
    told = Told()
    told.ledger.deliver(b"1", is_redelivered=True)
    assert list(told.faults()) == ["nothing completed comes back"]


def test_a_message_that_comes_twice_without_the_flag() -> None:
    told = Told()
    told.ledger.confirm([b"4"])
    told.ledger.deliver(b"4", is_redelivered=False)
    told.ledger.deliver(b"4", is_redelivered=False)
    assert list(told.faults()) == ["nothing arrives twice unflagged"]


def test_a_message_that_is_stored_twice() -> None:
    told = Told()
    told.copies = {name: [b"1", b"1"] for name in "abc"}
    assert list(told.faults()) == ["nothing arrives twice unflagged"]


def test_a_message_that_nobody_published() -> None:
    told = Told()
    told.ledger.deliver(b"6", is_redelivered=False)
    assert list(told.faults()) == ["nothing arrives that was not published"]


@pytest.mark.parametrize("what", ["no stall", "queues drain", "replicas are equal"])
def test_what_is_seen_from_outside(what: str) -> None:
    told = Told()
    if what == "no stall":
        told.stalls.append("no confirm for 60 s though all servers run")
    elif what == "queues drain":
        told.left_over = 3
    else:
        told.copies["b"] = [b"1", b"x"]
        told.kept.doubt([b"x"])
    assert list(told.faults()) == [what]
