"""A broker just good enough for the bench's loader, with the habits and faults a test asks for."""

import enum
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from bench import frames
from bench.mixed import matches

ANSWERS: dict[frames.MethodId, tuple[frames.MethodId, bytes]] = {
    frames.CONNECTION_START_OK: (frames.CONNECTION_TUNE, struct.pack(">HIH", 2047, 131_072, 60)),
    frames.CONNECTION_OPEN: (frames.CONNECTION_OPEN_OK, b"\0"),
    frames.CHANNEL_OPEN: (frames.CHANNEL_OPEN_OK, b"\0\0\0\0"),
    frames.EXCHANGE_DECLARE: (frames.EXCHANGE_DECLARE_OK, b""),
    frames.EXCHANGE_DELETE: (frames.EXCHANGE_DELETE_OK, b""),
    frames.BASIC_QOS: (frames.BASIC_QOS_OK, b""),
    frames.CONFIRM_SELECT: (frames.CONFIRM_SELECT_OK, b""),
}

# With these arguments the fake takes a queue for a stream.
FROM_THE_FIRST = {"x-stream-offset": "first"}


class Confirming(enum.Enum):
    """How a read's worth of publishes is confirmed."""

    SINGLE = "one by one"
    REVERSED = "one by one, the last first"
    MULTIPLE = "all at once"
    MIXED = "the last by itself, then the ones before it at once"


def strings(arguments: bytes, at: int, count: int) -> list[str]:
    found = []
    for _ in range(count):
        size = arguments[at]
        found.append(arguments[at + 1 : at + 1 + size].decode())
        at += 1 + size
    return found


def with_offset(content: bytes, offset: int) -> bytes:
    """The same content with the header that deliveries of a stream have."""
    (size,) = struct.unpack_from(">I", content, 3)
    header, body = content[7 : 7 + size], content[size + frames.FRAME_OVERHEAD :]
    (flags,) = struct.unpack_from(">H", header, 12)
    assert flags == frames.PROPERTY_DELIVERY_MODE
    table = frames.short_string("x-stream-offset") + b"l" + struct.pack(">q", offset)
    header = (
        header[:12]
        + struct.pack(">H", flags | frames.PROPERTY_HEADERS)
        + frames.long_string(table)
        + header[14:]
    )
    return frames.frame(frames.FRAME_HEADER, 1, header) + body


class FakeBroker:
    """A context manager; serves each connection in a thread until it is left."""

    def __init__(
        self,
        confirming: Confirming = Confirming.MULTIPLE,
        *,
        losing: int = 0,
        skipping_tag: int = 0,
        spoiling: int = 0,
        misrouting: bool = False,
        skipping_offset: int = 0,
        ignoring_offsets: bool = False,
    ) -> None:
        self.confirming = confirming
        # The delivery with this number is not made, or made under the tag after its own; from the
        # last of the three on, bodies are spoilt.
        self.losing = losing
        self.skipping_tag = skipping_tag
        self.spoiling = spoiling
        # Everything published to a direct exchange reaches the first queue bound there.
        self.misrouting = misrouting
        # From this delivery of a stream on, offsets are one too high.
        self.skipping_offset = skipping_offset
        self.ignoring_offsets = ignoring_offsets
        self.lock = threading.Lock()
        self.published = 0
        self.queues: set[str] = set()
        # Arguments of every queue.declare.
        self.declared: list[bytes] = []
        # By exchange: the queue and the key of each binding.
        self.bindings: dict[str, list[tuple[str, str]]] = {}
        # Messages of queues that nobody consumes yet.
        self.waiting: dict[str, list[tuple[str, str, bytes]]] = {}
        self.consumers: dict[str, tuple[Consumer, str]] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._sockets:
            link.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            link.settimeout(30)
            self._sockets.append(link)
            thread = threading.Thread(target=Peer(self, link).serve)
            self._threads.append(thread)
            thread.start()

    def route(self, exchange: str, routing_key: str) -> list[str]:
        if not exchange:
            return [routing_key]
        bound = self.bindings.get(exchange, [])
        if exchange.endswith(".topic"):
            words = routing_key.split(".")
            bound = [(queue, key) for queue, key in bound if matches(key.split("."), words)]
        elif self.misrouting:
            bound = bound[:1]
        elif exchange.endswith(".direct"):
            bound = [(queue, key) for queue, key in bound if key == routing_key]
        return list(dict.fromkeys(queue for queue, _ in bound))


class Consumer:
    """One consuming channel; tags run over all its queues."""

    def __init__(self, broker: FakeBroker, link: socket.socket) -> None:
        self.broker = broker
        self.link = link
        self.made = 0
        self.tag = 0
        self.streaming = False

    def delivery(self, consumer_tag: str, exchange: str, routing_key: str, content: bytes) -> bytes:
        self.made += 1
        if self.made == self.broker.losing:
            return b""
        if self.streaming and not self.broker.ignoring_offsets:
            skipped = 0 < self.broker.skipping_offset <= self.made
            content = with_offset(content, self.made if skipped else self.made - 1)
        if 0 < self.broker.spoiling <= self.made:
            content = content.replace(b"xx", b"xy")
        self.tag += 2 if self.made == self.broker.skipping_tag else 1
        arguments = frames.short_string(consumer_tag) + struct.pack(">QB", self.tag, 0)
        arguments += frames.short_string(exchange) + frames.short_string(routing_key)
        return frames.method(1, frames.BASIC_DELIVER, arguments) + content


class Peer:
    """One connection as the broker sees it."""

    def __init__(self, broker: FakeBroker, link: socket.socket) -> None:
        self.broker = broker
        self.link = link
        self.confirms = False
        self.published = 0
        self.confirmed = 0
        self.consumer = Consumer(broker, link)
        self.target = ("", "")
        self.header = b""
        self.verbs: dict[frames.MethodId, Callable[[bytes], None]] = {
            frames.QUEUE_DECLARE: self.declare,
            frames.QUEUE_DELETE: self.delete,
            frames.QUEUE_BIND: self.bind,
            frames.BASIC_CONSUME: self.consume,
            frames.BASIC_PUBLISH: self.publish,
            frames.BASIC_ACK: lambda _: None,
            frames.CONNECTION_TUNE_OK: lambda _: None,
        }

    def serve(self) -> None:
        buffer = b""
        greeted = False
        try:
            while data := self.link.recv(1 << 16):
                buffer += data
                if not greeted and len(buffer) >= 8:
                    greeted, buffer = True, buffer[8:]
                    start = b"\0\x09" + frames.field_table({})
                    start += frames.long_string(b"PLAIN") + frames.long_string(b"en_US")
                    self.link.sendall(frames.method(0, frames.CONNECTION_START, start))
                buffer = self.read_frames(buffer)
                self.confirm()
        except OSError:
            # The loader goes without a good-bye; so do we when the test ends.
            pass
        finally:
            self.link.close()

    def read_frames(self, buffer: bytes) -> bytes:
        at = 0
        while len(buffer) - at >= frames.FRAME_OVERHEAD:
            kind, channel, size = struct.unpack_from(">BHI", buffer, at)
            end = at + size + frames.FRAME_OVERHEAD
            if end > len(buffer):
                break
            self.frame(kind, channel, buffer[at + 7 : end - 1])
            at = end
        return buffer[at:]

    def frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == frames.FRAME_HEADER:
            self.header = payload
        elif kind == frames.FRAME_BODY:
            self.publish_content(payload)
        else:
            class_id, method_id = struct.unpack_from(">HH", payload)
            method = (class_id, method_id)
            if method in ANSWERS:
                self.confirms |= method == frames.CONFIRM_SELECT
                self.link.sendall(frames.method(channel, *ANSWERS[method]))
            else:
                self.verbs[method](payload[4:])

    def declare(self, arguments: bytes) -> None:
        self.broker.declared.append(arguments)
        (queue,) = strings(arguments, 2, 1)
        self.broker.queues.add(queue)
        if not arguments[3 + len(queue)] & 0x10:
            waiting = len(self.broker.waiting.get(queue, []))
            answer = frames.short_string(queue) + struct.pack(">II", waiting, 0)
            self.link.sendall(frames.method(1, frames.QUEUE_DECLARE_OK, answer))

    def delete(self, arguments: bytes) -> None:
        (queue,) = strings(arguments, 2, 1)
        self.broker.queues.discard(queue)
        self.broker.consumers.pop(queue, None)
        if not arguments[3 + len(queue)] & 0x04:
            self.link.sendall(frames.method(1, frames.QUEUE_DELETE_OK, bytes(4)))

    def bind(self, arguments: bytes) -> None:
        queue, exchange, key = strings(arguments, 2, 3)
        self.broker.bindings.setdefault(exchange, []).append((queue, key))
        self.link.sendall(frames.method(1, frames.QUEUE_BIND_OK))

    def consume(self, arguments: bytes) -> None:
        queue, tag = strings(arguments, 2, 2)
        # The answer and what waits leave in one write, as a quick broker's would.
        answer = b""
        if not arguments[4 + len(queue) + len(tag)] & 0x08:
            answer = frames.method(1, frames.BASIC_CONSUME_OK, frames.short_string(tag))
        self.consumer.streaming = arguments.endswith(frames.field_table(FROM_THE_FIRST))
        with self.broker.lock:
            self.broker.consumers[queue] = (self.consumer, tag)
            for message in self.broker.waiting.pop(queue, []):
                answer += self.consumer.delivery(tag, *message)
        self.link.sendall(answer)

    def publish(self, arguments: bytes) -> None:
        exchange, routing_key = strings(arguments, 2, 2)
        self.target = (exchange, routing_key)

    def publish_content(self, body: bytes) -> None:
        content = frames.frame(frames.FRAME_HEADER, 1, self.header)
        content += frames.frame(frames.FRAME_BODY, 1, body)
        with self.broker.lock:
            for queue in self.broker.route(*self.target):
                if queue in self.broker.consumers:
                    consumer, tag = self.broker.consumers[queue]
                    consumer.link.sendall(consumer.delivery(tag, *self.target, content))
                else:
                    waiting = self.broker.waiting.setdefault(queue, [])
                    waiting.append((*self.target, content))
            self.broker.published += 1
        self.published += 1

    def confirm(self) -> None:
        first, last = self.confirmed + 1, self.published
        if not self.confirms or first > last:
            return
        self.confirmed = last
        tags = {
            Confirming.SINGLE: [(tag, False) for tag in range(first, last + 1)],
            Confirming.REVERSED: [(tag, False) for tag in range(last, first - 1, -1)],
            Confirming.MULTIPLE: [(last, True)],
            Confirming.MIXED: [(last, False), (max(first, last - 1), True)],
        }[self.broker.confirming]
        self.link.sendall(b"".join(frames.acknowledge(tag, multiple=m) for tag, m in tags))
