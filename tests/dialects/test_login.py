"""A login without a protocol: a listener that only notes how it ended."""

from __future__ import annotations

import pytest

from penstock.broker.access.login_delay import FIRST_DELAY_MS
from penstock.broker.access.users import Verification
from penstock.broker.errors import AccessRefused, NotFound, Refusal, ResourceError
from penstock.broker.events import EventKind
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.topology import AddVhost, DeclareQueue, SetVhostLimits
from penstock.dialects.container import Container
from penstock.dialects.input_pause import InputPause
from penstock.dialects.login import Login, LoginListener
from penstock.dialects.login_checker import LoginChecker, LoginWaiter
from penstock.dialects.mechanisms import Plain
from penstock.dialects.noting import Noting
from penstock.dialects.peer import Peer
from penstock.wire.outgoing import Outgoing
from penstock.wire.sasl import plain_response
from tests.broker.doubles import CountingEntropy
from tests.dialects.amqp10.doubles import KeptTransport
from tests.support.recorded_events import RecordedEvents

NOW = 1_000


class NotedEnd(LoginListener):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def login_accepted(self, now: int) -> None:
        self.heard.append("accepted")

    def login_refused(self, now: int) -> None:
        self.heard.append("refused")

    def login_postponed(self, now: int) -> None:
        self.heard.append("postponed")


class LaterChecks(LoginChecker):
    """Checks when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Verification, LoginWaiter]] = []

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        self.waiting.append((verification, waiter))

    def answer(self, good: bool) -> None:
        for verification, waiter in self.waiting:
            verification.good = good
            waiter.login_checked(verification, NOW)
        self.waiting.clear()


class Door:
    """One login and everything around it."""

    def __init__(self, is_loopback: bool = True) -> None:
        entropy = CountingEntropy()
        self.state = BrokerState(entropy)
        put_defaults(self.state, NOW)
        self.checks = LaterChecks()
        self.container = Container(self.state, entropy, self.checks)
        self.events = RecordedEvents()
        self.container.events = self.events
        self.transport = KeptTransport()
        outgoing = Outgoing(self.container.flush_list, self.transport)
        self.peer = Peer(7, "192.0.2.1", 4000, is_loopback, outgoing)
        self.end = NotedEnd()
        noting = Noting(self.events, "AMQP", self.peer)
        input_pause = InputPause(self.transport)
        self.login = Login(self.container, self.peer, noting, input_pause, self.end)

    def knock(self) -> None:
        self.login.begin(Plain(), plain_response("guest", "guest"), NOW)


def test_a_peer_is_not_read_while_its_password_is_checked() -> None:
    door = Door()
    door.knock()
    assert (door.end.heard, door.transport.is_reading) == ([], False)
    door.checks.answer(good=True)
    assert (door.end.heard, door.transport.is_reading) == (["accepted"], True)
    assert door.login.user == "guest"


def test_a_password_that_was_good_before_is_not_checked_again() -> None:
    door = Door()
    door.knock()
    door.checks.answer(good=True)
    door.knock()
    assert (door.checks.waiting, door.end.heard) == ([], ["accepted", "accepted"])


@pytest.mark.parametrize(("good", "is_loopback"), [(False, True), (True, False)])
def test_a_refusal_waits_and_the_peer_is_not_read_meanwhile(good: bool, is_loopback: bool) -> None:
    door = Door(is_loopback)
    door.knock()
    door.checks.answer(good)
    door.state.timers.fire_due(NOW + FIRST_DELAY_MS - 1)
    assert (door.end.heard, door.transport.is_reading) == ([], False)
    door.state.timers.fire_due(NOW + FIRST_DELAY_MS)
    assert (door.end.heard, door.transport.is_reading) == (["refused"], True)
    assert door.login.user == ""


def test_a_login_that_was_not_looked_at_is_postponed() -> None:
    door = Door()
    door.knock()
    door.login.login_not_checked(NOW)
    assert (door.end.heard, door.transport.is_reading) == (["postponed"], True)
    assert door.events.of(EventKind.LOGIN_REFUSED).facts["user"] == "guest"


def test_whoever_has_gone_hears_no_answer() -> None:
    door = Door()
    door.knock()
    assert not door.login.is_gone()
    door.login.end(NOW)
    assert door.login.is_gone()
    door.checks.answer(good=True)
    door.login.login_not_checked(NOW)
    door.login.refuse(NOW)
    assert door.end.heard == []


def test_a_connection_counts_for_its_virtual_host_until_it_ends() -> None:
    door = Door()
    door.knock()
    door.checks.answer(good=True)
    assert door.login.open_vhost("/", "client").vhost.name == "/"
    assert door.container.connection_counts == {"/": 1}
    door.state.vhost("/").apply(DeclareQueue("own", False, True, connection=7), NOW)
    door.login.end(NOW)
    assert door.container.connection_counts == {"/": 0}
    assert "own" not in door.state.vhost("/").queues


@pytest.mark.parametrize(
    ("name", "refusal"),
    [("nowhere", NotFound), ("closed", AccessRefused), ("/", ResourceError)],
)
def test_a_virtual_host_that_is_refused_is_told_and_does_not_count(
    name: str, refusal: type[Refusal]
) -> None:
    door = Door()
    door.state.apply(AddVhost("closed"), NOW)
    door.state.vhost("/").apply(SetVhostLimits(-1, 0), NOW)
    door.knock()
    door.checks.answer(good=True)
    with pytest.raises(refusal):
        door.login.open_vhost(name, "client")
    assert door.events.of(EventKind.ACCESS_DENIED).facts == {"vhost": name}
    assert door.container.connection_counts == {}
