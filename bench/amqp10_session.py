"""One AMQP 1.0 connection with one session and one link, opened by hand."""

import socket
import struct

from bench import amqp10_frames as f
from bench.session import BrokerRefusedError

TIMEOUT_SECONDS = 30.0
WINDOW = 0x7FFF_FFFF
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
FRAME_MAX = 65_536


class Attached:
    """Held by one lane. `is_receiver` is this side's role."""

    def __init__(self, host: str, port: int, queue: str, *, is_receiver: bool) -> None:
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""
        self._log_in()
        container = f.string(f"bench-{queue}-{is_receiver}")
        self._say(f.composite(f.OPEN, container, f.string("vhost:/"), f.uint(FRAME_MAX)))
        self.expect(f.OPEN)
        windows = (f.uint(0), f.uint(WINDOW), f.uint(WINDOW))
        self._say(f.composite(f.BEGIN, f.NULL, *windows))
        begin = self.expect(f.BEGIN)
        self.remote_window = begin.number(2)
        # The form that both RabbitMQ 3 and later ones understand.
        address = f.string(f"/amq/queue/{queue}")
        source = f.composite(f.SOURCE, address) if is_receiver else f.composite(f.SOURCE)
        target = f.composite(f.TARGET) if is_receiver else f.composite(f.TARGET, address)
        role = f.TRUE if is_receiver else f.FALSE
        fields = [f.string("lane"), f.uint(0), role, f.ubyte(0), f.ubyte(0), source, target]
        if not is_receiver:
            fields += [f.NULL, f.FALSE, f.uint(0)]
        self._say(f.composite(f.ATTACH, *fields))
        self.expect(f.ATTACH)

    def _log_in(self) -> None:
        self.socket.sendall(SASL_HEADER)
        self._expect_header(SASL_HEADER)
        self.expect(f.SASL_MECHANISMS)
        login = f.composite(f.SASL_INIT, f.symbol("PLAIN"), f.binary(b"\0guest\0guest"))
        self.socket.sendall(f.frame(f.SASL, login))
        if self.expect(f.SASL_OUTCOME)[0] != 0:
            raise BrokerRefusedError("login refused")
        self.socket.sendall(AMQP_HEADER)
        self._expect_header(AMQP_HEADER)

    def _say(self, performative: bytes) -> None:
        self.socket.sendall(f.frame(f.AMQP, performative))

    def _need(self, size: int) -> None:
        while len(self._unread) < size:
            data = self.socket.recv(65_536)
            if not data:
                raise BrokerRefusedError("the broker closed the connection")
            self._unread += data

    def _expect_header(self, header: bytes) -> None:
        self._need(8)
        if self._unread[:8] != header:
            raise BrokerRefusedError(f"answered {self._unread[:8]!r} to an AMQP 1.0 header")
        self._unread = self._unread[8:]

    def expect(self, code: int) -> f.Performative:
        """The next performative must be this one; heartbeats and early flows are passed over."""
        while True:
            self._need(8)
            (size,) = struct.unpack_from(">I", self._unread)
            self._need(size)
            body = self._unread[8:size]
            if body:
                found = f.Performative(body)
                if found.code == code:
                    self._unread = self._unread[size:]
                    return found
                if found.code != f.FLOW:
                    raise BrokerRefusedError(f"{found.code:#x} {body[:300]!r}, not {code:#x}")
            self._unread = self._unread[size:]

    def take_unread(self) -> bytes:
        unread, self._unread = self._unread, b""
        return unread
