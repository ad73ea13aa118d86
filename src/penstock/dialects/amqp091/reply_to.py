"""Direct reply-to: answers that go straight from the replier's publish to the asker's channel.

A client consumes from the pseudo-queue `amq.rabbitmq.reply-to` without acknowledgement, publishes
requests with that name as reply-to, and the server puts an address in its place that leads back to
the channel. There is no queue, so an answer for a client that is gone, or that does not read, is
dropped.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message
from penstock.dialects.amqp091.consume import ChannelConsumer

PSEUDO_QUEUE: Final = "amq.rabbitmq.reply-to"
ADDRESS_PREFIX: Final = "amq.rabbitmq.reply-to."
TOKEN_OCTETS: Final = 16


def is_direct_reply(address: Address) -> bool:
    """Whether the key may name a channel, rather than queues."""
    return not address.exchange and address.routing_key.startswith(PSEUDO_QUEUE)


class ReplyConsumer:
    """A channel's consumer of direct replies. Held by the channel and by the registry."""

    def __init__(self, token: str, consumer: ChannelConsumer) -> None:
        self.token: str = token
        self.consumer: ChannelConsumer = consumer

    @property
    def address(self) -> str:
        return ADDRESS_PREFIX + self.token

    def reply(self, message: Message) -> None:
        if self.consumer.can_take():
            self.consumer.take(QueueEntry(message, 0))


class ReplyConsumers:
    """Every channel that waits for direct replies. Held by the container."""

    def __init__(self) -> None:
        self._by_token: dict[str, ReplyConsumer] = {}

    def add(self, consumer: ReplyConsumer) -> None:
        self._by_token[consumer.token] = consumer

    def remove(self, consumer: ReplyConsumer) -> None:
        self._by_token.pop(consumer.token, None)

    def find(self, routing_key: str) -> ReplyConsumer | None:
        """The consumer of answers with this routing key; None when there is none."""
        if not routing_key.startswith(ADDRESS_PREFIX):
            return None
        return self._by_token.get(routing_key[len(ADDRESS_PREFIX) :])
