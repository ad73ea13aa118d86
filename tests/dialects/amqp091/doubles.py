"""A transport that keeps what was written, for connections that have no socket; and what one channel's
modules need around them: an open wire, queues and consumers that remember what they were told.
"""

from __future__ import annotations

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message
from penstock.broker.observers import QueueObserver
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.consume import CancelListener
from penstock.dialects.amqp091.properties import read_properties
from penstock.dialects.amqp091.unacknowledged import Receiver
from penstock.formats.amqp091_frames import FRAME_HEAD_SIZE
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.outgoing import Outgoing
from penstock.world.network import Transport
from tests.broker.queues.doubles import make_queue
from tests.dialects.protocols import channel_of
from tests.seeds.doubles import House, Peer


class RecordingTransport(Transport):
    def __init__(self) -> None:
        self.written = b""
        self.closed = False
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class OpenChannel:
    """A channel of a node without a world, with nothing pending on its connection."""

    def __init__(self, frame_max: int = 0) -> None:
        self.house = House()
        self.peer: Peer = self.house.client()
        self.channel: Channel = channel_of(self.peer.connection)
        if frame_max:
            self.channel.wire.frame_max = frame_max

    @property
    def outgoing(self) -> Outgoing:
        return self.channel.wire.outgoing

    def said(self) -> bytes:
        """What is pending, as its world would write it; its size must be what was counted."""
        outgoing = self.outgoing
        octets = b"".join(outgoing.pieces)
        assert outgoing.size == len(octets)
        assert outgoing.flush_list.count(outgoing) == (1 if octets else 0)
        outgoing.pieces = []
        outgoing.size = 0
        outgoing.flush_list.clear()
        return octets


class ToldQueue(QueueObserver):
    """A real queue, and what the test wants to happen to its messages when they are enqueued."""

    def __init__(self, *, accepts: bool = True) -> None:
        refusing = {"x-max-length": 0, "x-overflow": "reject-publish"}
        self.queue, self.owner = make_queue({} if accepts else refusing)
        self.queue.observers.append(self)
        self.got: list[Message] = []
        self.returned: list[QueueEntry] = []
        self.holds = False
        self.journals = False

    def enqueued(self, entry: QueueEntry) -> None:
        message = entry.message
        self.got.append(message)
        if self.holds:
            message.hold()
        if self.journals:
            message.is_journalled = True

    def requeued(self, entry: QueueEntry) -> None:
        # The queue goes through what it is given from its end.
        self.returned.insert(0, entry)

    def is_touched(self) -> bool:
        """Whether it was touched since this was last asked."""
        found = self.queue in self.owner.touched
        self.owner.touched.clear()
        self.queue.is_touched = False
        return found


class RecordingReceiver(Receiver):
    """A consumer that remembers how many deliveries were settled at once."""

    def __init__(self, queue: MessageQueue, tag: str = "t") -> None:
        super().__init__(queue, tag, 0, False, False)
        self.runs: list[int] = []

    def settled(self, count: int) -> None:
        self.runs.append(count)


class KeptCancels(CancelListener):
    def __init__(self) -> None:
        self.tags: list[str] = []

    def consumer_cancelled(self, tag: str) -> None:
        self.tags.append(tag)


def message_of(
    body: bytes = b"abc", address: Address | None = None, origin: int = 7, **fields: object
) -> Message:
    """A message as a client of AMQP 0-9-1 published it."""
    header = encode_header(len(body), BasicProperties(**fields))  # type: ignore[arg-type]
    return Message(address or Address("", "q", b""), read_properties(header), body, origin)


def frames_of(octets: bytes) -> list[tuple[int, int, bytes]]:
    """Type, channel and payload of every frame."""
    found = []
    while octets:
        size = int.from_bytes(octets[3:FRAME_HEAD_SIZE], "big")
        end = FRAME_HEAD_SIZE + size
        assert octets[end] == 0xCE
        channel = int.from_bytes(octets[1:3], "big")
        found.append((octets[0], channel, octets[FRAME_HEAD_SIZE:end]))
        octets = octets[end + 1 :]
    return found
