"""Messages that are published when their transaction commits."""

from penstock.broker.errors import NotFound, ResourceError
from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.message import Message, Publisher
from penstock.broker.publishing.delayed import hold_back
from penstock.broker.publishing.publish import enqueue_all
from penstock.broker.publishing.routing import resolve
from penstock.broker.queues.queue import Queue
from penstock.dialects.amqp10.nodes.addresses import TargetAddress
from penstock.dialects.amqp10.publish import find_target
from penstock.dialects.amqp10.transactions.transaction import Rehearsal, Work
from penstock.dialects.container import Container
from penstock.dialects.principal import Principal
from penstock.dialects.targets import PublishTarget


class Posting(Work):
    """One message. Where it goes is found again by the commit, so that it goes where messages go
    then, and not to what was deleted meanwhile.
    """

    def __init__(self, container: Container, principal: Principal, message: Message) -> None:
        super().__init__(len(message.body) + len(message.properties.encoded()))
        self._container: Container = container
        self._principal: Principal = principal
        self._message: Message = message
        self._queues: list[Queue] = []
        self._delayed: list[DelayedExchange] = []

    def rehearse(self, rehearsal: Rehearsal, publisher: Publisher, now: int) -> None:
        message = self._message
        address = message.address
        key = address.routing_key
        target = find_target(self._principal, TargetAddress(address.exchange, key), key)
        self._queues, self._delayed = destinations(self._principal, target, message)
        if not self._queues and not self._delayed:
            raise NotFound(f"no queue is bound to '{address.exchange}' with key '{key}' any more")
        # Whoever holds it keeps the discharge from being answered.
        message.publisher = publisher
        interceptor = self._container.interceptor
        if interceptor is not None and not interceptor.admits(message, self._queues, now):
            raise ResourceError("a message is not admitted")
        for queue in self._queues:
            rehearsal.put(queue, len(message.body))

    def apply(self, now: int) -> None:
        message = self._message
        message.through_journal = True
        for exchange in self._delayed:
            hold_back(self._principal.vhost, exchange, message, now)
        enqueue_all(self._queues, message, now)
        if message.holds == 0:
            # Complete: it must not keep the link alive while it waits in a queue.
            message.publisher = None

    def undo(self, now: int) -> None:
        """Nobody has seen it."""


def destinations(
    principal: Principal, target: PublishTarget, message: Message
) -> tuple[list[Queue], list[DelayedExchange]]:
    """Queues that get a message, and exchanges in which it has to wait first."""
    exchange = target.exchange
    if isinstance(exchange, DelayedExchange) and exchange.delay_of(message.properties) > 0:
        return [], [exchange]
    found = resolve(principal.vhost, exchange, message.address.routing_key, message.properties)
    return found.queues, found.delayed
