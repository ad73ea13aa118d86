"""Subscriptions: a source on an exchange is a queue of its own, bound to that exchange.

By default it is an exclusive queue with a generated name. A subscription that is durable, shared or
has a time-out can be resumed, so its queue is named after the container and the link:

    subscriptions/:container/:name     volatile-subscriptions/:container/:name

As Qpid JMS names its links, the part before `|` is the name of a shared subscription; with the
capability `global` it belongs to no container. What the subscription selects is stored in the
queue's arguments and survives a restart with it.

A selector defines what belongs to the subscription, so other messages must not pile up in the
queue: a second consumer drops them (`Discarding`).
"""

from typing import Final

from penstock.broker.access.permissions import Permission
from penstock.broker.consumer import Consumer
from penstock.broker.entry import QueueEntry
from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.names import described, server_named
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import BindQueue, DeclareQueue, DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp10.nodes.addresses import SourceAddress, exchange_address
from penstock.dialects.amqp10.nodes.filters import (
    Place,
    Selection,
    described_no_local,
    described_selector,
    place_of,
    read_selection,
)
from penstock.dialects.amqp10.nodes.lifetimes import Lifetime, NodeLife, life_of
from penstock.dialects.amqp10.nodes.termini import NEVER
from penstock.dialects.principal import Principal
from penstock.wire.amqp10.performatives_generated import Source
from penstock.world.entropy import Entropy

SHARED: Final = "shared"
GLOBAL: Final = "global"
# Terminus durability: the peer wants unsettled deliveries to be known after a failure.
UNSETTLED_STATE: Final = 2
SHARED_NAME_END: Final = "|"

ADDRESS_ARGUMENT: Final = "x-subscription-address"
_SELECTOR_ARGUMENT: Final = "x-subscription-selector"
_HEADERS_ARGUMENT: Final = "x-subscription-headers"
_NO_LOCAL_ARGUMENT: Final = "x-subscription-no-local"
_SHARED_ARGUMENT: Final = "x-subscription-shared"
_FACTS: Final = (
    ADDRESS_ARGUMENT,
    _SELECTOR_ARGUMENT,
    _HEADERS_ARGUMENT,
    _NO_LOCAL_ARGUMENT,
    _SHARED_ARGUMENT,
)


class Discarding(Consumer):
    """Takes from a subscription's queue what its selectors do not select. Held by the queue."""

    def __init__(self, selection: Selection) -> None:
        super().__init__("", 0, False, True)
        self.selective = True
        self.selection: Selection = selection

    def can_take(self) -> bool:
        return True

    def wants(self, entry: QueueEntry) -> bool:
        return not self.selection.wants(entry)

    def take(self, entry: QueueEntry) -> None:
        """The message is dequeued and dropped."""

    def cancelled(self) -> None:
        """Nobody is told."""


class Subscribed:
    """The result of subscribing."""

    def __init__(self, queue: MessageQueue, selection: Selection, life: NodeLife) -> None:
        self.queue: MessageQueue = queue
        self.selection: Selection = selection
        self.life: NodeLife = life


class SubscriptionName:
    """Which subscription is meant, and whether it can be resumed."""

    def __init__(self, source: Source, container_id: str, link_name: str) -> None:
        self.is_shared: bool = SHARED in source.capabilities
        self.is_durable: bool = source.durable > 0 or source.expiry_policy == NEVER
        self._is_global: bool = self.is_shared and GLOBAL in source.capabilities
        self._container_id: str = container_id
        self.name: str = link_name
        if self.is_shared:
            self.name = link_name.split(SHARED_NAME_END, 1)[0]
        self.is_kept: bool = self.is_durable or self.is_shared or source.timeout > 0

    def queue_name(self) -> str:
        kind = "subscriptions" if self.is_durable else "volatile-subscriptions"
        owner = "" if self._is_global else _segment(self._container_id)
        return f"{kind}/{owner}/{_segment(self.name)}"

    def lifetime(self) -> Lifetime:
        if self.is_durable:
            return Lifetime.UNSUBSCRIBED
        return Lifetime.ON_NO_LINKS if self.is_shared else Lifetime.ON_CLOSE

    def shared_fact(self) -> str:
        if self._is_global:
            return GLOBAL
        return SHARED if self.is_shared else ""


def subscribe(
    principal: Principal,
    vhost: VirtualHost,
    source: Source,
    address: SourceAddress,
    wish: SubscriptionName,
    connection_number: int,
    entropy: Entropy,
    now: int,
) -> Subscribed:
    """Everything is checked before anything is made."""
    name = wish.queue_name() if wish.is_kept else server_named(entropy)
    # Before it is known with which key, so that nobody is told which exchanges there are.
    principal.access.check_command(BindQueue(name, address.exchange), False)
    exchange = vhost.exchange(address.exchange)
    selection = read_selection(
        source.filter_,
        place_of(exchange),
        wish.is_shared,
        described("exchange", exchange.name, vhost.name),
        connection_number,
    )
    key = _binding_key(address, selection, place_of(exchange))
    arguments = selection.binding_arguments or {}
    principal.check_topic(Permission.READ, exchange, key)
    exchange.check_binding(key, arguments)
    facts = _facts(wish, exchange_address(exchange.name, key), selection) if wish.is_kept else {}
    declare = DeclareQueue(
        name,
        durable=wish.is_durable,
        exclusive=not wish.is_kept,
        arguments=facts,
        connection=connection_number,
        server_named=not wish.is_kept,
    )
    principal.check(declare)
    principal.check_read_queue(name)
    _remove_outdated(vhost, name, facts, wish, now)
    vhost.apply(declare, now)
    vhost.apply(BindQueue(name, exchange.name, key, arguments, connection_number), now)
    return _subscribed(vhost, vhost.queue(name), selection, wish.lifetime())


def recall(
    principal: Principal,
    vhost: VirtualHost,
    wish: SubscriptionName,
    connection_number: int,
) -> Subscribed:
    """A durable subscription that is there, for a link that does not say what it subscribed to."""
    name = wish.queue_name()
    principal.check_read_queue(name)
    queue = vhost.queues.get(name)
    if queue is None or ADDRESS_ARGUMENT not in queue.arguments:
        raise NotFound(f"no subscription '{wish.name}' in vhost '{vhost.name}'")
    filters: dict[str, object] = {}
    text = queue.arguments.get(_SELECTOR_ARGUMENT)
    if isinstance(text, str):
        filters["selector"] = described_selector(text)
    if queue.arguments.get(_NO_LOCAL_ARGUMENT) is True:
        filters["no-local"] = described_no_local()
    selection = read_selection(
        filters, Place.QUEUE, False, described("queue", name, vhost.name), connection_number
    )
    return _subscribed(vhost, queue, selection, Lifetime.UNSUBSCRIBED)


def _subscribed(
    vhost: VirtualHost, queue: MessageQueue, selection: Selection, lifetime: Lifetime
) -> Subscribed:
    life = life_of(queue)
    if life is None:
        life = NodeLife(vhost, queue, lifetime)
    if selection.is_selective:
        _discard_others(queue, selection)
    return Subscribed(queue, selection, life)


def _discard_others(queue: MessageQueue, selection: Selection) -> None:
    for consumer in queue.consumers.registered:
        if isinstance(consumer, Discarding):
            # Of an earlier link; no-local now means this connection.
            consumer.selection = selection
            return
    queue.add_consumer(Discarding(selection))


def _remove_outdated(
    vhost: VirtualHost, name: str, facts: dict[str, object], wish: SubscriptionName, now: int
) -> None:
    """Subscribing under an existing name to something else unsubscribes first, as in JMS."""
    known = vhost.queues.get(name)
    if known is None:
        return
    is_same = True
    for fact in _FACTS:
        if known.arguments.get(fact) != facts.get(fact):
            is_same = False
    if is_same:
        return
    life = life_of(known)
    if ADDRESS_ARGUMENT not in known.arguments:
        raise PreconditionFailed(
            f"{described('queue', name, vhost.name)} exists and is not subscription '{wish.name}'"
        )
    if life is not None and life.links:
        raise PreconditionFailed(
            f"subscription '{wish.name}' in vhost '{vhost.name}' is in use, "
            "with another address, selector or kind of sharing"
        )
    vhost.apply(DeleteQueue(name), now)


def _binding_key(address: SourceAddress, selection: Selection, place: Place) -> str:
    if address.routing_key is not None:
        return address.routing_key
    if selection.binding_key is not None:
        return selection.binding_key
    return "#" if place is Place.TOPIC else ""


def _facts(wish: SubscriptionName, address: str, selection: Selection) -> dict[str, object]:
    facts: dict[str, object] = {ADDRESS_ARGUMENT: address}
    if selection.selectors:
        facts[_SELECTOR_ARGUMENT] = selection.selector_text()
    if selection.binding_arguments:
        facts[_HEADERS_ARGUMENT] = selection.binding_arguments
    if selection.no_local:
        facts[_NO_LOCAL_ARGUMENT] = True
    if wish.is_shared:
        facts[_SHARED_ARGUMENT] = wish.shared_fact()
    return facts


def _segment(text: str) -> str:
    """Encoded so that a slash in a name is not taken for a separator."""
    return text.replace("%", "%25").replace("/", "%2F")
