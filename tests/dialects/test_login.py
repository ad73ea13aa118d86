"""A login without a protocol: a listener that only notes how it ended."""

from __future__ import annotations

import pytest

from penstock.broker.access.login_delay import DELAY_MS_MAX, FIRST_DELAY_MS
from penstock.broker.access.users import DEFAULT_USER_HASH, Verification, scram_keys_of
from penstock.broker.errors import AccessRefused, NotFound, Refusal, ResourceError
from penstock.broker.events import EventKind
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.topology import AddVhost, DeclareQueue, PutUser, SetVhostLimits
from penstock.dialects.container import Container
from penstock.dialects.encryption import Encryption
from penstock.dialects.input_pause import InputPause
from penstock.dialects.login import TOO_MANY_LOGINS, Login
from penstock.dialects.login_checker import LoginChecker, LoginWaiter
from penstock.dialects.login_counts import LoginCounts
from penstock.dialects.login_listener import LoginListener
from penstock.dialects.mechanisms import Plain, ScramSha256
from penstock.dialects.noting import Noting
from penstock.dialects.peer import Peer
from penstock.wire.outgoing import Outgoing
from penstock.wire.sasl import plain_response
from penstock.wire.scram import ScramClient
from tests.broker.doubles import CountingEntropy
from tests.dialects.amqp10.doubles import KeptTransport
from tests.support.recorded_events import RecordedEvents

NOW = 1_000


class NotedEnd(LoginListener):
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.challenge = b""

    def login_withheld(self, is_withheld: bool) -> None:
        self.heard.append("withheld" if is_withheld else "goes on")

    def login_challenged(self, challenge: bytes, now: int) -> None:
        self.heard.append("challenged")
        self.challenge = challenge

    def login_accepted(self, now: int) -> None:
        self.heard.append("accepted")

    def login_refused(self, now: int) -> None:
        self.heard.append("refused")

    def login_postponed(self, now: int) -> None:
        self.heard.append("postponed")

    def login_expired(self, now: int) -> None:
        self.heard.append("expired")


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

    def __init__(self, is_loopback: bool = True, state: BrokerState | None = None) -> None:
        entropy = CountingEntropy()
        if state is None:
            state = BrokerState(entropy)
            put_defaults(state, NOW)
        self.state = state
        self.checks = LaterChecks()
        self.container = Container(self.state, entropy, self.checks)
        self.events = RecordedEvents()
        self.container.events = self.events
        self.transport = KeptTransport()
        outgoing = Outgoing(self.container.flush_list, self.transport)
        self.peer = Peer(7, "192.0.2.1", 4000, is_loopback, outgoing)
        self.end = NotedEnd()
        self.counts = LoginCounts()
        noting = Noting(self.events, "AMQP", self.peer)
        input_pause = InputPause(self.transport)
        self.login = Login(self.container, self.peer, noting, input_pause, self.end, self.counts)

    def again(self) -> Door:
        """Another connection from the same host."""
        return Door(self.peer.is_loopback, self.state)

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


@pytest.mark.parametrize("good", [True, False])
def test_a_login_is_counted_when_its_password_was_checked(good: bool) -> None:
    door = Door()
    door.knock()
    assert (door.counts.failed, door.counts.succeeded) == (0, 0)
    door.checks.answer(good)
    assert (door.counts.failed, door.counts.succeeded) == (int(not good), int(good))


def test_a_login_that_was_not_looked_at_is_postponed() -> None:
    door = Door()
    door.knock()
    door.login.login_not_checked(NOW)
    assert (door.counts.failed, door.counts.succeeded) == (0, 0)
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


# SCRAM, whose proof the login judges without a checker.


class Prover:
    """A client that logs in with SCRAM-SHA-256. Held by a test."""

    def __init__(self, door: Door, user: str = "guest", password: str = "guest") -> None:
        self.door = door
        self.client = ScramClient(user, password, "client-nonce")
        mechanism = door.login.mechanism("SCRAM-SHA-256")
        assert mechanism is not None
        door.login.begin(mechanism, self.client.start(), NOW)
        self.final = self.client.answer(door.end.challenge)

    def prove(self, now: int = NOW) -> None:
        self.door.login.respond(self.final, now)


def test_a_scram_client_is_let_in_and_hears_that_the_broker_knows_its_password() -> None:
    door = Door()
    prover = Prover(door)
    assert door.end.heard == ["challenged"]
    prover.prove()
    assert door.end.heard == ["challenged", "accepted"]
    assert door.login.user == "guest"
    assert prover.client.verify(door.login.server_final)
    assert door.checks.waiting == []


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [
        ("guest", "wrong", "wrong password"),
        ("nobody", "guest", "the user is unknown, or has no SCRAM keys"),
        ("keyless", "guest", "the user is unknown, or has no SCRAM keys"),
    ],
)
def test_a_wrong_scram_proof_is_refused_after_the_delay(
    user: str, password: str, reason: str
) -> None:
    door = Door()
    door.state.apply(PutUser("keyless", DEFAULT_USER_HASH), NOW)
    prover = Prover(door, user, password)
    prover.prove()
    assert door.end.heard == ["challenged"]
    door.state.timers.fire_due(NOW + FIRST_DELAY_MS)
    assert door.end.heard == ["challenged", "refused"]
    assert door.login.server_final == b""
    assert door.events.of(EventKind.LOGIN_REFUSED).reason == reason


def test_a_challenge_does_not_tell_whether_a_user_exists() -> None:
    door = Door()
    challenges = []
    for _ in range(2):
        Prover(door, "nobody")
        challenges.append(door.end.challenge.partition(b",s=")[2])
    assert challenges[0] == challenges[1]
    Prover(door)
    known = door.end.challenge.partition(b",s=")[2]
    assert len(known) == len(challenges[0])
    assert known.rpartition(b",")[2] == challenges[0].rpartition(b",")[2]


def test_a_replayed_scram_proof_is_worth_nothing() -> None:
    first = Prover(Door())
    first.prove()
    door = Door()
    mechanism = ScramSha256(door.state.users, "another nonce")
    door.login.begin(mechanism, first.client.start(), NOW)
    door.login.respond(first.final, NOW)
    door.state.timers.fire_due(NOW + FIRST_DELAY_MS)
    assert door.end.heard == ["challenged", "refused"]


def test_a_password_that_is_changed_between_challenge_and_proof_opens_nothing() -> None:
    door = Door()
    prover = Prover(door)
    keys = scram_keys_of(b"new", CountingEntropy())
    door.state.apply(PutUser("guest", DEFAULT_USER_HASH, (), True, keys), NOW)
    prover.prove()
    assert door.end.heard == ["challenged"]
    assert door.login.user == ""


def test_while_a_failure_is_paid_for_one_proof_is_looked_at_and_the_others_wait() -> None:
    door = Door()
    Prover(door, password="wrong").prove()
    due = door.state.login_delays.check_at("guest", door.peer.host)
    assert due > NOW
    # One look is free, as with passwords that are remembered.
    second = door.again()
    Prover(second, password="wrong").prove()
    third = door.again()
    Prover(third).prove()
    assert third.end.heard == ["challenged"], "though its proof is good"
    door.state.timers.fire_due(due)
    assert second.end.heard == ["challenged"]
    assert third.end.heard == ["challenged"], "the second one has failed meanwhile"
    door.state.timers.fire_due(door.state.login_delays.check_at("guest", door.peer.host))
    assert third.end.heard == ["challenged", "accepted"]


def test_a_proof_that_is_not_looked_at_in_time_is_postponed_good_or_not() -> None:
    door = Door()
    delays = door.state.login_delays
    waiting = []
    for password in ("wrong", "wrong", "guest"):
        waiting.append(door.again())
        Prover(waiting[-1], password=password).prove()
    # Somebody else goes on guessing, so that it is never their turn.
    for moment in range(NOW, NOW + DELAY_MS_MAX, 50):
        delays.failed("guest", door.peer.host, moment)
        delays.mismatched("guest", door.peer.host, moment)
        door.state.timers.fire_due(moment)
    assert waiting[2].end.heard == ["challenged"]
    door.state.timers.fire_due(NOW + DELAY_MS_MAX)
    assert waiting[1].end.heard == waiting[2].end.heard == ["challenged", "postponed"]
    assert waiting[2].events.of(EventKind.LOGIN_REFUSED).reason == TOO_MANY_LOGINS


def test_a_good_proof_is_not_held_up_by_another_clients_failure() -> None:
    door = Door()
    Prover(door, password="wrong").prove()
    other = door.again()
    Prover(other).prove()
    assert other.end.heard == ["challenged", "accepted"]


def test_the_default_user_logs_in_by_scram_from_this_machine_only() -> None:
    door = Door(is_loopback=False)
    Prover(door).prove()
    door.state.timers.fire_due(NOW + FIRST_DELAY_MS)
    assert door.end.heard == ["challenged", "refused"]


# What a listener offers.


def certified(name: str) -> Encryption:
    return Encryption("TLSv1.3", "TLS_AES_256_GCM_SHA384", name)


def test_external_is_offered_to_who_shows_a_certificate_and_logs_in_whom_it_names() -> None:
    door = Door()
    assert "EXTERNAL" not in door.login.offered()
    assert door.login.mechanism("EXTERNAL") is None
    door.peer.encryption = certified("guest")
    mechanism = door.login.mechanism("EXTERNAL")
    assert mechanism is not None
    door.login.begin(mechanism, b"", NOW)
    assert door.end.heard == ["accepted"]
    assert door.login.user == "guest"


def test_a_certificate_that_names_nobody_is_refused() -> None:
    door = Door()
    door.peer.encryption = certified("nobody")
    mechanism = door.login.mechanism("EXTERNAL")
    assert mechanism is not None
    door.login.begin(mechanism, b"", NOW)
    door.state.timers.fire_due(NOW + FIRST_DELAY_MS)
    assert door.end.heard == ["refused"]
    assert door.events.of(EventKind.LOGIN_REFUSED).reason == "unknown user"


def test_a_listener_offers_what_it_is_told_in_its_order() -> None:
    door = Door()
    door.peer.mechanisms = ("SCRAM-SHA-256", "PLAIN")
    assert door.login.offered() == ["SCRAM-SHA-256", "PLAIN"]
    assert door.login.mechanism("AMQPLAIN") is None
    assert not door.login.allows_anonymous()
