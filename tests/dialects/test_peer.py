"""What is known of a client before it logs in."""

from penstock.dialects.encryption import Encryption
from penstock.dialects.peer import Peer
from penstock.wire.outgoing import Outgoing
from tests.dialects.amqp10.doubles import House, KeptTransport


def test_a_peer_in_the_clear_is_named_by_no_certificate() -> None:
    assert Peer(1, "192.0.2.1", 4000, False, Outgoing([], KeptTransport())).certificate_name == ""


def test_the_name_in_a_clients_certificate_reaches_its_connection() -> None:
    house = House()
    encryption = Encryption("TLSv1.3", "TLS_AES_256_GCM_SHA384", "meter", "CN=meter")
    connection = house.node.connected(
        KeptTransport(), "192.0.2.1", False, house.now, 4000, encryption
    )
    assert connection is not None
    assert connection.peer.encryption is encryption
    assert connection.peer.certificate_name == "meter"
