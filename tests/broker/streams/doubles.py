"""A virtual host with streams on a disk in memory, messages for them, and consumers."""

import json

from penstock.broker.consumer import Consumer
from penstock.broker.entry import QueueEntry
from penstock.broker.message import NO_EXPIRATION, Address, Message, MessageDecoder, Properties
from penstock.broker.queues.reading import Reading as ReadRequest
from penstock.broker.queues.reading import Start, StartKind
from penstock.broker.shared_services import SharedServices
from penstock.broker.streams.filters import StreamFilter
from penstock.broker.streams.stream import Stream
from penstock.broker.topology import DeclareQueue
from penstock.broker.vhost import VirtualHost
from penstock.storage.memory_disk import MemoryDisk

FIRST = Start(StartKind.FIRST, 0)
NEXT = Start(StartKind.NEXT, 0)
CURSOR = Start(StartKind.CURSOR, 0)


class TextProperties(Properties):
    """Headers as JSON stand for any dialect's octets."""

    def __init__(self, octets: bytes) -> None:
        super().__init__(False, 0, NO_EXPIRATION)
        self._octets = octets

    def headers(self) -> dict[str, object]:
        headers: dict[str, object] = json.loads(self._octets)
        return headers

    def encoded(self) -> bytes:
        return self._octets


class TextDecoder(MessageDecoder):
    def __init__(self) -> None:
        self.decoded = 0

    def decode(self, exchange: str, routing_key: str, header: bytes, body: bytes) -> Message:
        self.decoded += 1
        return Message(Address(exchange, routing_key, b""), TextProperties(header), body, -1)


class Reading(Consumer):
    """Takes while it has credit and remembers bodies and offsets."""

    def __init__(self, credit: int = 1000) -> None:
        super().__init__("tag", 0, False, False)
        self.credit = credit
        self.bodies: list[bytes] = []
        self.keys: list[str] = []
        self.entries: list[QueueEntry] = []
        self.batches: list[int] = []
        self.heard_cancel = False

    @property
    def offsets(self) -> list[int]:
        return [entry.position for entry in self.entries]

    def can_take(self) -> bool:
        return self.credit > 0

    def credit_count(self) -> int:
        return self.credit

    def take_many(self, entries: list[QueueEntry]) -> None:
        self.credit -= len(entries)
        self.batches.append(len(entries))
        for entry in entries:
            self.entries.append(entry)
            self.bodies.append(entry.message.body)
            self.keys.append(entry.message.address.routing_key)

    def cancelled(self) -> None:
        self.heard_cancel = True


class Host:
    """One virtual host and the ticks that drive it."""

    def __init__(self, disk: MemoryDisk | None = None, *, is_flushed: bool = False) -> None:
        self.disk = disk or MemoryDisk()
        self.decoder = TextDecoder()
        shared = SharedServices()
        self.store = shared.streams
        self.store.disk = self.disk
        self.store.decoder = self.decoder
        self.store.is_flushed = is_flushed
        self.vhost = VirtualHost("/", shared)
        self.now = 0
        self.position = 0

    def declare(self, name: str = "s", **arguments: object) -> Stream:
        given: dict[str, object] = {"x-queue-type": "stream"}
        for key, value in arguments.items():
            given["x-" + key.replace("_", "-")] = value
        self.vhost.apply(DeclareQueue(name, durable=True, arguments=given), self.now)
        return self.stream(name)

    def stream(self, name: str = "s") -> Stream:
        stream = self.vhost.queues[name]
        assert isinstance(stream, Stream)
        return stream

    def tick(self) -> None:
        """What a node does at the end of one, without the flush."""
        touched = self.vhost.touched[:]
        self.vhost.touched.clear()
        for queue in touched:
            queue.dispatch(self.now)

    def flush(self) -> None:
        """Ask for a flush and hear of it."""
        self.position += 1
        self.store.take_dirty(self.position)
        self.store.became_durable(self.position, self.now)

    def pass_time(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.vhost.timers.fire_due(self.now)
        self.tick()


def message(body: bytes, key: str = "key", **headers: object) -> Message:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Message(Address("ex", key, b""), TextProperties(json.dumps(named).encode()), body, 7)


def put(host: Host, *bodies: bytes, key: str = "key", name: str = "s") -> None:
    """One tick's messages."""
    for body in bodies:
        assert host.stream(name).enqueue(message(body, key), host.now)
    host.tick()


def read(
    stream: Stream,
    start: Start = FIRST,
    *,
    credit: int = 1000,
    cursor: str = "",
    wanted: StreamFilter | None = None,
    now: int = 0,
) -> Reading:
    consumer = Reading(credit)
    stream.subscribe(consumer, ReadRequest(start, cursor, wanted), now)
    return consumer
