"""What a connection hears: handshake, channels, contents, acks, and faults of its listener."""

from random import Random

import pytest

from penstock.formats.amqp091_frames import (
    BODY_FRAME,
    HEADER_FRAME,
    HEARTBEAT,
    METHOD_FRAME,
    PROTOCOL_HEADER,
    encode_content,
    encode_frame,
)
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.methods_generated import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
)
from penstock.wire.amqp091.states import ConnectionState, Role
from tests.wire.doubles import KeepingListener, Machine, Pair, handshake, method_frame, open_server

PUBLISH = BasicPublish("amq.direct", "key").encode()
HEADER_5 = encode_header(5, BasicProperties(delivery_mode=2))
WHOLE = encode_content(1, PUBLISH, HEADER_5, b"hello")


def test_a_handshake_opens_both_sides() -> None:
    pair = Pair()
    pair.connect()
    assert pair.client.connection.state is ConnectionState.OPEN
    assert pair.server.connection.state is ConnectionState.OPEN
    assert pair.client.connection.channel_open(1)
    assert pair.server.connection.channel_open(1)
    heard = [type(method) for method in pair.server.listener.methods()]
    assert heard == [ConnectionStartOk, ConnectionTuneOk, ConnectionOpen, ChannelOpen]
    heard = [type(method) for method in pair.client.listener.methods()]
    assert heard == [ConnectionStart, ConnectionTune, ConnectionOpenOk, ChannelOpenOk]


def test_a_challenge_may_stand_between_start_and_tune() -> None:
    class Challenger(KeepingListener):
        def protocol_agreed(self) -> None:
            machine.connection.send_method(0, ConnectionStart(0, 9, {}, b"X", b"en_US"))

    machine = Machine(Role.SERVER)
    challenger = Challenger()
    machine.connection.listener = challenger
    machine.receive(PROTOCOL_HEADER + method_frame(0, ConnectionStartOk({}, "X", b"", "en_US")))
    assert machine.state() is ConnectionState.AUTHENTICATING
    machine.connection.send_method(0, ConnectionSecure(b"who?"))
    machine.receive(method_frame(0, ConnectionSecureOk(b"me")))
    assert challenger.methods()[-1] == ConnectionSecureOk(b"me")
    machine.connection.send_method(0, ConnectionTune(1, 4096, 0))
    assert [type(m) for _, m in machine.said()] == [
        ConnectionStart,
        ConnectionSecure,
        ConnectionTune,
    ]


def test_a_wrong_header_is_answered_with_ours_and_the_connection_closes() -> None:
    machine = Machine(Role.SERVER)
    machine.receive(b"AMQP\x01\x01\x00\x0a")
    assert machine.flush() == PROTOCOL_HEADER
    assert machine.hung_up()
    code, text = machine.ended_with()
    assert code == 501
    assert "unsupported AMQP version" in text


def test_a_wrong_first_octet_is_enough() -> None:
    machine = Machine(Role.SERVER)
    machine.receive(b"\x00")
    assert machine.flush() == PROTOCOL_HEADER
    assert machine.state() is ConnectionState.ENDED


def test_a_client_understands_the_refusal_of_its_header() -> None:
    machine = Machine(Role.CLIENT)
    machine.connection.start()
    machine.receive(b"AMQ")
    assert machine.state() is ConnectionState.AWAITING_START
    machine.receive(b"P\x00\x01\x00\x00")
    assert machine.state() is ConnectionState.ENDED
    assert "does not support" in str(machine.listener.named("connection_ended"))


@pytest.mark.parametrize("cut", range(len(WHOLE)))
def test_a_publish_arrives_the_same_wherever_it_is_cut(cut: int) -> None:
    machine = open_server()
    machine.receive(WHOLE[:cut])
    machine.receive(WHOLE[cut:] + WHOLE)
    assert machine.listener.calls == [("content", 1, PUBLISH, HEADER_5, b"hello")] * 2
    assert machine.connection.buffered() == 0


# Any two of these are alike in some of method, channel, header, size of the body, and not in others.
ALIKE = [
    (channel, BasicPublish("", key).encode(), encode_header(len(body), properties), body)
    for channel in (1, 2)
    for key in ("one", "two")
    for properties in (BasicProperties(), BasicProperties(delivery_mode=2))
    for body in (b"", b"hello", b"other", b"longer")
]


@pytest.mark.parametrize("seed", range(20))
def test_contents_that_are_alike_in_parts_are_not_taken_for_each_other(seed: int) -> None:
    machine = open_server()
    machine.receive(method_frame(2, ChannelOpen()))
    machine.listener.calls.clear()
    drawn = Random(seed)
    contents = [
        content
        for content in drawn.choices(ALIKE, k=100)
        for _ in range(drawn.choice((1, 1, 2, 3)))
    ]
    machine.receive(b"".join(encode_content(*content) for content in contents))
    assert machine.listener.calls == [("content", *content) for content in contents]


def test_a_repeated_header_on_another_channel_than_its_method_is_refused() -> None:
    machine = open_server()
    machine.receive(method_frame(2, ChannelOpen()))
    on_other_channel = encode_frame(METHOD_FRAME, 2, PUBLISH) + WHOLE[len(PUBLISH) + 8 :]
    machine.receive(WHOLE + WHOLE + on_other_channel)
    assert machine.listener.named("content") == [(1, PUBLISH, HEADER_5, b"hello")] * 2
    assert "expected method frame on channel 1" in str(machine.listener.named("connection_ended"))


@pytest.mark.parametrize("count", [1, 2])
def test_a_repeated_content_without_its_frame_end_is_refused(count: int) -> None:
    machine = open_server()
    machine.receive(WHOLE * count + WHOLE[:-1] + b"\x00" + WHOLE)
    assert machine.listener.named("content") == [(1, PUBLISH, HEADER_5, b"hello")] * count
    assert "frame-end octet expected" in str(machine.listener.named("connection_ended"))


def test_a_content_without_a_body_is_whole_after_its_header() -> None:
    machine = open_server()
    header = encode_header(0, BasicProperties())
    frames = encode_content(1, PUBLISH, header, b"")
    machine.receive(frames + frames[:-1])
    machine.receive(frames[-1:])
    assert machine.listener.calls == [("content", 1, PUBLISH, header, b"")] * 2


def test_a_body_over_several_frames_is_joined() -> None:
    machine = open_server()
    machine.receive(
        encode_frame(METHOD_FRAME, 1, PUBLISH)
        + encode_frame(HEADER_FRAME, 1, HEADER_5)
        + encode_frame(BODY_FRAME, 1, b"he")
        + encode_frame(BODY_FRAME, 1, b"")
        + encode_frame(BODY_FRAME, 1, b"llo")
    )
    assert machine.listener.calls == [("content", 1, PUBLISH, HEADER_5, b"hello")]
    assert machine.connection.buffered() == 0


def test_contents_of_two_channels_may_interleave() -> None:
    machine = open_server()
    machine.receive(method_frame(2, ChannelOpen()))
    machine.listener.calls.clear()
    machine.receive(
        encode_frame(METHOD_FRAME, 1, PUBLISH)
        + encode_frame(METHOD_FRAME, 2, PUBLISH)
        + encode_frame(HEADER_FRAME, 1, HEADER_5)
        + encode_frame(HEADER_FRAME, 2, HEADER_5)
        + encode_frame(BODY_FRAME, 2, b"other")
        + HEARTBEAT
        + encode_frame(BODY_FRAME, 1, b"hello")
    )
    assert machine.listener.calls == [
        ("content", 2, PUBLISH, HEADER_5, b"other"),
        ("content", 1, PUBLISH, HEADER_5, b"hello"),
    ]


def test_an_ack_arrives_by_the_short_way_and_by_the_long_one() -> None:
    machine = open_server()
    frame = method_frame(1, BasicAck((1 << 40) + 5, multiple=True))
    machine.receive(frame)
    # Channel 0 in between: the loop has to look the channel up again.
    machine.receive(HEARTBEAT + frame[:9])
    machine.receive(frame[9:])
    assert machine.listener.calls == [("ack", 1, (1 << 40) + 5, True)] * 2


def test_a_client_hears_deliveries_and_answers_to_get() -> None:
    pair = Pair()
    pair.connect()
    pair.client.listener.calls.clear()
    deliver = BasicDeliver("tag", 1, redelivered=False, exchange="", routing_key="q").encode()
    got = BasicGetOk(2, redelivered=True, exchange="", routing_key="q", message_count=3).encode()
    pair.server.connection.send_content(1, deliver, HEADER_5, b"hello")
    pair.server.connection.send_content(1, got, HEADER_5, b"again")
    pair.server.connection.send_method(0, ConnectionBlocked("low on memory"))
    pair.transfer()
    assert pair.client.listener.calls == [
        ("content", 1, deliver, HEADER_5, b"hello"),
        ("content", 1, got, HEADER_5, b"again"),
        ("method", 0, ConnectionBlocked("low on memory")),
    ]


def test_a_channel_fault_of_the_listener_closes_the_channel_and_the_rest_goes_on() -> None:
    machine = open_server()
    machine.receive(method_frame(2, ChannelOpen()))
    machine.flush()
    machine.listener.calls.clear()
    machine.listener.raises = ChannelFault(404, "no exchange 'x' in vhost '/'")
    machine.receive(WHOLE + WHOLE + method_frame(2, BasicQos()))
    assert machine.said() == [
        (1, ChannelClose(404, "NOT_FOUND - no exchange 'x' in vhost '/'", 60, 40))
    ]
    assert machine.listener.calls == [
        ("content", 1, PUBLISH, HEADER_5, b"hello"),
        ("channel_ended", 1, (404, "no exchange 'x' in vhost '/'", False)),
        ("method", 2, BasicQos()),
    ]
    assert machine.connection.channel_known(1)
    machine.receive(WHOLE + method_frame(1, ChannelCloseOk()))
    assert not machine.connection.channel_known(1)
    machine.receive(method_frame(1, ChannelOpen()))
    assert machine.said() == [(1, ChannelOpenOk())]


@pytest.mark.parametrize("cut", [0, 5])
def test_a_connection_fault_of_the_listener_closes_the_connection(cut: int) -> None:
    machine = open_server()
    machine.listener.raises = ConnectionFault(503, "unknown exchange type 'bogus'")
    data = WHOLE + WHOLE
    machine.receive(data[:cut])
    machine.receive(data[cut:])
    assert machine.said() == [
        (0, ConnectionClose(503, "COMMAND_INVALID - unknown exchange type 'bogus'", 60, 40))
    ]
    assert machine.state() is ConnectionState.CLOSING
    assert machine.listener.named("connection_ended") == [
        ((503, "unknown exchange type 'bogus'", False),)
    ]
    machine.receive(WHOLE + method_frame(0, ConnectionCloseOk()))
    machine.flush()
    assert machine.hung_up()
    assert len(machine.listener.named("content")) == 1
    assert len(machine.listener.named("connection_ended")) == 1


def test_what_the_listener_finds_malformed_is_a_syntax_error() -> None:
    machine = open_server()
    machine.listener.raises = Malformed("short string at 6 is not UTF-8")
    machine.receive(WHOLE)
    assert machine.closed_with() == (502, "SYNTAX_ERROR - short string at 6 is not UTF-8")


def test_a_fault_names_the_method_that_was_handled() -> None:
    machine = open_server()
    machine.listener.raises = ChannelFault(406, "no")
    machine.receive(method_frame(1, QueueDeclare("q")))
    assert machine.said() == [(1, ChannelClose(406, "PRECONDITION_FAILED - no", 50, 10))]


def test_a_fault_of_an_ack_names_it() -> None:
    machine = open_server()
    machine.listener.raises = ChannelFault(406, "unknown delivery tag 9")
    machine.receive(method_frame(1, BasicAck(9)))
    ((_, close),) = machine.said()
    assert close == ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 9", 60, 80)


def test_a_channel_fault_during_the_handshake_ends_the_connection() -> None:
    machine = Machine(Role.SERVER)
    machine.listener.raises = ChannelFault(403, "login refused")
    machine.receive(PROTOCOL_HEADER)
    assert machine.closed_with() == (403, "ACCESS_REFUSED - login refused")


def test_the_peer_closing_a_channel_is_told_before_it_is_answered() -> None:
    machine = open_server()
    close = ChannelClose(404, "gone", 60, 40)
    machine.receive(method_frame(1, close))
    assert machine.listener.calls == [
        ("method", 1, close),
        ("channel_ended", 1, (404, "gone", True)),
    ]
    assert machine.said() == [(1, ChannelCloseOk())]
    assert not machine.connection.channel_known(1)


def test_a_listener_that_faults_on_a_close_still_gets_it_answered() -> None:
    machine = open_server()
    machine.listener.raises = ChannelFault(406, "no")
    machine.receive(method_frame(1, ChannelClose(200, "")))
    assert machine.said() == [(1, ChannelCloseOk())]
    assert not machine.connection.channel_known(1)


def test_the_peer_closing_the_connection_is_told_and_answered() -> None:
    machine = open_server()
    close = ConnectionClose(200, "bye")
    machine.receive(method_frame(0, close) + WHOLE)
    assert machine.listener.calls == [("method", 0, close), ("connection_ended", None)]
    assert machine.said() == [(0, ConnectionCloseOk())]


def test_a_server_that_has_answered_a_close_discards_what_was_under_way() -> None:
    machine = open_server()
    machine.receive(method_frame(0, ConnectionClose(200, "bye")))
    assert machine.said() == [(0, ConnectionCloseOk())]
    machine.receive(WHOLE + WHOLE[:20])
    machine.receive(WHOLE[20:])
    assert machine.listener.named("content") == []
    assert machine.said() == []
    assert not machine.hung_up(), "the client's own end of the socket ends it"


def test_a_server_answers_every_further_close() -> None:
    machine = open_server()
    for _ in range(3):
        machine.receive(method_frame(0, ConnectionClose(200, "bye")) + WHOLE)
    assert machine.said() == [(0, ConnectionCloseOk())] * 3
    assert len(machine.listener.named("connection_ended")) == 1


def test_a_client_that_keeps_its_socket_after_a_close_is_hung_up_on_by_time() -> None:
    machine = open_server(Limits(closing_ms=1000))
    # The handshake's own clock must not count.
    machine.tick(1000)
    machine.receive(method_frame(0, ConnectionClose(200, "bye")))
    machine.tick(5000)
    machine.tick(5999)
    machine.flush()
    assert not machine.hung_up()
    machine.tick(6000)
    machine.flush()
    assert machine.hung_up()


def test_a_client_hangs_up_when_it_has_answered_a_close() -> None:
    pair = Pair()
    pair.connect()
    pair.server.connection.close(ConnectionFault(320, "shutdown"))
    pair.transfer()
    assert pair.client.transport.closed
    assert pair.server.transport.closed


def test_the_peers_reason_for_closing_is_passed_on() -> None:
    machine = open_server()
    machine.receive(method_frame(0, ConnectionClose(541, "INTERNAL_ERROR - oops")))
    assert machine.listener.named("connection_ended") == [((541, "INTERNAL_ERROR - oops", True),)]


def test_channels_closed_by_both_sides_at_once_end_once() -> None:
    machine = open_server()
    machine.connection.close_channel(1, ChannelFault(406, "no"))
    machine.receive(method_frame(1, ChannelClose(200, "")) + method_frame(1, ChannelCloseOk()))
    assert [type(m) for _, m in machine.said()] == [ChannelClose, ChannelCloseOk]
    assert len(machine.listener.named("channel_ended")) == 1
    assert not machine.connection.channel_known(1)


def test_connections_closed_by_both_sides_at_once_end_once() -> None:
    machine = open_server()
    machine.connection.close(ConnectionFault(320, "shutdown"))
    machine.receive(method_frame(0, ConnectionClose(200, "")))
    assert [type(m) for _, m in machine.said()] == [ConnectionClose, ConnectionCloseOk]
    assert machine.listener.named("connection_ended") == [((320, "shutdown", False),)]
    assert machine.state() is ConnectionState.CLOSING
    machine.receive(method_frame(0, ConnectionCloseOk()))
    assert machine.state() is ConnectionState.ENDED
    assert len(machine.listener.named("connection_ended")) == 1


def test_a_message_over_the_limit_closes_the_channel_and_its_body_is_skipped() -> None:
    machine = open_server(Limits(message_bytes_max=4))
    for data in (WHOLE, method_frame(2, ChannelOpen())):
        machine.receive(data)
    closes = [(n, m) for n, m in machine.said() if isinstance(m, ChannelClose)]
    text = "PRECONDITION_FAILED - message size 5 is larger than configured max size 4"
    assert closes == [(1, ChannelClose(406, text, 60, 40))]
    assert machine.connection.channel_open(2)
    assert machine.connection.buffered() == 0
    assert not machine.listener.named("content")


def test_unfinished_contents_of_all_channels_together_are_limited() -> None:
    machine = open_server(Limits(assembly_bytes_max=1000))
    header = encode_header(600, BasicProperties())
    for number in (2, 3):
        machine.receive(method_frame(number, ChannelOpen()))
        machine.receive(encode_frame(METHOD_FRAME, number, PUBLISH))
        machine.receive(encode_frame(HEADER_FRAME, number, header))
        machine.receive(encode_frame(BODY_FRAME, number, b"x" * 500))
    assert machine.closed_with()[0] == 506
    assert machine.connection.buffered() == 0


def test_a_finished_content_gives_its_share_back() -> None:
    machine = open_server(Limits(assembly_bytes_max=1000))
    header = encode_header(600, BasicProperties())
    for _ in range(5):
        machine.receive(encode_frame(METHOD_FRAME, 1, PUBLISH))
        machine.receive(encode_frame(HEADER_FRAME, 1, header))
        machine.receive(encode_frame(BODY_FRAME, 1, b"x" * 500))
        machine.receive(encode_frame(BODY_FRAME, 1, b"x" * 100))
    assert len(machine.listener.named("content")) == 5
    assert machine.connection.buffered() == 0


def test_nothing_is_heard_after_the_end() -> None:
    machine = open_server()
    machine.connection.lost()
    machine.listener.calls.clear()
    machine.receive(handshake() + WHOLE)
    assert machine.listener.calls == []
    assert machine.flush() == b""


def test_a_defect_of_the_listener_is_not_hidden() -> None:
    machine = open_server()
    machine.listener.raises = KeyError("defect")
    with pytest.raises(KeyError):
        machine.receive(WHOLE)
