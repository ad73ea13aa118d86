"""Logins, opens and endings of an AMQP 1.0 connection."""

from __future__ import annotations

import pytest

from penstock.broker.access.login_delay import FIRST_DELAY_MS
from penstock.broker.access.users import Verification, hash_password
from penstock.broker.topology import (
    AddVhost,
    DeclareQueue,
    PutUser,
    SetGlobalParameter,
    SetPermissions,
    SetUserLimits,
    SetVhostLimits,
)
from penstock.dialects.login_checker import LoginChecker, LoginWaiter
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.states import ConnectionState
from tests.broker.doubles import CountingEntropy
from tests.dialects.amqp10.doubles import House
from tests.dialects.protocols import amqp10_of


@pytest.fixture
def house() -> House:
    return House()


def test_a_client_logs_in_and_opens_the_default_vhost(house: House) -> None:
    peer = house.connect("somebody")
    assert peer.wire.state is ConnectionState.OPENED
    assert peer.opened is not None
    assert peer.opened.container_id == "house"
    assert {"ANONYMOUS-RELAY", "LINK_PAIR_V1_0"} <= set(peer.opened.offered_capabilities)
    assert peer.opened.properties is not None
    assert peer.opened.properties["product"] == "Penstock"
    assert peer.connection.protocol.vhost_name() == "/"
    assert house.node.container.connection_counts == {"/": 1}


def test_an_open_has_the_name_that_an_operator_chose(house: House) -> None:
    house.node.apply(SetGlobalParameter("cluster_name", "waterworks"), house.now)
    peer = house.connect("somebody")
    assert peer.opened is not None
    assert peer.opened.properties is not None
    assert peer.opened.properties["cluster_name"] == "waterworks"


def test_a_client_with_the_smallest_frames_hears_an_open_that_fits(house: House) -> None:
    peer = house.connect(limits=Limits(frame_max=512))
    assert peer.wire.state is ConnectionState.OPENED
    assert peer.opened is not None
    assert peer.opened.properties is None


def test_anonymous_logs_in_as_the_default_user_from_this_machine(house: House) -> None:
    peer = house.connect(mechanism="ANONYMOUS")
    assert peer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "ANONYMOUS"]
    assert peer.wire.state is ConnectionState.OPENED


def test_anonymous_is_refused_when_the_default_user_has_another_password(house: House) -> None:
    house.logins.good = None
    changed = hash_password(b"changed", CountingEntropy())
    house.node.apply(PutUser("guest", changed, (), True), house.now)
    peer = house.connect(mechanism="ANONYMOUS")
    assert peer.connection_fault == "amqp:unauthorized-access"
    assert house.connect(mechanism="ANONYMOUS").mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    again = hash_password(b"guest", CountingEntropy())
    house.node.apply(PutUser("guest", again, (), True), house.now)
    assert house.connect(mechanism="ANONYMOUS").wire.state is ConnectionState.OPENED


@pytest.mark.parametrize("mechanism", ["", "ANONYMOUS"])
def test_refused_anonymous_clients_do_not_delay_the_default_users_logins(
    house: House, mechanism: str
) -> None:
    house.logins.good = None
    changed = hash_password(b"changed", CountingEntropy())
    house.node.apply(PutUser("guest", changed, (), True), house.now)
    for _ in range(3):
        house.connect(mechanism=mechanism)
    assert house.node.state.login_delays.pair_count == 0


def test_a_client_without_a_sasl_layer_is_taken_for_anonymous(house: House) -> None:
    peer = house.connect(mechanism="")
    assert peer.wire.state is ConnectionState.OPENED
    assert amqp10_of(peer.connection).login.user == "guest"
    sender = peer.sender(peer.begin(), "q")
    sender.send(b"x")
    assert sender.outcomes == ["accepted"]


def test_an_open_without_a_sasl_layer_is_answered_when_the_login_is_checked(house: House) -> None:
    logins = SlowLogins()
    house.node.container.login_checker = logins
    peer = house.connect(mechanism="")
    assert (peer.opened is None, peer.transport.is_reading) == (True, False)
    logins.answer(house.now)
    house.settle()
    assert (peer.opened is None, peer.transport.is_reading) == (False, True)
    assert peer.wire.state is ConnectionState.OPENED


def test_a_client_whose_login_is_being_checked_is_read_again_when_the_server_stops(
    house: House,
) -> None:
    house.node.container.login_checker = SlowLogins()
    peer = house.connect(mechanism="")
    assert not peer.transport.is_reading
    house.node.stop(house.now)
    assert peer.transport.is_reading


def test_a_client_in_the_middle_of_a_delivery_is_read_again_when_the_server_stops(
    house: House,
) -> None:
    house.declare("q")
    peer = house.connect()
    peer.sender(peer.begin(), "/queues/q").put(bytes(500_000))
    peer.connection.received(peer.said()[:300_000], house.now)
    house.node.set_alarm("memory", "low on memory", house.now)
    assert not peer.transport.is_reading
    house.node.stop(house.now)
    assert peer.transport.is_reading


@pytest.mark.parametrize("mechanism", ["", "ANONYMOUS"])
def test_nobody_is_anonymous_where_the_operator_forbids_it(mechanism: str) -> None:
    house = House(mechanisms=("PLAIN",))
    peer = house.connect(mechanism=mechanism)
    assert peer.is_over
    assert house.node.container.connection_counts == {}
    assert house.connect().mechanisms == ["PLAIN"]


@pytest.mark.parametrize("mechanism", ["", "ANONYMOUS"])
def test_nobody_is_anonymous_from_where_the_default_user_may_not_log_in(
    house: House, mechanism: str
) -> None:
    house.is_on_loopback = False
    peer = house.connect(mechanism=mechanism)
    assert peer.is_over
    assert house.node.container.connection_counts == {}


def test_without_a_sasl_layer_the_default_user_must_have_its_default_password(
    house: House,
) -> None:
    house.logins.good = None
    changed = hash_password(b"changed", CountingEntropy())
    house.node.apply(PutUser("guest", changed, (), True), house.now)
    peer = house.connect(mechanism="")
    assert peer.connection_fault == "amqp:unauthorized-access"


def test_a_vhost_that_is_not_there_is_told_without_a_sasl_layer_too(house: House) -> None:
    logins = SlowLogins()
    house.node.container.login_checker = logins
    peer = house.connect(mechanism="", hostname="vhost:nowhere")
    logins.answer(house.now)
    house.settle()
    assert peer.connection_fault == "amqp:not-found"


class SlowLogins(LoginChecker):
    """Finds every password good, when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Verification, LoginWaiter]] = []

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        self.waiting.append((verification, waiter))

    def answer(self, now: int) -> None:
        for verification, waiter in self.waiting:
            verification.good = True
            waiter.login_checked(verification, now)


def test_a_wrong_password_is_answered_after_a_delay_that_grows(house: House) -> None:
    first = house.connect(password="wrong")
    assert not first.is_over
    assert not first.transport.is_reading
    house.pass_time(100)
    assert first.connection_fault == "amqp:unauthorized-access"
    second = house.connect(password="wrong")
    house.pass_time(100)
    assert not second.is_over
    house.pass_time(100)
    assert second.is_over


def test_a_mechanism_that_was_not_offered_ends_the_connection(house: House) -> None:
    peer = house.connect(mechanism="EXTERNAL")
    assert peer.is_over


def test_the_hostname_of_an_open_names_the_vhost(house: House) -> None:
    house.node.apply(AddVhost("tenant"), house.now)
    house.node.apply(SetPermissions("guest", "tenant", ".*", ".*", ".*"), house.now)
    peer = house.connect(hostname="vhost:tenant")
    assert peer.connection.protocol.vhost_name() == "tenant"


def test_a_vhost_that_is_not_there_closes_with_not_found(house: House) -> None:
    peer = house.connect(hostname="vhost:nowhere")
    assert peer.connection_fault == "amqp:not-found"


def test_a_vhost_without_permissions_closes_with_unauthorized_access(house: House) -> None:
    house.node.apply(AddVhost("closed"), house.now)
    peer = house.connect(hostname="vhost:closed")
    assert peer.connection_fault == "amqp:unauthorized-access"


def test_a_full_vhost_closes_with_resource_limit_exceeded(house: House) -> None:
    house.node.apply_to_vhost("/", SetVhostLimits(-1, 0), house.now)
    peer = house.connect()
    assert peer.connection_fault == "amqp:resource-limit-exceeded"


def test_a_user_with_too_many_connections_closes_with_resource_limit_exceeded(
    house: House,
) -> None:
    house.node.apply(SetUserLimits("guest", max_connections=1), house.now)
    first = house.connect()
    assert house.connect().connection_fault == "amqp:resource-limit-exceeded"
    first.lose()
    assert house.connect().wire.state is ConnectionState.OPENED


def test_sessions_count_as_channels_of_their_user(house: House) -> None:
    house.node.apply(SetUserLimits("guest", max_channels=2), house.now)
    peer, other = house.connect(), house.connect()
    first = peer.begin()
    other.begin()
    peer.begin()
    assert peer.session_faults == ["amqp:resource-limit-exceeded"]
    peer.wire.end_session(first, None)
    house.settle()
    peer.begin()
    assert len(peer.session_faults) == 2
    peer.lose()
    other.begin()
    assert other.session_faults == []
    other.lose()
    assert house.node.container.user_channel_counts == {"guest": 0}
    assert house.node.container.user_connection_counts == {"guest": 0}


def test_a_connection_that_is_over_counts_no_more(house: House) -> None:
    peer = house.connect()
    peer.wire.close(None)
    house.settle()
    assert peer.connection_fault == ""
    assert house.node.container.connection_counts == {"/": 0}
    house.connect().lose()
    assert house.node.container.connection_counts == {"/": 0}


def test_a_server_that_stops_closes_with_connection_forced(house: House) -> None:
    peer = house.connect()
    house.node.stop(house.now)
    house.settle()
    assert peer.connection_fault == "amqp:connection:forced"


def test_a_defect_of_ours_closes_with_internal_error(house: House) -> None:
    peer = house.connect()
    peer.connection.protocol.failed(house.now)
    house.settle()
    assert peer.connection_fault == "amqp:internal-error"


def test_an_exclusive_queue_goes_with_its_connection(house: House) -> None:
    peer = house.connect()
    declare = DeclareQueue("own", False, True, connection=peer.connection.number)
    house.node.apply_to_vhost("/", declare, house.now)
    peer.lose()
    assert "own" not in house.node.state.vhost("/").queues


def test_scram_proves_both_sides_to_one_another(house: House) -> None:
    peer = house.connect(mechanism="SCRAM-SHA-256")
    assert peer.opened is not None
    assert peer.scram.verify(peer.server_final)


def test_a_wrong_scram_proof_is_refused_after_its_delay(house: House) -> None:
    peer = house.connect(mechanism="SCRAM-SHA-256", password="wrong")
    heard_at_once = peer.is_over
    house.pass_time(FIRST_DELAY_MS)
    assert (heard_at_once, peer.is_over) == (False, True)
    assert peer.opened is None


def test_amqplain_is_not_offered_in_amqp10(house: House) -> None:
    assert house.connect(mechanism="AMQPLAIN").is_over
