"""Logins at a member of a cluster that has heard of no users yet."""

from __future__ import annotations

from penstock.broker.state import put_defaults
from penstock.broker.topology import DeleteUser, DeleteVhost
from penstock.dialects.admission import NO_ROOT
from penstock.dialects.login_timers import HELD_LOGIN_MS
from tests.dialects.amqp10.doubles import House as House10
from tests.ha.test_connection_observer import PAUSE_MS, end_of, is_open, join
from tests.seeds.doubles import NOW, House


def new_member() -> House:
    house = House()
    house.node.apply(DeleteUser("guest"), NOW)
    house.node.apply(DeleteVhost("/"), NOW)
    join(house.node).serves = True
    return house


def test_a_login_waits_for_the_first_users_of_the_cluster() -> None:
    house = new_member()
    peer = house.connect()
    house.settle()
    assert not is_open(peer)
    house.node.fire_due(NOW + HELD_LOGIN_MS)
    house.settle()
    assert not is_open(peer)
    put_defaults(house.node.state, NOW)
    house.node.fire_due(NOW + 2 * HELD_LOGIN_MS)
    house.settle()
    assert is_open(peer)


def sweep_until(house: House, until: int) -> None:
    """As the server does, a few times a second."""
    for now in range(NOW, until, 250):
        house.node.sweep(now, now)
        house.node.fire_due(now)
        house.settle()


def test_a_login_waits_longer_than_a_handshake_may_take() -> None:
    house = new_member()
    peer = house.connect()
    house.settle()
    sweep_until(house, NOW + PAUSE_MS - 1000)
    assert not is_open(peer)
    put_defaults(house.node.state, NOW)
    house.node.fire_due(NOW + PAUSE_MS - 1)
    house.settle()
    assert is_open(peer)


def test_a_login_that_waits_is_told_to_go_elsewhere_when_no_users_come_in_time() -> None:
    house = new_member()
    peer = house.connect()
    house.settle()
    sweep_until(house, NOW + PAUSE_MS + 1000)
    error = end_of(peer)
    assert error is not None and error.code == 320 and NO_ROOT in error.text


def test_a_login_that_waits_and_goes_is_forgotten() -> None:
    house = new_member()
    peer = house.connect()
    house.settle()
    sweep_until(house, NOW + PAUSE_MS // 2)
    house.node.lost(peer.connection, NOW + PAUSE_MS // 2)
    # The timer finds that it has gone.
    house.node.fire_due(NOW + PAUSE_MS)


def new_member10() -> House10:
    house = House10()
    house.node.apply(DeleteUser("guest"), house.now)
    house.node.apply(DeleteVhost("/"), house.now)
    join(house.node).serves = True
    return house


def hold10(house: House10, milliseconds: int) -> None:
    for now in range(house.now, house.now + milliseconds, 250):
        house.node.sweep(now, now)
        house.node.fire_due(now)
        house.settle()


def test_an_amqp_1_0_login_waits_longer_than_a_handshake_may_take() -> None:
    house = new_member10()
    peer = house.connect()
    hold10(house, PAUSE_MS - 1000)
    assert peer.opened is None and not peer.is_over
    put_defaults(house.node.state, house.now)
    hold10(house, PAUSE_MS - 500)
    assert peer.opened is not None


def test_an_amqp_1_0_login_ends_when_no_users_come_in_time() -> None:
    house = new_member10()
    peer = house.connect()
    hold10(house, PAUSE_MS + 1000)
    assert peer.opened is None and peer.is_over
