"""Every violation gets its reply code on its level, with a text that says what was wrong."""

import pytest

from penstock.formats.amqp091_frames import (
    BODY_FRAME,
    HEADER_FRAME,
    HEARTBEAT_FRAME,
    METHOD_FRAME,
    PROTOCOL_HEADER,
    encode_frame,
)
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.methods_generated import (
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    QueueDeclare,
)
from penstock.wire.amqp091.states import ConnectionState, Role
from tests.wire.doubles import Machine, Pair, method_frame, open_server

PUBLISH = encode_frame(METHOD_FRAME, 1, BasicPublish("", "q").encode())
HEADER = encode_frame(HEADER_FRAME, 1, encode_header(3, BasicProperties()))
BODY = encode_frame(BODY_FRAME, 1, b"abc")
QOS = BasicQos().encode()
OTHER_CLASS = b"\x00\x32" + encode_header(3, BasicProperties())[2:]

# What is sent on an open connection with channel 1, the code, and words of the text.
ON_AN_OPEN_CONNECTION = {
    "bad frame-end": (b"\x08\x00\x00\x00\x00\x00\x00\x00", 501, "frame-end octet expected, got 0"),
    "bad frame-end of a publish": (PUBLISH[:-1] + b"\xcd" + HEADER, 501, "got 205"),
    "bad frame-end of a header": (PUBLISH + HEADER[:-1] + b"\xcd" + BODY, 501, "got 205"),
    "bad frame-end of a body": (PUBLISH + HEADER + BODY[:-1] + b"\xcd", 501, "got 205"),
    "unknown frame type": (encode_frame(4, 1, b""), 501, "unknown frame type 4"),
    "unknown type of an incomplete frame": (b"\x09", 501, "unknown frame type 9"),
    "frame over frame_max": (b"\x03\x00\x01\x00\x02\x00\x01", 501, "131073 octets is larger than"),
    "heartbeat on a channel": (encode_frame(HEARTBEAT_FRAME, 1, b""), 501, "on channel 1"),
    "heartbeat with octets": (encode_frame(HEARTBEAT_FRAME, 0, b"x"), 501, "with 1 octets"),
    "method cut short": (encode_frame(METHOD_FRAME, 1, QOS[:-2]), 502, "octets expected at"),
    "method with more behind it": (
        encode_frame(METHOD_FRAME, 1, QOS + b"\0"),
        502,
        "1 octets after",
    ),
    "method frame of three octets": (
        encode_frame(METHOD_FRAME, 1, QOS[:3]),
        502,
        "octets expected",
    ),
    "name that is not UTF-8": (
        encode_frame(METHOD_FRAME, 1, b"\x00\x32\x00\x1e\x00\x00\x01\xff\x00"),
        502,
        "not UTF-8",
    ),
    "ack of a wrong size": (
        encode_frame(METHOD_FRAME, 1, b"\x00\x3c\x00\x50" + b"\x00" * 10),
        502,
        "1 octets after",
    ),
    "unknown class": (encode_frame(METHOD_FRAME, 1, b"\x00\x1f\x00\x0a"), 540, "class 31"),
    "unknown method": (encode_frame(METHOD_FRAME, 1, b"\x00\x3c\x00\x0c"), 540, "method 12"),
    "unknown method on channel 0": (
        encode_frame(METHOD_FRAME, 0, b"\0\x0a\0\x0c"),
        540,
        "method 12",
    ),
    "queue method on channel 0": (
        method_frame(0, QueueDeclare("q")),
        503,
        "queue.declare on channel 0",
    ),
    "connection method on a channel": (method_frame(1, ConnectionOpen("/")), 503, "on channel 1"),
    "handshake method once more": (
        method_frame(0, ConnectionTuneOk(1, 4096, 0)),
        503,
        "connection.tune-ok received",
    ),
    "close-ok of a connection nobody closed": (
        method_frame(0, ConnectionCloseOk()),
        503,
        "connection.close-ok received",
    ),
    "close-ok of a channel nobody closed": (
        method_frame(1, ChannelCloseOk()),
        503,
        "without channel.close",
    ),
    "a server's method sent to a server": (
        method_frame(1, BasicConsumeOk("t")),
        503,
        "a server cannot receive basic.consume-ok",
    ),
    "a server's content sent to a server": (
        method_frame(1, BasicDeliver("t", 1)),
        503,
        "cannot receive basic.deliver",
    ),
    "channel opened twice": (method_frame(1, ChannelOpen()), 504, "second 'channel.open'"),
    "channel never opened": (method_frame(7, BasicQos()), 504, "expected 'channel.open'"),
    "body on a channel never opened": (encode_frame(BODY_FRAME, 7, b""), 504, "got a content body"),
    "header on channel 0": (encode_frame(HEADER_FRAME, 0, b""), 505, "on channel 0"),
    "header without a method": (HEADER, 505, "expected method frame on channel 1, got content"),
    "body without a header": (PUBLISH + BODY, 505, "expected content header frame"),
    "method instead of a header": (PUBLISH + PUBLISH, 505, "expected content header frame"),
    "method instead of a body": (PUBLISH + HEADER + PUBLISH, 505, "expected content body frame"),
    "header instead of a body": (PUBLISH + HEADER + HEADER, 505, "expected content body frame"),
    "header of another class": (
        PUBLISH + encode_frame(HEADER_FRAME, 1, OTHER_CLASS),
        505,
        "expected content header for class 60, got one for class 50",
    ),
    "header cut short": (
        PUBLISH + encode_frame(HEADER_FRAME, 1, OTHER_CLASS[:13]),
        502,
        "content header of 13 octets",
    ),
    "more body than announced": (
        PUBLISH + HEADER + encode_frame(BODY_FRAME, 1, b"abcd"),
        501,
        "content body of 4 octets where 3 were announced",
    ),
}


@pytest.mark.parametrize("name", ON_AN_OPEN_CONNECTION)
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_a_violation_on_an_open_connection_has_its_code(name: str, piece: int) -> None:
    data, code, words = ON_AN_OPEN_CONNECTION[name]
    machine = open_server()
    for start in range(0, len(data), piece):
        machine.receive(data[start : start + piece])
    ((channel, close),) = machine.said()
    assert isinstance(close, ConnectionClose)
    assert channel == 0
    assert close.reply_code == code
    assert words in close.reply_text
    assert machine.state() is ConnectionState.CLOSING
    assert len(machine.listener.named("connection_ended")) == 1
    assert not machine.listener.named("content")


def test_one_channel_more_than_channel_max_is_not_allowed() -> None:
    machine = open_server()
    # The first one is open already.
    for number in range(2, 2049):
        machine.receive(method_frame(number, ChannelOpen()))
    channel, close = machine.said()[-1]
    assert isinstance(close, ConnectionClose)
    assert (channel, close.reply_code) == (0, 530)
    assert "channel_max (2047)" in close.reply_text
    assert machine.state() is ConnectionState.CLOSING


START_OK = method_frame(0, ConnectionStartOk({}, "PLAIN", b"\0a\0b", "en_US"))
TUNE_OK = method_frame(0, ConnectionTuneOk(2047, 131_072, 60))

DURING_THE_HANDSHAKE = {
    "tune-ok instead of start-ok": (TUNE_OK, 503, "connection.start-ok expected"),
    "open instead of tune-ok": (
        START_OK + method_frame(0, ConnectionOpen("/")),
        503,
        "connection.open received, connection.tune-ok expected",
    ),
    "channel instead of open": (
        START_OK + TUNE_OK + method_frame(1, ChannelOpen()),
        503,
        "frame on channel 1, connection.open expected",
    ),
    "update-secret too early": (
        START_OK + method_frame(0, ConnectionUpdateSecret(b"", "")),
        503,
        "connection.tune-ok expected",
    ),
    "a server's start": (method_frame(0, ConnectionStart()), 503, "connection.start received"),
    "body before start-ok": (encode_frame(BODY_FRAME, 0, b"x"), 505, "content body frame"),
    "frame above 8192 before tuning": (b"\x01\x00\x00\x00\x00\x20\x01", 501, "larger than 8192"),
    "frame_max above the offer": (
        START_OK + method_frame(0, ConnectionTuneOk(2047, 131_073, 60)),
        530,
        "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)",
    ),
    "no frame_max at all": (
        START_OK + method_frame(0, ConnectionTuneOk(2047, 0, 60)),
        530,
        "frame_max = 0 is higher",
    ),
    "frame_max below the specification's": (
        START_OK + method_frame(0, ConnectionTuneOk(2047, 4095, 60)),
        530,
        "frame_max = 4095 is lower than the minimum allowed value (4096)",
    ),
    "channel_max above the offer": (
        START_OK + method_frame(0, ConnectionTuneOk(2048, 131_072, 60)),
        530,
        "channel_max = 2048 is higher",
    ),
}


@pytest.mark.parametrize("name", DURING_THE_HANDSHAKE)
def test_a_violation_during_the_handshake_has_its_code(name: str) -> None:
    data, code, words = DURING_THE_HANDSHAKE[name]
    machine = Machine(Role.SERVER)
    machine.receive(PROTOCOL_HEADER + data)
    got, text = machine.closed_with()
    assert got == code
    assert words in text
    assert len(machine.listener.named("connection_ended")) == 1


def test_after_a_framing_fault_nothing_is_heard_and_time_ends_it() -> None:
    machine = open_server(Limits(closing_ms=500))
    machine.receive(b"\x09")
    machine.receive(method_frame(0, ConnectionCloseOk()))
    assert machine.state() is ConnectionState.CLOSING
    machine.tick(1000)
    machine.tick(1499)
    assert not machine.hung_up()
    machine.tick(1500)
    machine.flush()
    assert machine.hung_up()
    assert machine.state() is ConnectionState.ENDED


def test_a_client_refuses_what_only_clients_say() -> None:
    pair = Pair()
    pair.connect()
    pair.client.receive(method_frame(1, BasicQos()))
    assert pair.client.closed_with()[0] == 503


def test_a_client_refuses_anything_but_open_ok_on_a_new_channel() -> None:
    pair = Pair()
    pair.connect()
    pair.client.connection.open_channel(2)
    pair.client.flush()
    pair.client.receive(method_frame(2, BasicConsumeOk("t")))
    code, text = pair.client.closed_with()
    assert (code, text) == (
        504,
        "CHANNEL_ERROR - expected 'channel.open-ok' on channel 2, got basic.consume-ok",
    )


def test_a_client_refuses_a_second_open_ok() -> None:
    pair = Pair()
    pair.connect()
    pair.client.receive(method_frame(1, ChannelOpenOk()))
    assert pair.client.closed_with()[0] == 504


def test_the_frame_limit_is_the_tuned_one_with_room_for_the_frame_itself() -> None:
    machine = open_server(Limits(frame_max=4096))
    header = encode_frame(HEADER_FRAME, 1, encode_header(4096, BasicProperties()))
    machine.receive(PUBLISH + header + encode_frame(BODY_FRAME, 1, b"x" * 4096))
    assert len(machine.listener.named("content")) == 1
    header = encode_frame(HEADER_FRAME, 1, encode_header(4097, BasicProperties()))
    machine.receive(PUBLISH + header + encode_frame(BODY_FRAME, 1, b"x" * 4097))
    assert machine.closed_with()[0] == 501
