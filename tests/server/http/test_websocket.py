"""AMQP over WebSocket, with a real client library on the other side."""

import time

import pika
import pytest
import websockets.exceptions
from websockets import Origin, Subprotocol
from websockets.sync.client import connect

from penstock import Broker
from penstock.client.events import Blocked
from tests.server.http.asking import serving
from tests.server.http.doubles import AMQP, WebSocketClient, WebSocketRelay
from tests.server.opened import pika_connection
from tests.support.identities import Identities

HEADER_091 = b"AMQP\x00\x00\x09\x01"
PIECE_BYTES = 65_536
PIECES = 10
HEADER_10_SASL = b"AMQP\x03\x01\x00\x00"


def url(broker: Broker, path: str = "/ws") -> str:
    return f"ws://127.0.0.1:{broker.http_port}{path}"


@pytest.mark.parametrize("path", ["/ws", "/"])
def test_the_subprotocol_amqp_is_agreed_and_the_handshake_begins(broker: Broker, path: str) -> None:
    with connect(url(broker, path), subprotocols=AMQP) as line:
        assert line.subprotocol == "amqp"
        line.send(HEADER_091)
        said = line.recv(10)
        assert isinstance(said, bytes)
        # A method frame of channel 0: connection.start.
        assert said[:3] == b"\x01\x00\x00"
        assert said[7:11] == b"\x00\x0a\x00\x0a"


def test_a_header_in_pieces_is_one_header(broker: Broker) -> None:
    with connect(url(broker), subprotocols=AMQP) as line:
        for octet in HEADER_091:
            line.send(bytes([octet]))
        assert line.recv(10)[:3] == b"\x01\x00\x00"


def test_a_client_of_amqp_1_0_is_answered_in_kind(broker: Broker) -> None:
    with connect(url(broker), subprotocols=AMQP) as line:
        line.send(HEADER_10_SASL)
        assert line.recv(10)[:8] == HEADER_10_SASL


@pytest.mark.parametrize("subprotocols", [(), ("mqtt",), ("amqp10", "stomp")])
def test_another_subprotocol_is_refused_with_words(
    broker: Broker, subprotocols: tuple[str, ...]
) -> None:
    with (
        pytest.raises(websockets.exceptions.InvalidStatus) as refused,
        connect(url(broker), subprotocols=[Subprotocol(name) for name in subprotocols] or None),
    ):
        pass
    assert refused.value.response.status_code == 400
    assert b"Sec-WebSocket-Protocol: amqp" in refused.value.response.body


def test_pages_of_elsewhere_may_not_open_one(broker: Broker) -> None:
    with (
        pytest.raises(websockets.exceptions.InvalidStatus) as refused,
        connect(url(broker), subprotocols=AMQP, origin=Origin("http://evil.example")),
    ):
        pass
    assert refused.value.response.status_code == 403
    assert b"websocket_origins" in refused.value.response.body
    own = f"http://127.0.0.1:{broker.http_port}"
    with connect(url(broker), subprotocols=AMQP, origin=Origin(own)) as line:
        assert line.subprotocol == "amqp"


def test_text_is_no_amqp(broker: Broker) -> None:
    with connect(url(broker), subprotocols=AMQP) as line:
        line.send("AMQP")
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            line.recv(10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1003


def test_a_broker_that_takes_no_more_says_so() -> None:
    with (
        serving(connections_max=0) as broker,
        connect(url(broker), subprotocols=AMQP) as line,
        pytest.raises(websockets.exceptions.ConnectionClosed) as closed,
    ):
        line.recv(10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1013


def test_a_connection_that_leaves_is_gone_for_the_broker(broker: Broker) -> None:
    with connect(url(broker), subprotocols=AMQP) as line:
        line.send(HEADER_091)
        line.recv(10)
        assert broker.connection_count == 1
    wait_for_connections(broker, 0)


def wait_for_connections(broker: Broker, count: int) -> None:
    deadline = time.monotonic() + 10
    while broker.connection_count != count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_real_client_publishes_and_consumes(broker: Broker) -> None:
    relay = WebSocketRelay(url(broker))
    try:
        channel = pika_connection(f"amqp://127.0.0.1:{relay.port}").channel()
        channel.queue_declare("q")
        channel.confirm_delivery()
        for number in range(200):
            channel.basic_publish("", "q", b"%d" % number)
        found = []
        for method, _, body in channel.consume("q", inactivity_timeout=10):
            assert method is not None
            channel.basic_ack(method.delivery_tag)
            found.append(int(body))
            if len(found) == 200:
                break
        assert found == list(range(200))
        channel.connection.close()
        wait_for_connections(broker, 0)
    finally:
        relay.close()


def test_a_slow_consumer_gets_everything(broker: Broker) -> None:
    """More than the marks of the bridge and the kernel's buffers hold."""
    direct = pika_connection(broker.url).channel()
    direct.queue_declare("q")
    body = b"x" * 100_000
    for _ in range(150):
        direct.basic_publish("", "q", body)
    relay = WebSocketRelay(url(broker))
    try:
        channel = pika_connection(f"amqp://127.0.0.1:{relay.port}").channel()
        arriving = channel.consume("q", auto_ack=True, inactivity_timeout=10)
        assert [next(arriving)[2] for _ in range(150)] == [body] * 150
        assert broker.queue_depths()["q"] == 0
        channel.connection.close()
    finally:
        relay.close()


def test_a_blocked_publisher_is_not_read_and_goes_on_later(broker: Broker) -> None:
    relay = WebSocketRelay(url(broker))
    try:
        connection = pika_connection(f"amqp://127.0.0.1:{relay.port}")
        channel = connection.channel()
        channel.queue_declare("q")
        broker.block_publishers()
        for _ in range(20):
            channel.basic_publish("", "q", b"x" * 50_000)
        # The first is let in, because only a publish tells who publishes.
        assert broker.queue_depths()["q"] < 20
        broker.unblock_publishers()
        channel.queue_declare("q", passive=True)
        assert broker.queue_depths()["q"] == 20
        connection.close()
    finally:
        relay.close()


def test_a_client_that_hangs_up_in_the_middle_of_a_message_during_an_alarm_is_gone(
    broker: Broker,
) -> None:
    """Or what it holds would keep the alarm up."""
    direct = pika_connection(broker.url).channel()
    direct.queue_declare("q")
    # More than what is unfinished, so that nobody has a turn to complete a message.
    direct.basic_publish("", "q", bytes(4 * PIECES * PIECE_BYTES))
    with connect(url(broker), subprotocols=AMQP, compression=None) as line:
        client = WebSocketClient(line)
        broker.block_publishers()
        client.publish("q", bytes(2 * PIECES * PIECE_BYTES))
        said = client.said()
        client.send(said[:PIECE_BYTES])
        client.hear_until(Blocked)
        # Above what a bridge holds before it stops listening.
        for start in range(PIECE_BYTES, PIECES * PIECE_BYTES, PIECE_BYTES):
            client.send(said[start : start + PIECE_BYTES])
        assert broker.connection_count == 2
        client.hang_up()
    wait_for_connections(broker, 1)
    broker.unblock_publishers()
    direct.connection.close()


def test_a_broker_that_stops_tells_clients_on_websockets() -> None:
    with Broker(http=True) as broker:
        relay = WebSocketRelay(url(broker))
        connection = pika_connection(f"amqp://127.0.0.1:{relay.port}")
        channel = connection.channel()
        broker.close_connections("over")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="over"):
            channel.queue_declare("q")
        wait_for_connections(broker, 0)
        relay.close()


def test_a_websocket_over_https_carries_the_name_in_the_clients_certificate(
    identities: Identities,
) -> None:
    with Broker(http=True, tls=identities.mutual()) as broker:
        context = identities.context(identities.client)
        address = broker.http_url.replace("https:", "wss:") + "/ws"
        with connect(address, subprotocols=AMQP, ssl=context) as line:
            line.send(HEADER_091)
            assert line.recv(60)[:3] == b"\x01\x00\x00"
            [peer] = broker._call(lambda node, now: [one.peer for one in node.connections.values()])
            assert peer.certificate_name == "meter"
        with pytest.raises((OSError, websockets.exceptions.WebSocketException)):
            connect(address, subprotocols=AMQP, ssl=identities.context(identities.foreign))


def test_tls_inside_a_websocket_is_not_begun(broker: Broker) -> None:
    """What carries it is encrypted, or it is not."""
    with connect(url(broker), subprotocols=AMQP) as line:
        line.send(b"AMQP\x02\x01\x00\x00")
        assert line.recv(60)[:8] == HEADER_10_SASL
