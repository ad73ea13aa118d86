"""What the tests of sessions and windows say to a server without a socket, and hear from it."""

from __future__ import annotations

from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import (
    Close,
    End,
    Flow,
    Transfer,
)
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite
from tests.wire.amqp10.doubles import (
    Machine,
    receiver_machine,
)

BODY = b"x" * 40


def transfer(number: int, handle: int = 0, *, settled: bool = False) -> Transfer:
    return Transfer(handle, number, b"%d" % number, 0, settled)


def flow_of(seen: int, window: int) -> Flow:
    """A flow of a peer that has seen so many transfers and has room for so many."""
    return Flow(seen, window, 0, 1000)


def credit(count: int, window: int = 1000) -> Flow:
    return Flow(0, window, 0, 1000, 0, 0, count)


def transfers(machine: Machine) -> int:
    return sum(isinstance(said, Transfer) for _, said in machine.said())


def flows(machine: Machine) -> list[Flow]:
    return [said for _, said in machine.said() if isinstance(said, Flow)]


def condition_of(said: Composite) -> str:
    assert isinstance(said, (End, Close))
    assert said.error is not None
    return said.error.condition


def keeping_receiver(window: int) -> tuple[Machine, Session, ReceivingLink]:
    """A server whose owner keeps what it receives until the test says that it is taken."""
    machine, session, link = receiver_machine(Limits(incoming_window=window))
    machine.listener.receiver.takes = False
    return machine, session, link
