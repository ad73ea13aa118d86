"""Messages that wait in a delayed exchange, and what becomes of them when they are due."""

from penstock.broker.entry import QueueEntry
from penstock.broker.exchanges.delayed import DELAY_HEADER, DelayedExchange
from penstock.broker.message import Address, Message
from penstock.broker.publishing.publish import enqueue_all
from penstock.broker.publishing.routing import resolve
from penstock.broker.queues.queue import Queue
from penstock.broker.timers import Timer
from penstock.broker.topology import OpenDelayLine
from penstock.broker.vhost_view import VirtualHostView


class DelayedPublish(Timer):
    """One message on its way through one delayed exchange. Held by the timers until it is due."""

    def __init__(self, vhost: VirtualHostView, exchange: str, entry: QueueEntry) -> None:
        super().__init__()
        self._vhost: VirtualHostView = vhost
        self._exchange: str = exchange
        self._entry: QueueEntry = entry

    def fire(self, now: int) -> None:
        if self._vhost.delay_line.is_closed:
            return
        self._vhost.delay_line.take(self._entry)
        message = _with_served_delay(self._entry.message)
        message.through_journal = self._entry.message.is_journalled
        enqueue_all(self._queues(), message, now)

    def _queues(self) -> list[Queue]:
        exchange = self._vhost.exchanges.get(self._exchange)
        if not isinstance(exchange, DelayedExchange):
            return []
        message = self._entry.message
        return resolve(
            self._vhost, exchange, message.address.routing_key, message.properties
        ).queues


def _with_served_delay(message: Message) -> Message:
    """A negative delay says that it was served, as RabbitMQ's plugin does."""
    headers = dict(message.properties.headers())
    delay = headers.get(DELAY_HEADER)
    assert isinstance(delay, int), "only a message with a delay is held back"
    headers[DELAY_HEADER] = -delay
    properties = message.properties.rewritten(headers, drop_expiration=False)
    return Message(message.address, properties, message.body, message.origin)


def hold_back(
    vhost: VirtualHostView, exchange: DelayedExchange, message: Message, now: int
) -> None:
    """Keep a message until its delay is over, then let the exchange route it."""
    due = now + exchange.delay_of(message.properties)
    durable = exchange.durable and message.properties.persistent
    if durable and vhost.delay_line.number == 0:
        vhost.definitions.vhost_changed(vhost.name, OpenDelayLine())
    if message.address.exchange != exchange.name:
        # It came through a binding; what is written down must say where it waits.
        address = Address(exchange.name, message.address.routing_key, b"")
        waiting = Message(address, message.properties, message.body, message.origin)
        entry = vhost.delay_line.put(waiting, due, durable)
        message.is_journalled = message.is_journalled or waiting.is_journalled
    else:
        entry = vhost.delay_line.put(message, due, durable)
    vhost.timers.schedule(DelayedPublish(vhost, exchange.name, entry), due)
