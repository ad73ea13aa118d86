"""One blocking AMQP 0-9-1 connection: handshake, one channel, topology.

Used for everything that is not measured. The measured loops take over its socket afterwards.
"""

import socket
import struct
from collections.abc import Mapping, Sequence

from bench import frames
from bench.secure_socket import SecureSocket

# The default of every broker here; using one number keeps the work equal.
FRAME_SIZE_MAX = 131_072

# Long enough for RabbitMQ to declare ten thousand queues behind one answer on a busy machine.
ANSWER_SECONDS_MAX = 120.0

PASSIVE_BIT = 0x01
DURABLE_BIT = 0x02
DECLARE_NO_WAIT_BIT = 0x10
DELETE_NO_WAIT_BIT = 0x04
AUTOMATIC_ACK_BIT = 0x02
CONSUME_NO_WAIT_BIT = 0x08
NO_ARGUMENTS = frames.field_table({})


class BrokerRefusedError(Exception):
    """The broker closed the channel or the connection; the text is the broker's own."""


class Session:
    """Held by the loader and by each load process; owns its socket until `close`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        channel: bool = True,
        authority: str = "",
        seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> None:
        """With the file of an authority it speaks TLS. No answer takes longer than `seconds_max`."""
        self.socket = socket.create_connection((host, port), timeout=seconds_max)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        try:
            if authority:
                self.socket = SecureSocket(self.socket, authority, host)
            self._open(channel=channel)
        except BaseException:
            self.socket.close()
            raise

    def _open(self, *, channel: bool) -> None:
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self.expect(frames.CONNECTION_START)
        login = frames.field_table({}) + frames.short_string("PLAIN")
        login += frames.long_string(b"\0guest\0guest") + frames.short_string("en_US")
        self.socket.sendall(frames.method(0, frames.CONNECTION_START_OK, login))
        channel_max, frame_max, _ = struct.unpack(">HIH", self.expect(frames.CONNECTION_TUNE))
        frame_max = min(frame_max or FRAME_SIZE_MAX, FRAME_SIZE_MAX)
        # No heartbeats: the consumer counts deliveries by bytes, so nothing else may arrive.
        tuned = struct.pack(">HIH", channel_max, frame_max, 0)
        self.socket.sendall(
            frames.method(0, frames.CONNECTION_TUNE_OK, tuned)
            + frames.method(0, frames.CONNECTION_OPEN, frames.short_string("/") + b"\0\0")
        )
        self.expect(frames.CONNECTION_OPEN_OK)
        if channel:
            self.call(frames.CHANNEL_OPEN, b"\0", frames.CHANNEL_OPEN_OK)

    def read_frame(self) -> tuple[int, bytes]:
        while True:
            if len(self._received) >= frames.FRAME_OVERHEAD:
                kind, _, size = struct.unpack(">BHI", self._received[:7])
                if len(self._received) >= size + frames.FRAME_OVERHEAD:
                    payload = self._received[7 : 7 + size]
                    self._received = self._received[size + frames.FRAME_OVERHEAD :]
                    return kind, payload
            data = self.socket.recv(1 << 16)
            if not data:
                raise BrokerRefusedError("the broker closed the socket")
            self._received += data

    def take_unread(self) -> bytes:
        """Input after the last answer, for the code that takes over the socket."""
        unread, self._received = self._received, b""
        return unread

    def expect(self, wanted: frames.MethodId) -> bytes:
        """Arguments of the next `wanted` method; deliveries and other methods before it are
        dropped.
        """
        while True:
            kind, payload = self.read_frame()
            if kind != frames.FRAME_METHOD:
                continue
            class_id, method_id = struct.unpack(">HH", payload[:4])
            if (class_id, method_id) == wanted:
                return payload[4:]
            if (class_id, method_id) in (frames.CONNECTION_CLOSE, frames.CHANNEL_CLOSE):
                code, length = struct.unpack(">HB", payload[4:7])
                raise BrokerRefusedError(
                    f"{code} {payload[7 : 7 + length].decode(errors='replace')}"
                )

    def call(self, method: frames.MethodId, arguments: bytes, answer: frames.MethodId) -> bytes:
        self.socket.sendall(frames.method(1, method, arguments))
        return self.expect(answer)

    def send_all(
        self,
        method: frames.MethodId,
        silent: list[bytes],
        last: bytes,
        answer: frames.MethodId,
    ) -> None:
        """Many no-wait methods and one answered one: ten thousand declares in one turn, not as many."""
        self.socket.sendall(b"".join(frames.method(1, method, arguments) for arguments in silent))
        self.call(method, last, answer)

    def declare_queues(
        self,
        queues: Sequence[str],
        *,
        durable: bool,
        queue_type: str = "",
        priorities_max: int = 0,
    ) -> None:
        heads = [b"\0\0" + frames.short_string(queue) for queue in queues]
        bits = DURABLE_BIT if durable else 0
        said: dict[str, int | str] = {}
        if queue_type:
            said["x-queue-type"] = queue_type
        if priorities_max:
            said["x-max-priority"] = priorities_max
        arguments = frames.field_table(said)
        silent = [head + bytes([bits | DECLARE_NO_WAIT_BIT]) + arguments for head in heads[:-1]]
        last = heads[-1] + bytes([bits]) + arguments
        self.send_all(frames.QUEUE_DECLARE, silent, last, frames.QUEUE_DECLARE_OK)

    def ready_count(self, queue: str) -> int:
        """Ready messages in the queue, without unacknowledged ones."""
        name = frames.short_string(queue)
        declare = b"\0\0" + name + bytes([PASSIVE_BIT]) + NO_ARGUMENTS
        answer = self.call(frames.QUEUE_DECLARE, declare, frames.QUEUE_DECLARE_OK)
        (count,) = struct.unpack_from(">I", answer, len(name))
        return int(count)

    def delete_queues(self, queues: Sequence[str]) -> None:
        heads = [b"\0\0" + frames.short_string(queue) for queue in queues]
        silent = [head + bytes([DELETE_NO_WAIT_BIT]) for head in heads[:-1]]
        self.send_all(frames.QUEUE_DELETE, silent, heads[-1] + b"\0", frames.QUEUE_DELETE_OK)

    def declare_exchange(self, exchange: str, kind: str) -> None:
        name = frames.short_string(exchange)
        declare = b"\0\0" + name + frames.short_string(kind) + b"\0" + NO_ARGUMENTS
        self.call(frames.EXCHANGE_DECLARE, declare, frames.EXCHANGE_DECLARE_OK)

    def bind(self, queue: str, exchange: str, key: str) -> None:
        names = b"".join(frames.short_string(name) for name in (queue, exchange, key))
        self.call(frames.QUEUE_BIND, b"\0\0" + names + b"\0" + NO_ARGUMENTS, frames.QUEUE_BIND_OK)

    def delete_exchange(self, exchange: str) -> None:
        delete = b"\0\0" + frames.short_string(exchange) + b"\0"
        self.call(frames.EXCHANGE_DELETE, delete, frames.EXCHANGE_DELETE_OK)

    def consume(
        self,
        queues: Sequence[str],
        *,
        automatic_acks: bool,
        prefetch: int,
        arguments: Mapping[str, str],
    ) -> None:
        """Consumer tags are of equal length, so that all deliveries are."""
        if not automatic_acks:
            qos = struct.pack(">IHB", 0, prefetch, 0)
            self.call(frames.BASIC_QOS, qos, frames.BASIC_QOS_OK)
        bits = AUTOMATIC_ACK_BIT if automatic_acks else 0
        heads = [
            b"\0\0" + frames.short_string(queue) + frames.short_string(f"{index:06d}")
            for index, queue in enumerate(queues)
        ]
        table = frames.field_table(arguments)
        silent = [head + bytes([bits | CONSUME_NO_WAIT_BIT]) + table for head in heads[:-1]]
        last = heads[-1] + bytes([bits]) + table
        self.send_all(frames.BASIC_CONSUME, silent, last, frames.BASIC_CONSUME_OK)

    def close(self) -> None:
        self.socket.close()
