"""Brokers that break what streams, leases, sinks, delays and transactions promise, a defect each."""

from penstock.broker.internal_queues import LEASE_OF, STAGE_OF
from penstock.broker.message import NOBODY, Address, Message
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.state import DEFAULT_VHOST
from penstock.broker.streams.stream import Stream
from penstock.broker.topology import DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp091.transaction import commit
from penstock.dialects.connection import Connection
from penstock.formats.stage_block import BlockRows
from penstock.node.node import Node
from penstock.simulation.durable_host import DurableHost
from penstock.simulation.scenarios import BARGE, QUAY
from tests.dialects.protocols import amqp091_of


def vhost_of(node: Node) -> VirtualHost:
    return node.state.vhost(DEFAULT_VHOST)


def streams_of(node: Node) -> list[Stream]:
    return [queue for queue in vhost_of(node).queues.values() if isinstance(queue, Stream)]


def apart_of(node: Node, argument: str) -> list[MessageQueue]:
    """Queues that the broker has made for leases or for stages."""
    return [queue for queue in vhost_of(node).queues.values() if argument in queue.arguments]


def copied(message: Message) -> Message:
    """The journal writes a message in one tick only."""
    return Message(message.address, message.properties, message.body, message.origin)


class PublisherForgettingHost(DurableHost):
    """A stream does not know after a start who published what last."""

    def start(self) -> None:
        super().start()
        for stream in streams_of(self.node):
            stream.files.publishers.sequences.clear()


class RowForgettingHost(DurableHost):
    """A stream does not know after a start which rows of sinks it has."""

    def start(self) -> None:
        super().start()
        for stream in streams_of(self.node):
            stream.files.publishers.stages.clear()


class CursorPushingHost(DurableHost):
    """Moves every cursor to the end of what can be read, settled or not."""

    def swept(self) -> None:
        super().swept()
        for stream in streams_of(self.node):
            for name, _, _ in stream.cursors():
                stream.set_cursor(name, stream.files.readable_offset(), self.now())


class DelayLosingHost(DurableHost):
    """Starts without one of the messages that waited."""

    def start(self) -> None:
        super().start()
        line = vhost_of(self.node).delay_line
        first = line.waiting.first()
        if first is not None:
            line.take(first)


class HurryingHost(DurableHost):
    """Lets go what waits half a second too early."""

    def swept(self) -> None:
        super().swept()
        self.node.timers.fire_due(self.now() + 500)


class CommittingHost(DurableHost):
    """Commits the transactions of a connection that is lost."""

    def lost(self, connection: Connection) -> None:
        for channel in amqp091_of(connection)._channels.values():
            if channel.transaction is not None and channel.transaction.settlements:
                commit(channel, self.now())
        super().lost(connection)


class LeaseDroppingHost(DurableHost):
    """Starts without one of the leases."""

    def start(self) -> None:
        super().start()
        for lease in apart_of(self.node, LEASE_OF)[:1]:
            vhost_of(self.node).apply(DeleteQueue(lease.name), self.now())


class LeaseCopyingHost(DurableHost):
    """Puts the first message of a lease into its queue as well."""

    def swept(self) -> None:
        super().swept()
        for lease in apart_of(self.node, LEASE_OF)[:1]:
            for entry in lease.browse(1):
                origin = vhost_of(self.node).queue(str(lease.arguments[LEASE_OF]))
                origin.enqueue(copied(entry.message), self.now())


class MoveTearingHost(DurableHost):
    """Moves a message in two ticks: gone from one queue first, in the other one later."""

    _between: Message | None = None
    _life = 0

    def swept(self) -> None:
        super().swept()
        vhost = vhost_of(self.node)
        if self._between is not None and self._life == self.life:
            vhost.queue(BARGE).enqueue(copied(self._between), self.now())
        self._between = None
        entry = vhost.queue(QUAY).get(self.now())
        if entry is not None:
            vhost.queue(QUAY).acknowledge(entry)
            self._between = entry.message
            self._life = self.life


class MoveCopyingHost(DurableHost):
    """Forgets to take a message out of the queue that it was moved from."""

    def swept(self) -> None:
        super().swept()
        for entry in vhost_of(self.node).queue(QUAY).browse(1):
            vhost_of(self.node).queue(BARGE).enqueue(copied(entry.message), self.now())


class StageLeakingHost(DurableHost):
    """Publishes the first message of a stage before anybody commits it."""

    def swept(self) -> None:
        super().swept()
        for stage in apart_of(self.node, STAGE_OF)[:1]:
            for entry in stage.browse(1):
                rows = BlockRows(entry.message.body).runs()[0]
                target = vhost_of(self.node).queues.get(rows.routing_key())
                if target is not None:
                    properties = self.node.amqp091.read_properties(rows.header)
                    address = Address("", rows.routing_key(), b"")
                    target.enqueue(
                        Message(address, properties, rows.bodies(0)[0], NOBODY), self.now()
                    )


class StageDroppingHost(DurableHost):
    """Starts without one of the stages that are being published."""

    def start(self) -> None:
        super().start()
        for sink in vhost_of(self.node).sinks.values():
            for name in sink.pending[:1]:
                vhost_of(self.node).apply(DeleteQueue(name), self.now())


class ProgressForgettingHost(DurableHost):
    """Starts without how far a stage had come when a full queue made it wait."""

    def start(self) -> None:
        super().start()
        for sink in vhost_of(self.node).sinks.values():
            sink.advanced_stage = ""


class AppendLosingHost(DurableHost):
    """Starts without what the journal has for streams."""

    def start(self) -> None:
        super().start()
        for stream in streams_of(self.node):
            stream.journalled.delete()


class HastyAppendingHost(DurableHost):
    """Appends to streams what is not safe in the journal yet."""

    def tick_ended(self) -> None:
        super().tick_ended()
        for stream in streams_of(self.node):
            stream.journalled.became_durable(stream.journalled.mark(), self.now())


class AppendRepeatingHost(DurableHost):
    """Appends what the journal has for a stream to whatever is there."""

    def start(self) -> None:
        super().start()
        for stream in streams_of(self.node):
            for entry in stream.journalled.entries():
                stream.enqueue(copied(entry.message), self.now())


class Untying(PublishInterceptor):
    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        message.through_journal = False
        return True


class TransactionTearingHost(DurableHost):
    """Appends to streams beside the journal what a transaction publishes."""

    def start(self) -> None:
        super().start()
        self.node.intercept_publishes(Untying())
