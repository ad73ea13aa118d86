"""The one way into queues for a message that is published.

Every publish passes through here: clients of both protocols, transactions when they commit,
sinks, and the broker itself with dead letters and with messages whose delay is over. Here a publish
is counted, its queues are found where the kept target does not say them, faults on demand are
applied, delayed exchanges take what has to wait, and queues accept or refuse the rest. Dialects
decode, check permissions before they resolve a target, and answer.

    publish_plain      a target that says it all: count and enqueue
    publish            any message of a target: find its queues, then
    publish_resolved   count, intercept, delay, enqueue
"""

from enum import Enum

from mypy_extensions import mypyc_attr

from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.message import Address, Message
from penstock.broker.publishing.target import Target, target_of
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.routing_table import RoutingTable
from penstock.broker.topology import OpenDelayLine


class Outcome(Enum):
    """The outcome of a publish. A refusal that comes later (see `Message.hold`) is not included."""

    ENQUEUED = "enqueued"
    # It waits in a delayed exchange, and no queue has it yet.
    DELAYED = "delayed"
    # No queue is bound there.
    UNROUTED = "unrouted"
    # A queue is full and refuses publishes, or the interceptor refused it.
    REFUSED = "refused"


@mypyc_attr(allow_interpreted_subclasses=True)
class PublishInterceptor:
    """Faults on demand: asked once per publish of a client with the queues that were found, before
    any of them is touched, by `admitted` and nobody else.

    It is not asked for dead letters, for messages whose delay is over and for rows of sinks: their
    publishers have been answered, so nobody would notice the fault. Nor for direct replies, which
    reach no queue.
    """

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        """False refuses the message: its publisher gets a negative confirm. It may also hold the
        message to delay its confirm, or change the list of queues; one that was given queues and is
        left with none does not wait in delayed exchanges either.
        """
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class RoutingMeter:
    """Where the cost of finding a message's queues is charged: the turn of a connection."""

    def routed(self, target: Target) -> None:
        raise NotImplementedError


def publish_plain(target: Target, message: Message, now: int) -> bool:
    """For a target that is plain, and a message without extra keys while nobody intercepts. False
    when a queue refused it.
    """
    if target.count is not None:
        target.count.count += 1
    accepted = True
    for queue in target.queues:
        if not queue.enqueue(message, now):
            accepted = False
    return accepted


def publish(
    vhost: RoutingTable,
    target: Target,
    message: Message,
    interceptor: PublishInterceptor | None,
    meter: RoutingMeter | None,
    now: int,
) -> Outcome:
    """Publish any message of a target, whether that is fixed and fresh or not."""
    found = target_of(vhost, target, message.properties)
    if meter is not None:
        meter.routed(found)
    return publish_resolved(vhost, found, message, interceptor, now)


def publish_resolved(
    vhost: RoutingTable,
    target: Target,
    message: Message,
    interceptor: PublishInterceptor | None,
    now: int,
    refusing: list[MessageQueue] | None = None,
) -> Outcome:
    """Publish a message whose target came from `target_of`, in this tick or before. Queues that
    refuse it are added to a list that is given.
    """
    if target.count is not None:
        target.count.count += 1
    if interceptor is not None:
        left = admitted(target, message, interceptor, now)
        if left is None:
            return Outcome.REFUSED
        target = left
    for exchange in target.delayed:
        # With all of its keys: they are needed when it is due.
        hold_back(vhost, exchange, message, now)
    if target.delayed and not target.queues:
        return Outcome.DELAYED
    if message.properties.has_extra_keys:
        message.properties = message.properties.as_delivered()
    if not target.reaches_any:
        return Outcome.UNROUTED
    outcome = Outcome.ENQUEUED
    for queue in target.queues:
        if not queue.enqueue(message, now):
            outcome = Outcome.REFUSED
            if refusing is not None:
                refusing.append(queue)
    return outcome


def admitted(
    target: Target, message: Message, interceptor: PublishInterceptor | None, now: int
) -> Target | None:
    """Ask the interceptor: returns the target with the remaining queues, None when it refuses. For
    commits that must know before they change anything; `publish_resolved` asks by itself.
    """
    if interceptor is None or not target.reaches_any:
        return target
    left = target.with_queues(target.queues[:])
    if not interceptor.admits(message, left.queues, now):
        return None
    if target.queues and not left.queues:
        left.delayed = []
    return left


def hold_back(vhost: RoutingTable, exchange: DelayedExchange, message: Message, now: int) -> None:
    """Keep a message until its delay is over, then let the exchange route it; see `delayed`."""
    due = now + exchange.delay_of(message.properties)
    durable = exchange.is_lasting and (
        message.properties.persistent or vhost.delay_line.journals_all
    )
    if durable and vhost.delay_line.number == 0:
        vhost.definitions.vhost_changed(vhost.name, OpenDelayLine())
    if message.address.exchange != exchange.name:
        # It came through a binding; the stored message must name the exchange in which it waits.
        address = Address(exchange.name, message.address.routing_key, b"")
        waiting = Message(address, message.properties, message.body, message.origin)
        entry = vhost.delay_line.put(waiting, due, durable)
        message.is_journalled = message.is_journalled or waiting.is_journalled
    else:
        entry = vhost.delay_line.put(message, due, durable)
    vhost.delay_line.hold(entry, now)
