"""A bare AMQP 0-9-1 connection for what a well-behaved client library cannot say.

Well-formed methods are written and every answer is read with pika's own codec; malformed
frames are written byte by byte with `frame`. Nothing here reacts by itself: a test sees each
frame the broker sent, in order, except heartbeats where it asks for a method.
"""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Self

import pika.frame
from pika import BasicProperties, spec

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_END = 0xCE
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8

# A local broker answers in milliseconds; a loaded two-core machine may need many seconds.
ANSWER_SECONDS = 30.0

CLIENT_PROPERTIES: dict[str, object] = {
    "product": "behaviour suite",
    "capabilities": {
        "authentication_failure_close": True,
        "basic.nack": True,
        "connection.blocked": True,
        "consumer_cancel_notify": True,
        "publisher_confirms": True,
    },
}


class BrokerSilentError(AssertionError):
    """The broker said nothing, or hung up, where the test expected a frame."""


def frame(kind: int, channel: int, payload: bytes, end: int = FRAME_END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def method_payload(class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return struct.pack(">HH", class_id, method_id) + arguments


def header_payload(body_size: int, class_id: int = 60, weight: int = 0, flags: int = 0) -> bytes:
    return struct.pack(">HHQH", class_id, weight, body_size, flags)


def plain(user: str, password: str) -> str:
    return f"\0{user}\0{password}"


def amqplain(user: str, password: str) -> str:
    """AMQPLAIN's response is a field table without its length."""
    return "".join(
        chr(len(key)) + key + "S" + struct.pack(">I", len(value)).decode("latin-1") + value
        for key, value in (("LOGIN", user), ("PASSWORD", password))
    )


class RawConnection:
    """One socket to the broker, speaking only what the test says. Held by a single test."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=ANSWER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.server_properties: dict[str, object] = {}
        self.tune: spec.Connection.Tune | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, *chunks: bytes) -> None:
        self.socket.sendall(b"".join(chunks))

    def send_method(self, channel: int, method: object) -> None:
        self.send(pika.frame.Method(channel, method).marshal())

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        body: bytes = b"",
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        publish = spec.Basic.Publish(
            exchange=exchange, routing_key=routing_key, mandatory=mandatory, immediate=immediate
        )
        head = pika.frame.Header(channel, len(body), properties or BasicProperties()).marshal()
        tail = frame(BODY, channel, body) if body else b""
        self.send(pika.frame.Method(channel, publish).marshal(), head, tail)

    def read_bytes(self, count: int) -> bytes:
        while len(self.received) < count:
            self._fill(time.monotonic() + ANSWER_SECONDS)
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def read_frame(self, seconds: float = ANSWER_SECONDS) -> pika.frame.Frame:
        deadline = time.monotonic() + seconds
        while True:
            consumed, decoded = pika.frame.decode_frame(self.received)
            if consumed:
                self.received = self.received[consumed:]
                return decoded
            self._fill(deadline)

    def expect(self, wanted: type, channel: int | None = None) -> object:
        """Return the next method, which must be a `wanted`; heartbeats are passed over."""
        received = self.read_frame()
        while isinstance(received, pika.frame.Heartbeat):
            received = self.read_frame()
        assert isinstance(received, pika.frame.Method), f"expected {wanted}, got {received}"
        assert isinstance(received.method, wanted), f"expected {wanted}, got {received.method}"
        if channel is not None:
            assert received.channel_number == channel
        return received.method

    def call(self, channel: int, method: object, answer: type) -> object:
        self.send_method(channel, method)
        return self.expect(answer, channel)

    def is_hung_up(self, seconds: float = ANSWER_SECONDS) -> bool:
        """Whether the broker closes the socket in time, whatever else it still sends."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                self.received = b""
                self._fill(deadline)
        except BrokerSilentError as silence:
            return "hung up" in str(silence)

    def start(self) -> spec.Connection.Start:
        self.send(PROTOCOL_HEADER)
        start = self.expect(spec.Connection.Start, 0)
        assert isinstance(start, spec.Connection.Start)
        self.server_properties = start.server_properties
        return start

    def login(
        self,
        response: str,
        mechanism: str = "PLAIN",
        client_properties: dict[str, object] | None = None,
    ) -> None:
        self.start()
        properties = CLIENT_PROPERTIES if client_properties is None else client_properties
        self.send_method(0, spec.Connection.StartOk(properties, mechanism, response, "en_US"))

    def open(
        self,
        user: str,
        password: str,
        vhost: str,
        *,
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
        client_properties: dict[str, object] | None = None,
    ) -> RawConnection:
        """Shake hands to the end; what is not named is taken as the broker proposes it."""
        self.login(plain(user, password), client_properties=client_properties)
        tune = self.expect(spec.Connection.Tune, 0)
        assert isinstance(tune, spec.Connection.Tune)
        self.tune = tune
        chosen_channel_max = tune.channel_max if channel_max is None else channel_max
        chosen_frame_max = tune.frame_max if frame_max is None else frame_max
        self.send_method(0, spec.Connection.TuneOk(chosen_channel_max, chosen_frame_max, heartbeat))
        self.call(0, spec.Connection.Open(vhost), spec.Connection.OpenOk)
        return self

    def open_channel(self, channel: int = 1) -> None:
        self.call(channel, spec.Channel.Open(), spec.Channel.OpenOk)

    def _fill(self, deadline: float) -> None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise BrokerSilentError("nothing came in time")
        self.socket.settimeout(remaining)
        try:
            chunk = self.socket.recv(65536)
        except TimeoutError:
            raise BrokerSilentError("nothing came in time") from None
        except ConnectionError:
            chunk = b""
        if not chunk:
            raise BrokerSilentError("the broker hung up")
        self.received += chunk
