"""A broker that is nothing but state and store, on a disk in memory; small limits, so that little
traffic pages, rolls and reclaims.
"""

from collections.abc import Iterable

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.paged_list import PagingLimits
from penstock.broker.state import BrokerState
from penstock.broker.store.limits import StoreLimits
from penstock.broker.store.spool import SPOOLED
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.topology import DeclareQueue, VhostCommand
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp091.dialect import Dialect091
from penstock.dialects.amqp091.properties import read_properties
from penstock.dialects.container import Container
from penstock.dialects.decoding import DialectDecoder
from penstock.dialects.login_checker import LoginChecker
from penstock.node.stored import StorageOwner, StoredState
from penstock.storage.memory_disk import MemoryDisk, MemoryFile
from penstock.storage.segment import segment_of
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.limits import Limits
from penstock.world.disk import Disk
from tests.broker.doubles import CountingEntropy

SMALL = StoreLimits(
    segment_bytes_max=2000,
    spool_bytes_max=600,
    reclaim_step_bytes=400,
    reclaim_patience_ms=0,
    reclaim_busy_ms=0,
    paging=PagingLimits(head_count_max=4, head_count_kept=2, head_bytes_max=4096, page_count=3),
)
# Nothing rolls and nothing pages.
ROOMY = StoreLimits()
WALL = 1_700_000_000_000


def message(
    body: bytes,
    *,
    persistent: bool = True,
    key: str = "q",
    exchange: str = "",
    expiration: str | None = None,
    headers: dict[str, object] | None = None,
    priority: int | None = None,
    origin: int = 7,
) -> Message:
    properties = BasicProperties(
        delivery_mode=2 if persistent else 1,
        expiration=expiration,
        headers=headers,
        priority=priority,
    )
    header = encode_header(len(body), properties)
    return Message(Address(exchange, key, b""), read_properties(header), body, origin)


class Broker(StorageOwner):
    """State and store of a node; the test plays connections and time."""

    def __init__(
        self,
        disk: Disk | None = None,
        limits: StoreLimits = SMALL,
        now: int = 1000,
        wall: int = 0,
        is_member: bool = False,
    ) -> None:
        self.is_member = is_member
        self.disk = MemoryDisk() if disk is None else disk
        self.limits = limits
        self.now = now
        self.out: list[tuple[MessageQueue, QueueEntry]] = []
        # How often all deliveries that are out were gone through.
        self.asked_count = 0
        self.safe = 0
        self.failure = ""
        entropy = CountingEntropy()
        self.state = BrokerState(entropy)
        self.state.set_wall_offset((wall or WALL + now) - now)
        container = Container(self.state, entropy, LoginChecker())
        decoder = DialectDecoder(Dialect091(container, Limits(), {}))
        self.state.streams.decoder = decoder
        streams = ReplicatedStreams(self.state.streams) if is_member else None
        self.stored = StoredState(
            self, self.disk, self.state, decoder, entropy, now, limits, streams
        )
        self.store = self.stored.store
        self.journal = self.stored.journal

    # What a storage owner hears.

    def journal_became_durable(self, position: int, now: int) -> None:
        self.safe = position

    def storage_failed(self, reason: str) -> None:
        self.failure = reason

    def unsettled(self) -> list[tuple[MessageQueue, QueueEntry]]:
        self.asked_count += 1
        return self.out

    # What the test does.

    @property
    def vhost(self) -> VirtualHost:
        return self.state.vhost("/")

    def apply(self, command: VhostCommand) -> None:
        self.vhost.apply(command, self.now)

    def declare(
        self, name: str, durable: bool = True, arguments: dict[str, object] | None = None
    ) -> MessageQueue:
        self.apply(DeclareQueue(name, durable=durable, arguments=arguments or {}))
        return self.vhost.queue(name)

    def put(self, name: str, *bodies: bytes, persistent: bool = True) -> None:
        queue = self.vhost.queue(name)
        for body in bodies:
            assert queue.enqueue(message(body, persistent=persistent), self.now)

    def put_everywhere(self, names: Iterable[str], body: bytes) -> Message:
        """One message for several queues, as a fanout exchange would."""
        sent = message(body)
        for name in names:
            assert self.vhost.queue(name).enqueue(sent, self.now)
        return sent

    def get(self, name: str) -> QueueEntry:
        queue = self.vhost.queue(name)
        entry = queue.get(self.now)
        assert entry is not None
        self.out.append((queue, entry))
        return entry

    def settle(self, entry: QueueEntry) -> MessageQueue:
        for index, (queue, known) in enumerate(self.out):
            if known is entry:
                del self.out[index]
                return queue
        raise AssertionError("it is not out")

    def acknowledge(self, entry: QueueEntry) -> None:
        self.settle(entry).acknowledge(entry)

    def take(self, name: str, count: int = 1) -> list[bytes]:
        """Get and acknowledge."""
        bodies = []
        for _ in range(count):
            entry = self.get(name)
            bodies.append(entry.message.body)
            self.acknowledge(entry)
        return bodies

    def drain(self, name: str) -> list[bytes]:
        return self.take(name, self.vhost.queue(name).message_count)

    def tick(self, milliseconds: int = 1) -> None:
        self.now += milliseconds
        touched = self.state.touched[:]
        self.state.touched.clear()
        for queue in touched:
            queue.dispatch(self.now)
        self.stored.end_of_tick(self.now)

    def rest(self) -> None:
        """Tick until there is nothing left to do."""
        for _ in range(10_000):
            # Twice: what a tick brings is looked at by the reclaimer of the next.
            self.tick()
            self.tick()
            if not self.stored.has_work():
                return
        raise AssertionError("it never comes to rest")

    def restarted(self, milliseconds: int = 1, limits: StoreLimits | None = None) -> "Broker":
        """What a broker finds when this one is killed now; this one may go on."""
        assert isinstance(self.disk, MemoryDisk)
        now = 500  # a monotonic clock begins anew
        wall = self.now + self.state.wall.offset_ms + milliseconds
        return Broker(copied(self.disk), limits or self.limits, now, wall, self.is_member)


def copied(disk: MemoryDisk) -> MemoryDisk:
    """The same files on another disk."""
    twin = MemoryDisk()
    for name, file in disk.files.items():
        other = MemoryFile(name)
        other.content += file.content
        twin.files[name] = other
    return twin


def live_pairs(broker: Broker) -> dict[int, int]:
    """Counted from the queues: how many (queue, position) pairs each segment is needed for."""
    locations: list[int] = []
    queues = [queue for vhost in broker.state.vhosts.values() for queue in vhost.queues.values()]
    for queue in queues:
        if queue.journal is None:
            continue
        ready = queue.journal_list()
        for position in ready.positions():
            location = ready.location_of(position)
            if location < 0:
                entry = ready.entry_of(position)
                assert entry is not None
                if not entry.message.properties.persistent:
                    continue
                location = entry.message.location
            elif location & SPOOLED:
                continue  # spooled
            locations.append(location)
    for queue, entry in broker.out:
        if queue.journal is not None and entry.message.properties.persistent:
            locations.append(entry.message.location)
    found: dict[int, int] = {}
    for location in locations:
        found[segment_of(location)] = found.get(segment_of(location), 0) + 1
    return found


def audit(broker: Broker) -> None:
    """After a tick: the store's books agree with what the queues hold, and it can be read."""
    pairs = live_pairs(broker)
    for segment in broker.journal.segments():
        known = broker.store.lives.of(segment).live_count
        assert known == pairs.pop(segment, 0), f"segment {segment}"
    assert not pairs, "something lives in a segment that is gone"
