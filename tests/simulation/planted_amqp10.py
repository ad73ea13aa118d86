"""Brokers that break what AMQP 1.0 clients are promised, a defect each."""

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp10.connection import Connection as Connection10
from penstock.dialects.amqp10.links.deliver import SentEntry
from penstock.dialects.amqp10.links.target_link import TargetLink
from penstock.dialects.amqp10.links.target_outcomes import TargetOutcomes
from penstock.dialects.connection import Connection
from penstock.simulation.durable_host import DurableHost
from penstock.simulation.endpoint import Endpoint
from penstock.simulation.host import Host
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.states import LinkState
from penstock.wire.amqp10.values import Composite
from penstock.wire.sniff import HEADER_SIZE
from penstock.world.network import Transport
from tests.simulation.planted import TamperingTransport

# How a disposition and a discharge begin. Of a discharge the list's head, then the transaction's id
# as a binary with one octet of size, and whether it fails.
DISPOSITION = b"\x00\x53\x15"
DISCHARGE = b"\x00\x53\x32"
TXN_ID_SIZE_AT = 4
PIECE_SIZE = 16
TRUE = b"\x41"
FALSE = b"\x42"


def sessions_of(connection: Connection) -> list[Session]:
    protocol = connection.protocol
    return list(protocol._sessions) if isinstance(protocol, Connection10) else []


def senders_of(connection: Connection) -> list[SendingLink]:
    return [link for session in sessions_of(connection) for link in session.senders.values()]


class LateSettlement(SettlementListener):
    """Takes a receiver at its word, whoever has the delivery by now."""

    def __init__(self, queues: dict[QueueEntry, MessageQueue]) -> None:
        self._queues = queues

    def delivery_updated(
        self, link: SendingLink, sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        assert isinstance(sent, SentEntry)
        queue = self._queues[sent.entry]
        queue.unacked_count -= 1
        queue.acknowledged_total += 1
        if queue.journal is not None:
            queue.journal.dequeued_many([sent.entry])
        for observer in queue.observers:
            observer.acknowledged_many([sent.entry])


class LateSettlingHost(Host):
    """A link that the node has detached keeps what it had sent, although the queue has it back: a
    disposition that was under way settles it for the second time.
    """

    def start(self) -> None:
        # What each link had sent unsettled when a tick ended, and where that came from.
        self._sent: dict[SendingLink, dict[int, SentDelivery]] = {}
        self._queues: dict[QueueEntry, MessageQueue] = {}
        super().start()

    def tick_ended(self) -> None:
        super().tick_ended()
        for queue, entry in self.node.unsettled():
            self._queues[entry] = queue
        for connection in self.node.connections.values():
            for link in senders_of(connection):
                if link.is_attached:
                    self._sent[link] = dict(link.unsettled)

    def received(self, connection: Connection, data: bytes) -> None:
        # In pieces with the end of no more than one frame: the next may be the late one.
        for start in range(0, len(data), PIECE_SIZE):
            for link in senders_of(connection):
                if link.state is LinkState.DETACH_SENT and link in self._sent:
                    link.unsettled = self._sent.pop(link)
                    link.listener = LateSettlement(self._queues)
            super().received(connection, data[start : start + PIECE_SIZE])


class DurableLateSettlingHost(LateSettlingHost, DurableHost):
    """The same, with a disk."""


class OutcomeForgettingHost(Host):
    """Does not remember what became of the deliveries of a producer that may come back."""

    def tick_ended(self) -> None:
        super().tick_ended()
        for connection in self.node.connections.values():
            for answers in answers_of(connection):
                answers.remembered.clear()


def answers_of(connection: Connection) -> list[TargetOutcomes]:
    return [
        link.listener._answers
        for session in sessions_of(connection)
        for link in session.receivers.values()
        if isinstance(link.listener, TargetLink)
    ]


class RollbackIgnoringHost(DurableHost):
    """Commits what is to be rolled back: hears every discharge as one that does not fail."""

    def received(self, connection: Connection, data: bytes) -> None:
        at = data.find(DISCHARGE)
        if at >= 0:
            size_at = at + len(DISCHARGE) + TXN_ID_SIZE_AT
            fails_at = size_at + 1 + data[size_at] if size_at < len(data) else len(data)
            if data[fails_at : fails_at + 1] == TRUE:
                data = data[:fails_at] + FALSE + data[fails_at + 1 :]
        super().received(connection, data)


class DispositionLosingTransport(TamperingTransport):
    """Of AMQP 1.0 connections; those of AMQP 0-9-1 pass."""

    _is_amqp10 = False

    def write(self, data: bytes) -> None:
        self._is_amqp10 = self._is_amqp10 or data.startswith(b"AMQP")
        if not self._is_amqp10:
            self._endpoint.write(data)
            return
        kept = b""
        while data:
            size = HEADER_SIZE if data.startswith(b"AMQP") else int.from_bytes(data[:4], "big")
            frame, data = data[:size], data[size:]
            if frame[8:11] != DISPOSITION or not self.is_met():
                kept += frame
        self._endpoint.write(kept)


class DispositionLosingHost(Host):
    """Does not say what became of some deliveries."""

    def transport(self, endpoint: Endpoint) -> Transport:
        return DispositionLosingTransport(endpoint)
