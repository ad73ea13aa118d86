"""Before a connection's protocol is known, and before its client has logged in."""

from penstock.wire.amqp10.framing import SASL_HEADER
from tests.dialects.amqp10.doubles import House, KeptTransport
from tests.seeds.doubles import NOW
from tests.seeds.doubles import House as House091


def test_a_peer_that_has_not_said_its_protocol_is_closed_without_a_word() -> None:
    house = House()
    transport = KeptTransport()
    connection = house.node.connected(transport, "127.0.0.1", True, house.now)
    assert connection is not None
    connection.received(SASL_HEADER[:3], house.now)
    house.node.stop(house.now)
    house.settle()
    assert transport.is_closed
    connection.received(SASL_HEADER[3:], house.now)
    house.settle()
    assert transport.written == b""


def test_a_client_whose_login_is_being_checked_is_read_again_when_the_server_stops() -> None:
    house = House091()
    peer = house.connect()
    while not house.logins.waiting:
        peer.deliver_to_node()
        house.node.flush(NOW)
        peer.hear()
    assert not peer.transport.is_reading
    house.node.stop(NOW)
    is_read = peer.transport.is_reading
    assert is_read
