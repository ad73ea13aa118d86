"""Messages that wait in a delayed exchange, and what becomes of them when they are due."""

from penstock.broker.exchanges.delayed import DELAY_HEADER, DelayedExchange
from penstock.broker.message import Message
from penstock.broker.publishing import enqueue_all
from penstock.broker.routing import resolve
from penstock.broker.timers import Timer
from penstock.broker.vhost_view import VirtualHostView


class DelayedPublish(Timer):
    """One message on its way through one delayed exchange. Held by the timers until it is due."""

    def __init__(self, vhost: VirtualHostView, exchange: DelayedExchange, message: Message) -> None:
        super().__init__()
        self._vhost: VirtualHostView = vhost
        self._exchange: DelayedExchange = exchange
        self._message: Message = message

    def fire(self, now: int) -> None:
        if self._vhost.exchanges.get(self._exchange.name) is not self._exchange:
            return
        message = _with_served_delay(self._message)
        route = resolve(
            self._vhost, self._exchange, message.address.routing_key, message.properties
        )
        enqueue_all(route.queues, message, now)


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
    delay = exchange.delay_of(message.properties)
    vhost.timers.schedule(DelayedPublish(vhost, exchange, message), now + delay)
