"""What a connection says: contents split, tuning, heartbeats, time-outs, orderly closings."""

import pytest

from penstock.formats.amqp091_frames import HEARTBEAT, PROTOCOL_HEADER
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.methods_generated import (
    BasicPublish,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStart,
    ConnectionTune,
)
from penstock.wire.amqp091.states import ConnectionState, Role
from tests.wire.doubles import Machine, Pair, method_frame, open_server


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 8176, 8177, 50_000])
def test_a_body_of_any_size_crosses_in_frames_no_larger_than_agreed(size: int) -> None:
    pair = Pair(limits=Limits(frame_max=4096))
    pair.connect()
    said = len(pair.client_said)
    body = bytes(index % 251 for index in range(size))
    method = BasicPublish("", "q").encode()
    header = encode_header(size, BasicProperties())
    pair.client.connection.send_content(1, method, header, body)
    pair.transfer()
    assert pair.server.listener.named("content") == [(1, method, header, body)]
    position = said
    while position < len(pair.client_said):
        frame_size = 8 + int.from_bytes(pair.client_said[position + 3 : position + 7], "big")
        assert frame_size <= 4096
        position += frame_size


def test_tuning_takes_the_smaller_of_both_limits() -> None:
    pair = Pair()
    pair.client.connection.limits = Limits(frame_max=5000, channel_max=9)
    pair.connect()
    for machine in (pair.client, pair.server):
        assert machine.connection.frame_max == 5000
        assert machine.connection.channel_max == 9
        assert machine.connection.heartbeat_seconds == 60


def test_an_offer_without_limits_may_be_taken_without_limits() -> None:
    machine = Machine(Role.CLIENT, Limits(frame_max=0, channel_max=0))
    machine.connection.start()
    machine.receive(method_frame(0, ConnectionStart()) + method_frame(0, ConnectionTune(0, 0, 0)))
    assert machine.connection.channel_max == 0xFFFF
    assert machine.connection.frame_max == 8192


def test_a_heartbeat_leaves_every_half_interval() -> None:
    machine = open_server(Limits(heartbeat_seconds=10))
    sent_at = []
    for now in range(1000, 20_000, 1000):
        machine.receive(HEARTBEAT, now)
        machine.tick(now)
        if HEARTBEAT in machine.flush():
            sent_at.append(now)
    assert sent_at == [1000, 6000, 11_000, 16_000]


def test_a_client_that_waits_for_open_ok_sends_heartbeats() -> None:
    """A server that has no root to serve it holds it for a while."""
    machine = Machine(Role.CLIENT, Limits(heartbeat_seconds=2))
    machine.connection.start()
    machine.receive(method_frame(0, ConnectionStart()) + method_frame(0, ConnectionTune(0, 0, 2)))
    assert machine.state() is ConnectionState.AWAITING_OPEN_OK
    machine.flush()
    sent_at = []
    for now in range(1000, 5000, 500):
        machine.tick(now)
        if HEARTBEAT in machine.flush():
            sent_at.append(now)
    assert sent_at == [1000, 2000, 3000, 4000]


def awaiting_open_ok(heartbeat_seconds: int) -> Machine:
    machine = Machine(Role.CLIENT, Limits(heartbeat_seconds=heartbeat_seconds))
    machine.connection.start()
    tune = ConnectionTune(0, 0, heartbeat_seconds)
    machine.receive(method_frame(0, ConnectionStart()) + method_frame(0, tune))
    assert machine.state() is ConnectionState.AWAITING_OPEN_OK
    return machine


def test_a_client_waits_for_open_ok_while_heartbeats_come() -> None:
    machine = awaiting_open_ok(2)
    for now in range(1000, 100_000, 1000):
        machine.receive(HEARTBEAT, now)
        machine.tick(now)
    machine.tick(now + 9999)
    assert machine.state() is ConnectionState.AWAITING_OPEN_OK
    machine.tick(now + 10_000)
    assert "handshake timeout" in str(machine.listener.named("connection_ended"))


def test_a_client_without_heartbeats_waits_for_open_ok_for_a_limited_time() -> None:
    machine = awaiting_open_ok(0)
    machine.tick(1000)
    machine.tick(10_999)
    assert machine.state() is ConnectionState.AWAITING_OPEN_OK
    machine.tick(11_000)
    assert "handshake timeout" in str(machine.listener.named("connection_ended"))


def test_three_silent_intervals_end_the_connection_without_a_close() -> None:
    machine = open_server(Limits(heartbeat_seconds=10))
    machine.receive(HEARTBEAT, 5000)
    machine.tick(35_000)
    assert machine.state() is ConnectionState.OPEN
    machine.tick(35_001)
    assert machine.state() is ConnectionState.ENDED
    assert machine.transport.aborted
    assert machine.said() == []
    assert "missed heartbeats" in str(machine.listener.named("connection_ended"))


def test_without_heartbeats_silence_is_fine() -> None:
    machine = open_server(Limits(heartbeat_seconds=0))
    machine.tick(10**9)
    assert machine.flush() == b""
    assert machine.state() is ConnectionState.OPEN


@pytest.mark.parametrize("said", [b"", b"AMQ", PROTOCOL_HEADER])
def test_a_peer_that_does_not_finish_the_handshake_is_closed(said: bytes) -> None:
    machine = Machine(Role.SERVER, Limits(handshake_ms=3000))
    machine.tick(1000)
    machine.receive(said, 2000)
    machine.flush()
    machine.tick(3999)
    assert not machine.hung_up()
    machine.tick(4000)
    assert machine.flush() == b""
    assert machine.hung_up()
    assert "handshake timeout" in str(machine.listener.named("connection_ended"))


def test_an_orderly_close_of_a_channel_ends_when_it_is_answered() -> None:
    pair = Pair()
    pair.connect()
    pair.client.connection.close_channel(1, ChannelFault(200, "done"))
    pair.client.connection.close_channel(1, ChannelFault(200, "done"))
    assert pair.client.listener.named("channel_ended") == []
    pair.transfer()
    assert pair.client.listener.named("channel_ended") == [(1, None)]
    assert pair.server.listener.named("channel_ended") == [(1, None)]
    assert pair.client.listener.methods()[-1] == ChannelCloseOk()
    pair.client.connection.open_channel(1)
    pair.transfer()
    assert pair.client.connection.channel_open(1)


def test_an_orderly_close_of_a_connection_ends_when_it_is_answered() -> None:
    pair = Pair()
    pair.connect()
    pair.client.connection.close(ConnectionFault(200, "done"))
    assert pair.client.listener.named("connection_ended") == []
    pair.transfer()
    assert pair.client.listener.calls[-2:] == [
        ("method", 0, ConnectionCloseOk()),
        ("connection_ended", None),
    ]
    assert pair.server.listener.named("connection_ended") == [(None,)]
    assert pair.client.transport.closed
    # It waits for the client's end of the socket.
    assert not pair.server.transport.closed
    pair.server.connection.lost()
    assert pair.server.listener.named("connection_ended") == [(None,)]


def test_a_close_that_nobody_answers_ends_by_time() -> None:
    machine = open_server(Limits(closing_ms=1000))
    machine.connection.close(ConnectionFault(320, "shutdown"))
    assert machine.closed_with() == (320, "CONNECTION_FORCED - shutdown")
    machine.tick(5000)
    machine.tick(5999)
    assert not machine.hung_up()
    machine.tick(6000)
    machine.flush()
    assert machine.hung_up()
    assert machine.listener.named("connection_ended") == [((320, "shutdown", False),)]


def test_a_lost_transport_is_told_once() -> None:
    machine = open_server()
    machine.connection.lost()
    machine.connection.lost()
    code, text = machine.ended_with()
    assert code == 320
    assert "went away" in text


def test_losing_the_transport_while_closing_ends_the_orderly_close() -> None:
    machine = open_server()
    machine.connection.close(ConnectionFault(200, ""))
    machine.connection.lost()
    assert machine.listener.named("connection_ended") == [(None,)]


def test_what_is_said_after_a_close_is_dropped() -> None:
    machine = open_server()
    machine.connection.close_channel(1, ChannelFault(406, "no"))
    machine.connection.send_method(1, BasicQosOk())
    machine.connection.send_content(1, b"", b"", b"")
    machine.connection.close(ConnectionFault(320, "shutdown"))
    machine.connection.send_method(0, ConnectionStart())
    machine.connection.close(ConnectionFault(320, "shutdown"))
    assert [type(m) for _, m in machine.said()] == [ChannelClose, ConnectionClose]


def test_saying_what_the_state_does_not_allow_is_our_own_mistake() -> None:
    machine = open_server()
    with pytest.raises(AssertionError, match="must not be sent while open"):
        machine.connection.send_method(0, ConnectionStart())


def test_a_long_reason_is_cut_to_a_short_string() -> None:
    machine = open_server()
    machine.connection.close(ConnectionFault(320, "é" * 200))
    _, text = machine.closed_with()
    assert len(text.encode()) <= 255
    assert text.endswith("é...")


def test_the_name_of_a_code_stands_alone_without_a_text() -> None:
    assert ConnectionFault(541, "").reply_text() == "INTERNAL_ERROR"
    assert ConnectionFault(999, "odd").reply_text() == "odd"
    assert str(ChannelFault(404, "no queue")) == "404 NOT_FOUND - no queue"


def test_an_undecodable_octet_in_a_reason_does_not_stop_the_close() -> None:
    machine = open_server()
    machine.connection.close(ConnectionFault(320, "header \udcff"))
    assert machine.closed_with() == (320, "CONNECTION_FORCED - header ?")
