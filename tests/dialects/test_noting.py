"""What connections of both dialects tell an operator."""

import pytest

from penstock.broker.access.users import Verification
from penstock.broker.events import EventKind, Severity
from penstock.broker.topology import AddVhost, SetPermissions, SetVhostLimits
from penstock.dialects.login import TOO_MANY_LOGINS
from penstock.dialects.login_checker import LoginChecker, LoginWaiter
from penstock.dialects.noting import Noting
from penstock.dialects.peer import Peer
from penstock.wire.amqp091.methods_generated import QueueDeclare
from penstock.wire.outgoing import Outgoing
from tests.dialects.amqp10.doubles import House as House10
from tests.dialects.amqp10.doubles import KeptTransport
from tests.seeds.doubles import House as House091
from tests.support.recorded_events import RecordedEvents

CLOSED = EventKind.CONNECTION_CLOSED


def told(house: House091 | House10) -> RecordedEvents:
    events = RecordedEvents()
    house.node.container.events = events
    return events


def test_a_client_of_091_that_leaves_without_a_word() -> None:
    house = House091()
    events = told(house)
    peer = house.client("press")
    house.node.lost(peer.connection, 5)
    assert events.kinds == [EventKind.LOGIN_ACCEPTED, EventKind.CONNECTION_OPENED, CLOSED]
    opened = events.of(EventKind.CONNECTION_OPENED)
    assert (opened.party.user, opened.party.vhost) == ("guest", "/")
    assert opened.facts["protocol"] == "AMQP 0-9-1"
    closed = events.of(CLOSED)
    assert closed.severity is Severity.WARNING
    assert "the peer went away without connection.close" in closed.reason
    assert closed.party.user == "guest"


def test_a_port_that_is_only_probed_is_worth_no_line() -> None:
    house = House091()
    events = told(house)
    peer = house.connect()
    house.node.lost(peer.connection, 5)
    assert events.of(CLOSED).severity is Severity.DEBUG


def test_a_channel_that_fails_is_told_with_its_number() -> None:
    house = House091()
    events = told(house)
    peer = house.client()
    peer.conversation.call(1, QueueDeclare("nowhere", passive=True))
    house.settle()
    event = events.of(EventKind.CHANNEL_ERROR)
    assert event.facts == {"channel": 1}
    assert event.reason.startswith("404 NOT_FOUND")


def test_a_client_of_10_that_is_refused_and_one_that_leaves() -> None:
    house = House10()
    events = told(house)
    house.connect(password="wrong")
    refused = events.of(EventKind.LOGIN_REFUSED)
    assert refused.facts["user"] == "guest"
    assert refused.reason == "wrong password"
    peer = house.connect()
    house.node.lost(peer.connection, 5)
    assert events.of(EventKind.CONNECTION_OPENED).facts == {
        "protocol": "AMQP 1.0",
        "name": "client",
    }
    assert events.events[-1].severity is Severity.WARNING


class BusyLogins(LoginChecker):
    """Checks nothing: too many wait."""

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        waiter.login_not_checked(1)


def test_a_login_that_was_not_checked_is_told_with_its_user() -> None:
    house091 = House091()
    house091.node.container.login_checker = BusyLogins()
    of_091 = told(house091)
    house091.connect()
    house091.settle()
    house10 = House10()
    house10.node.container.login_checker = BusyLogins()
    of_10 = told(house10)
    house10.connect()
    for events in (of_091, of_10):
        refused = events.of(EventKind.LOGIN_REFUSED)
        assert (refused.facts["user"], refused.reason) == ("guest", TOO_MANY_LOGINS)


def test_a_mechanism_that_is_not_offered_is_told() -> None:
    house = House10()
    events = told(house)
    house.connect(mechanism="GSSAPI")
    assert "GSSAPI is not offered" in events.of(EventKind.LOGIN_REFUSED).reason


def test_a_virtual_host_that_may_not_be_opened_is_told() -> None:
    house = House10()
    house.node.apply(AddVhost("other"), 1)
    events = told(house)
    house.connect(hostname="vhost:other")
    assert events.of(EventKind.ACCESS_DENIED).facts == {"vhost": "other"}
    assert events.of(CLOSED).severity is Severity.WARNING


def test_a_virtual_host_that_is_missing_or_full_is_told_in_either_protocol() -> None:
    house091 = House091()
    house10 = House10()
    denied = []
    for house in (house091, house10):
        house.node.state.vhost("/").apply(SetVhostLimits(max_connections=0), 1)
        denied.append(told(house))
    house091.connect(vhost="nowhere")
    house091.connect()
    house091.settle()
    house10.connect(hostname="vhost:nowhere")
    house10.connect()
    for events in denied:
        found = [event for event in events.events if event.kind is EventKind.ACCESS_DENIED]
        assert [event.facts for event in found] == [{"vhost": "nowhere"}, {"vhost": "/"}]
        assert found[0].reason == "vhost nowhere not found"
        assert "connection limit (0) is reached" in found[1].reason


def test_links_that_are_refused_are_told_with_their_names() -> None:
    house = House10()
    house.declare("q")
    events = told(house)
    peer = house.connect()
    session = peer.begin()
    peer.receiver(session, "/queues/nowhere", "first")
    missing = events.of(EventKind.LINK_ERROR)
    assert missing.facts == {"link": "first"}
    house.node.apply(SetPermissions("guest", "/", "^$", "^$", "^$"), 1)
    peer.receiver(session, "/queues/q", "second")
    denied = events.of(EventKind.ACCESS_DENIED)
    assert denied.facts == {"link": "second"}
    assert denied.party.user == "guest"


@pytest.mark.parametrize(
    ("user", "is_lost", "fault", "is_from_peer", "severity", "reason"),
    [
        ("ann", False, "", False, Severity.INFO, "closed by the client"),
        ("ann", False, "320 bye", True, Severity.INFO, "closed by the client: 320 bye"),
        ("ann", False, "541 x", False, Severity.WARNING, "541 x"),
        ("", True, "320 went away", False, Severity.DEBUG, "320 went away"),
        ("", False, "501 bad frame", False, Severity.WARNING, "501 bad frame"),
    ],
)
def test_an_end_is_taken_as_seriously_as_it_is(
    user: str, is_lost: bool, fault: str, is_from_peer: bool, severity: Severity, reason: str
) -> None:
    events = RecordedEvents()
    peer = Peer(7, "2001:db8::1", 4000, False, Outgoing([], KeptTransport()))
    noting = Noting(events, "AMQP", peer)
    noting.user = user
    noting.is_lost = is_lost
    noting.closed(fault, is_from_peer)
    event = events.of(CLOSED)
    assert (event.severity, event.reason) == (severity, reason)
    assert event.party.peer() == "[2001:db8::1]:4000"
