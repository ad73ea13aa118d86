"""Publishing a message when its delay in a delayed exchange is over.

It waits in its virtual host's delay line, where `publish.hold_back` has put it.
"""

from penstock.broker.delays.delay_line import DelaySchedule
from penstock.broker.entry import QueueEntry
from penstock.broker.exchanges.delayed import DELAY_HEADER, DelayedExchange
from penstock.broker.message import Message
from penstock.broker.publishing.publish import publish_resolved
from penstock.broker.publishing.target import target_by_keys
from penstock.broker.routing_table import RoutingTable
from penstock.broker.timers import Timer


class DelayedPublish(Timer):
    """One message on its way through one delayed exchange. Held by the timers until it is due."""

    def __init__(self, vhost: RoutingTable, exchange: str, entry: QueueEntry) -> None:
        super().__init__()
        self._vhost: RoutingTable = vhost
        self._exchange: str = exchange
        self._entry: QueueEntry = entry

    def fire(self, now: int) -> None:
        vhost = self._vhost
        if vhost.delay_line.is_closed:
            return
        vhost.delay_line.take(self._entry)
        exchange = vhost.exchanges.get(self._exchange)
        if not isinstance(exchange, DelayedExchange):
            # Deleted meanwhile, or declared again as something else.
            return
        message = _with_served_delay(self._entry.message)
        # One batch of the journal: it leaves the delay line and reaches its queues, or neither.
        message.through_journal = self._entry.message.is_journalled
        target = target_by_keys(
            vhost, exchange, message.address, message.routing_keys(), message.properties
        )
        publish_resolved(vhost, target, message, None, now)


def _with_served_delay(message: Message) -> Message:
    """A negative delay says that it was served, as RabbitMQ's plugin does. No delayed exchange that
    it passes from here on delays it again.
    """
    headers = dict(message.properties.headers())
    delay = headers.get(DELAY_HEADER)
    assert isinstance(delay, int), "only a message with a delay is held back"
    headers[DELAY_HEADER] = -delay
    properties = message.properties.rewritten(headers, drop_expiration=False)
    return Message(message.address, properties, message.body, message.origin)


class PublishWhenDue(DelaySchedule):
    """Held by the delay line of its virtual host."""

    def __init__(self, vhost: RoutingTable) -> None:
        self._vhost: RoutingTable = vhost

    def schedule(self, entry: QueueEntry, now: int) -> None:
        exchange = entry.message.address.exchange
        due = max(entry.expires_at, now)
        self._vhost.timers.schedule(DelayedPublish(self._vhost, exchange, entry), due)
