"""Penstock's side of the codec table. The only file of the bench that imports the codec.

A server connection is brought to its open state by the bytes a client would send, then given
publishes to read; so what is timed is what a server does with them, the framing checks included.
"""

from collections.abc import Callable

from bench import frames
from bench.codec import BODY, HEADERS
from penstock.formats.amqp091_frames import encode_content
from penstock.wire.amqp091.connection import Connection
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.field_table import decode_table, encode_table
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.listener import ConnectionListener
from penstock.wire.amqp091.methods_generated import (
    BasicDeliver,
    BasicPublish,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    Method,
)
from penstock.wire.amqp091.states import ConnectionState, Role
from penstock.wire.outgoing import Outgoing
from penstock.world.network import Transport

# Publishes in one read: a server under load finds some hundred together, never one.
PUBLISHES_PER_READ = 200

FRAME_MAX = Limits().frame_max

# The payload of the content header frame: 12 fixed octets, two of flags, the delivery mode.
HEADER = frames.content(BODY, persistent=False)[7 : 7 + 15]


class NoTransport(Transport):
    """Held by the connection under test, which has no peer."""

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Welcoming(ConnectionListener):
    """Accepts every login and discards every publish."""

    def __init__(self) -> None:
        self.connection: Connection | None = None

    def protocol_agreed(self) -> None:
        self.say(ConnectionStart())

    def method_received(self, channel: int, method: Method) -> None:
        del channel
        if isinstance(method, ConnectionStartOk):
            self.say(ConnectionTune(0, FRAME_MAX, 0))
        elif isinstance(method, ConnectionOpen):
            self.say(ConnectionOpenOk())

    def say(self, method: Method) -> None:
        assert self.connection is not None
        self.connection.send_method(0, method)

    def content_received(self, channel: int, method: bytes, header: bytes, body: bytes) -> None:
        pass

    def acknowledged(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        pass

    def channel_ended(self, channel: int, fault: ChannelFault | None) -> None:
        pass

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        raise AssertionError(f"the codec bench was refused: {fault}")


class Decoding(Welcoming):
    """Decodes the method of every publish, like a server without a route cache."""

    def content_received(self, channel: int, method: bytes, header: bytes, body: bytes) -> None:
        del channel, header, body
        BasicPublish.decode(method)


def open_connection(listener: Welcoming) -> Connection:
    connection = Connection(Role.SERVER, listener, Outgoing([], NoTransport()), Limits())
    listener.connection = connection
    login = frames.field_table({}) + frames.short_string("PLAIN")
    login += frames.long_string(b"\0guest\0guest") + frames.short_string("en_US")
    tuned = (2047).to_bytes(2, "big") + FRAME_MAX.to_bytes(4, "big") + b"\0\0"
    for said in (
        b"AMQP\x00\x00\x09\x01",
        frames.method(0, frames.CONNECTION_START_OK, login),
        frames.method(0, frames.CONNECTION_TUNE_OK, tuned),
        frames.method(0, frames.CONNECTION_OPEN, frames.short_string("/") + b"\0\0"),
        frames.method(1, frames.CHANNEL_OPEN, b"\0"),
    ):
        connection.receive(said, 0)
    assert connection.state is ConnectionState.OPEN
    return connection


def receive_work(listener: Welcoming) -> Callable[[], object]:
    connection = open_connection(listener)
    publishes = frames.publish("", "orders", BODY, persistent=False) * PUBLISHES_PER_READ
    return lambda: connection.receive(publishes, 0)


def encode_deliver() -> bytes:
    deliver = BasicDeliver("consumer-1", 17, False, "", "orders")
    return encode_content(1, deliver.encode(), HEADER, BODY)


def penstock_works() -> dict[str, tuple[Callable[[], object], int]]:
    """Each with the number of messages that one call is."""
    table = encode_table(HEADERS)
    return {
        "receive a publish (3 frames)": (receive_work(Welcoming()), PUBLISHES_PER_READ),
        "decode a publish (3 frames)": (receive_work(Decoding()), PUBLISHES_PER_READ),
        "encode a deliver (3 frames)": (encode_deliver, 1),
        "decode a field table": (lambda: decode_table(table, 0), 1),
        "encode a field table": (lambda: encode_table(HEADERS), 1),
    }
