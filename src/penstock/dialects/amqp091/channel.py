"""One channel of one client: what it consumes, what waits for acknowledgement, how it publishes.

The verbs of the protocol are functions in the modules beside this one (`publish`, `acknowledge`,
`subscribe`, `topology`, `transaction`); this is what they share.
"""

from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp091.acknowledge import requeue_all
from penstock.dialects.amqp091.confirms import Confirms
from penstock.dialects.amqp091.consume import CancelListener, ChannelConsumer
from penstock.dialects.amqp091.deliveries import Deliveries
from penstock.dialects.amqp091.dialect import Dialect091
from penstock.dialects.amqp091.properties import MessageProperties, is_single, read_properties
from penstock.dialects.amqp091.reply_to import ReplyConsumer
from penstock.dialects.amqp091.staged import Transaction
from penstock.dialects.container import Container
from penstock.dialects.facts import ChannelFacts, ConsumerFacts
from penstock.dialects.principal import Principal
from penstock.dialects.turn import ConnectionTurn
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.methods_generated import BasicCancel


class Channel(CancelListener):
    """Held by its connection from channel.open to channel.close."""

    def __init__(
        self,
        number: int,
        connection_number: int,
        wire: WireConnection,
        dialect: Dialect091,
        principal: Principal,
        client_hears_cancels: bool,
        turn: ConnectionTurn,
    ) -> None:
        self.number: int = number
        self.connection_number: int = connection_number
        self.wire: WireConnection = wire
        container = dialect.container
        self.dialect: Dialect091 = dialect
        self.container: Container = container
        self.principal: Principal = principal
        self.vhost: VirtualHost = principal.vhost
        self._client_hears_cancels: bool = client_hears_cancels
        # Where the cost of the channel's work is charged: the connection's turn.
        self.turn: ConnectionTurn = turn
        # The client's name for its connection; empty when it gave none.
        self.connection_name: str = ""

        self.deliveries: Deliveries = Deliveries(
            number, wire, container.translator, container.new_holder()
        )
        self.consumers: dict[str, ChannelConsumer] = {}
        # Prefetch limit of future consumers (basic.qos without global); 0 for none.
        self.consumer_prefetch: int = 0
        # The queue that an empty name stands for.
        self.last_queue: str = ""
        self.reply_consumer: ReplyConsumer | None = None

        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        # True while a publish needs no more than its target's queues: no transaction collects it
        # and nobody intercepts it.
        self.is_plain: bool = True
        self.has_ended: bool = False
        # Messages that its client has published here, and those of them that reached no queue and
        # went back to it.
        self.published: int = 0
        self.returned: int = 0
        # The header of the last publish. The wire passes the same object for a repeated header.
        self._header: bytes = b""
        self._properties: MessageProperties = dialect.no_properties
        self.choose_publish_path()

    def choose_publish_path(self) -> None:
        self.is_plain = self.transaction is None and self.container.interceptor is None

    def properties_of(self, header: bytes) -> MessageProperties:
        """The properties of the content that is being received. Raises a `ChannelFault` or
        `Malformed`.
        """
        if header is self._header:
            return self._properties
        if is_single(header):
            properties = read_properties(header)
            properties.came_as(self.wire.content_head(header), self.number)
        else:
            known = self.dialect.properties.get(header)
            properties = self.dialect.read_properties(header) if known is None else known
        self._header = header
        self._properties = properties
        return properties

    def start_confirms(self) -> None:
        if self.confirms is None:
            self.confirms = Confirms(
                self.container.answer_list,
                self.wire.outgoing,
                self.number,
                self.container.durability,
                identity_of(self.vhost.name, self.connection_name, self.number),
            )

    def consumer_cancelled(self, tag: str) -> None:
        """The queue of a consumer was deleted. Clients with the capability for it are notified."""
        self.consumers.pop(tag, None)
        if self._client_hears_cancels:
            self.wire.send_method(self.number, BasicCancel(tag, True))

    def facts(self) -> ChannelFacts:
        facts = ChannelFacts(self.number)
        facts.consumer_count = len(self.consumers)
        facts.prefetch_count = self.consumer_prefetch
        deliveries = self.deliveries
        facts.unacknowledged = deliveries.unacknowledged.count
        if deliveries.has_limit:
            facts.global_prefetch_count = deliveries.credit + facts.unacknowledged
        facts.returned = self.returned
        confirms = self.confirms
        if confirms is not None:
            facts.is_confirming = True
            facts.published = self.published
            facts.received_confirm = confirms.sequence
            facts.confirmed = confirms.answered()
            facts.unconfirmed = confirms.sequence - facts.confirmed
        elif self.published:
            facts.published = self.published
        transaction = self.transaction
        if transaction is not None:
            facts.is_transactional = True
            facts.uncommitted = len(transaction.publishes)
            facts.acks_uncommitted = len(transaction.settlements)
        facts.delivered = deliveries.tag
        facts.delivered_unowned = deliveries.delivered_unowned()
        facts.redelivered = deliveries.redelivered
        facts.acknowledged = deliveries.acknowledged()
        facts.got = deliveries.got
        facts.got_unowned = deliveries.got_unowned
        facts.got_empty = deliveries.got_empty
        return facts

    def consumer_facts(self, tag: str, consumer: ChannelConsumer) -> ConsumerFacts:
        facts = ConsumerFacts(self.number, tag, consumer.queue.name)
        facts.acknowledges = not consumer.takes_ownership
        facts.is_exclusive = consumer.exclusive
        facts.is_active = consumer.queue.consumers.is_active(consumer)
        facts.prefetch_count = consumer.prefetch_count
        facts.arguments = consumer.arguments
        return facts

    def touch_queues(self) -> None:
        """There is room again for deliveries of every consumer here."""
        for consumer in self.consumers.values():
            consumer.has_room()

    def ended(self, now: int) -> None:
        """The channel is closed by either side: its consumers are removed, and unsettled deliveries
        requeued.
        """
        self.has_ended = True
        self.container.channels_ended += 1
        if self.confirms is not None:
            self.confirms.closed = True
            self.container.confirmed_on_ended += self.confirms.answered()
            self.container.received_confirm_on_ended += self.confirms.sequence
        self.container.received_on_ended += self.published
        self.container.unowned_on_ended += max(self.deliveries.delivered_unowned(), 0)
        if self.transaction is not None:
            self.transaction.roll_back(self.container.state.discarded)
        if self.reply_consumer is not None:
            self.dialect.reply_consumers.remove(self.reply_consumer)
            self.reply_consumer = None
        # This comes first, or the consumers would get the requeued messages again.
        self.deliveries.close()
        consumers = list(self.consumers.values())
        self.consumers.clear()
        # A queue that deletes itself with its last consumer must see the requeue first.
        requeue_all(self.deliveries, now)
        for consumer in consumers:
            consumer.leave(now)


def identity_of(vhost: str, connection_name: str, channel: int) -> str:
    """The name of a publisher in the ledger; empty when its client has not named itself."""
    return f"{vhost}\0{connection_name}/{channel}" if connection_name else ""


def end_all(channels: list[Channel], now: int) -> Exception | None:
    """End every channel of a connection; returns the first internal error."""
    failure: Exception | None = None
    for channel in channels:
        try:
            channel.ended(now)
        except Exception as error:
            # The others must requeue what they hold all the same.
            failure = failure or error
    return failure
