"""Before a connection's protocol is known."""

from penstock.wire.amqp10.framing import SASL_HEADER
from tests.dialects.amqp10.doubles import House, KeptTransport


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
