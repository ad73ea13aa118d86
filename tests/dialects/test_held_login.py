"""Logins at a member of a cluster that has heard of no users yet."""

from __future__ import annotations

from penstock.broker.state import put_defaults
from penstock.broker.topology import DeleteUser, DeleteVhost
from penstock.dialects.amqp091.connection import Connection as AmqpConnection
from penstock.dialects.login_timers import HELD_LOGIN_MS
from penstock.wire.amqp091.states import ConnectionState
from tests.dialects.test_serving import is_open, join
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


def test_a_login_that_waits_ends_with_the_time_of_its_handshake() -> None:
    house = new_member()
    peer = house.connect()
    house.settle()
    late = NOW + house.node.configuration.limits.handshake_ms
    house.node.sweep(NOW, NOW)
    house.node.sweep(late, late)
    house.settle()
    assert not is_open(peer)
    assert isinstance(peer.connection.protocol, AmqpConnection)
    assert peer.connection.protocol.wire.state is ConnectionState.ENDED
    # The timer finds that it has gone.
    house.node.fire_due(late + HELD_LOGIN_MS)
