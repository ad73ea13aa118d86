"""Named doubles for wire tests: a transport that keeps what is written, listeners that keep what
they are told and play a plain handshake, and a client and a server wired to each other.
"""

from __future__ import annotations

from random import Random

from penstock.formats.amqp091_frames import METHOD_FRAME, PROTOCOL_HEADER, encode_frame
from penstock.wire.amqp091.connection import Connection
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault, Fault
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.listener import ConnectionListener
from penstock.wire.amqp091.methods_generated import (
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    decode_method,
)
from penstock.wire.amqp091.states import ConnectionState, Role
from penstock.wire.outgoing import Outgoing
from penstock.wire.sasl import plain_response
from penstock.world.network import Transport


class KeptTransport(Transport):
    def __init__(self) -> None:
        self.written = b""
        self.closed = False
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        raise AssertionError("the wire does not pause reading")

    def resume_reading(self) -> None:
        raise AssertionError("the wire does not resume reading")


class KeepingListener(ConnectionListener):
    """Keeps every call as a tuple. `raises` is raised by the next call that may raise."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.raises: Exception | None = None

    def method_received(self, channel: int, method: Method) -> None:
        self.calls.append(("method", channel, method))
        self._raise()

    def content_received(self, channel: int, method: bytes, header: bytes, body: bytes) -> None:
        self.calls.append(("content", channel, method, header, body))
        self._raise()

    def acknowledged(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        self.calls.append(("ack", channel, delivery_tag, multiple))
        self._raise()

    def channel_ended(self, channel: int, fault: ChannelFault | None) -> None:
        self.calls.append(("channel_ended", channel, described(fault)))

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        self.calls.append(("connection_ended", described(fault)))

    def named(self, name: str) -> list[tuple[object, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    def methods(self) -> list[Method]:
        return [call[2] for call in self.calls if isinstance(call[-1], Method)]  # type: ignore[misc]

    def _raise(self) -> None:
        error, self.raises = self.raises, None
        if error is not None:
            raise error


def described(fault: Fault | None) -> tuple[int, str, bool] | None:
    return None if fault is None else (fault.code, fault.text, fault.from_peer)


class GreetingServer(KeepingListener):
    """Lets everybody in and opens every channel."""

    connection: Connection

    def protocol_agreed(self) -> None:
        self._raise()
        self.connection.send_method(0, ConnectionStart(0, 9, {}, b"PLAIN", b"en_US"))

    def method_received(self, channel: int, method: Method) -> None:
        super().method_received(channel, method)
        limits = self.connection.limits
        if isinstance(method, ConnectionStartOk):
            tune = ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat_seconds)
            self.connection.send_method(0, tune)
        elif isinstance(method, ConnectionTuneOk):
            self.connection.tuned(method.channel_max, method.frame_max, method.heartbeat)
        elif isinstance(method, ConnectionOpen):
            self.connection.send_method(0, ConnectionOpenOk())
        elif isinstance(method, ChannelOpen):
            self.connection.send_method(channel, ChannelOpenOk())


class GreetingClient(KeepingListener):
    """Logs in and takes what the server offers, or less."""

    connection: Connection

    def method_received(self, channel: int, method: Method) -> None:
        super().method_received(channel, method)
        connection = self.connection
        if isinstance(method, ConnectionStart):
            response = plain_response("guest", "guest")
            connection.send_method(0, ConnectionStartOk({}, "PLAIN", response, "en_US"))
        elif isinstance(method, ConnectionTune):
            channel_max = min(method.channel_max, connection.limits.channel_max)
            frame_max = min(method.frame_max, connection.limits.frame_max)
            connection.tuned(channel_max, frame_max, method.heartbeat)
            connection.send_method(0, ConnectionTuneOk(channel_max, frame_max, method.heartbeat))
            connection.send_method(0, ConnectionOpen("/"))


class Machine:
    """One connection with its listener and transport."""

    def __init__(self, role: Role, limits: Limits | None = None) -> None:
        self.transport = KeptTransport()
        self.flush_list: list[Outgoing] = []
        self.outgoing = Outgoing(self.flush_list, self.transport)
        self.listener = GreetingServer() if role is Role.SERVER else GreetingClient()
        self.connection = Connection(role, self.listener, self.outgoing, limits or Limits())
        self.listener.connection = self.connection

    def receive(self, data: bytes, now: int = 1) -> None:
        self.connection.receive(data, now)

    def tick(self, now: int) -> None:
        self.connection.tick(now)

    def state(self) -> ConnectionState:
        # A call, so that a type checker does not take one state for the next.
        return self.connection.state

    def hung_up(self) -> bool:
        return self.transport.closed

    def ended_with(self) -> tuple[int, str]:
        """Code and text of the fault the listener was told; fails when there was none."""
        ((fault,),) = self.listener.named("connection_ended")
        assert isinstance(fault, tuple)
        return fault[0], fault[1]

    def flush(self) -> bytes:
        """What the machine says now, as its world would write it."""
        for outgoing in self.flush_list:
            outgoing.flush()
        self.flush_list.clear()
        written, self.transport.written = self.transport.written, b""
        return written

    def said(self) -> list[tuple[int, Method]]:
        """The method frames it says now, decoded."""
        return decode_frames(self.flush())

    def closed_with(self) -> tuple[int, str]:
        """Code and text of the close it says; fails when there is not exactly one."""
        closes = [m for _, m in self.said() if isinstance(m, (ChannelClose, ConnectionClose))]
        assert len(closes) == 1, closes
        return closes[0].reply_code, closes[0].reply_text


def method_frame(channel: int, method: Method) -> bytes:
    return encode_frame(METHOD_FRAME, channel, method.encode())


def decode_frames(data: bytes) -> list[tuple[int, Method]]:
    methods = []
    while data:
        if data.startswith(PROTOCOL_HEADER):
            data = data[8:]
            continue
        size = int.from_bytes(data[3:7], "big")
        assert data[7 + size] == 0xCE
        if data[0] == METHOD_FRAME:
            methods.append((int.from_bytes(data[1:3], "big"), decode_method(data[7 : 7 + size])))
        data = data[8 + size :]
    return methods


def handshake(channel_max: int = 2047, frame_max: int = 131_072, heartbeat: int = 60) -> bytes:
    """Everything a client says up to an open connection with channel 1."""
    return (
        PROTOCOL_HEADER
        + method_frame(0, ConnectionStartOk({}, "PLAIN", b"\x00guest\x00guest", "en_US"))
        + method_frame(0, ConnectionTuneOk(channel_max, frame_max, heartbeat))
        + method_frame(0, ConnectionOpen("/"))
        + method_frame(1, ChannelOpen())
    )


def open_server(limits: Limits | None = None) -> Machine:
    """A server whose connection and channel 1 are open; nothing it said is pending."""
    machine = Machine(Role.SERVER, limits)
    chosen = machine.connection.limits
    machine.receive(handshake(chosen.channel_max, chosen.frame_max, chosen.heartbeat_seconds))
    machine.flush()
    machine.listener.calls.clear()
    assert machine.connection.state is ConnectionState.OPEN
    return machine


class Pair:
    """A client and a server; bytes move between them in pieces that a seed chooses."""

    def __init__(self, seed: int | None = None, limits: Limits | None = None) -> None:
        self.client = Machine(Role.CLIENT, limits)
        self.server = Machine(Role.SERVER, limits)
        self._random = None if seed is None else Random(seed)
        # All that was said, for comparison between splits.
        self.client_said = b""
        self.server_said = b""

    def connect(self) -> None:
        self.client.connection.start()
        self.transfer()
        self.client.connection.open_channel(1)
        self.transfer()

    def transfer(self) -> None:
        """Until both are silent."""
        while True:
            from_client = self.client.flush()
            from_server = self.server.flush()
            if not from_client and not from_server:
                return
            self.client_said += from_client
            self.server_said += from_server
            self._deliver(self.server, from_client)
            self._deliver(self.client, from_server)

    def _deliver(self, target: Machine, data: bytes) -> None:
        position = 0
        while position < len(data):
            size = len(data)
            if self._random is not None:
                # Mostly small pieces, now and then a large one.
                size = self._random.choice((1, 2, 3, 7, 8, 20, 150, 5000))
            target.receive(data[position : position + size])
            position += size
