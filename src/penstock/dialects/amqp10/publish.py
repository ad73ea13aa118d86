"""From an address and a message to queues, with all the rules.

The short way of `TargetLink` uses what is resolved here and skips the rest.
"""

from enum import Enum
from typing import Final

from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.message import Address, Message
from penstock.broker.publishing.delayed import hold_back
from penstock.broker.publishing.publish import enqueue_all
from penstock.broker.publishing.routing import resolve
from penstock.dialects.amqp10.messages.properties import TransferProperties, read_head
from penstock.dialects.amqp10.nodes.addresses import TargetAddress
from penstock.dialects.amqp10.nodes.nodes import check_target
from penstock.dialects.container import Container
from penstock.dialects.principal import Principal
from penstock.dialects.targets import TARGETS_MAX, PublishTarget
from penstock.dialects.turn import route_units

_NO_PROPERTIES: Final = read_head(b"")
# Tells our keys in `Principal.targets` from method payloads of AMQP 0-9-1, which begin with 0.
_KEY_START: Final = b"\x01"


class Routed(Enum):
    """What became of a message."""

    ENQUEUED = "enqueued"
    # No queue is bound there.
    NOWHERE = "nowhere"
    # A queue is full, or an interceptor does not want it.
    REFUSED = "refused"


def find_target(principal: Principal, address: TargetAddress, routing_key: str) -> PublishTarget:
    """Where an address leads for a user, kept until the topology changes. Raises a `Refusal`."""
    exchange = address.exchange.encode(errors="surrogateescape")
    key = _KEY_START + exchange + b"\x00" + routing_key.encode(errors="surrogateescape")
    target = principal.targets.get(key)
    vhost = principal.vhost
    if target is not None and target.generation == vhost.generation:
        return target
    check_target(principal, vhost, address)
    found = vhost.exchanges[address.exchange]
    target = PublishTarget(found, Address(address.exchange, routing_key, b""), True)
    target.generation = vhost.generation
    if vhost.watcher is not None:
        target.count = vhost.watcher.route(vhost.name, address.exchange, routing_key)
    if found.by_key_only:
        route = resolve(vhost, found, routing_key, _NO_PROPERTIES)
        target.take(route)
        target.is_plain = route.cacheable and bool(route.queues)
    if len(principal.targets) >= TARGETS_MAX:
        principal.targets.clear()
    principal.targets[key] = target
    return target


def route(
    container: Container,
    principal: Principal,
    target: PublishTarget,
    message: Message,
    now: int,
) -> Routed:
    vhost = principal.vhost
    exchange = target.exchange
    if target.count is not None:
        target.count.count += 1
    if isinstance(exchange, DelayedExchange) and exchange.delay_of(message.properties) > 0:
        hold_back(vhost, exchange, message, now)
        return Routed.ENQUEUED
    found = resolve(vhost, exchange, message.address.routing_key, message.properties)
    # The caller's turn is charged next and sees it.
    container.turns.spent += route_units(found)
    if not found.queues and not found.delayed:
        return Routed.NOWHERE
    interceptor = container.interceptor
    if interceptor is not None and not interceptor.admits(message, found.queues, now):
        return Routed.REFUSED
    for delayed in found.delayed:
        hold_back(vhost, delayed, message, now)
    if enqueue_all(found.queues, message, now):
        return Routed.ENQUEUED
    return Routed.REFUSED


def user_matches(properties: TransferProperties, user: str) -> bool:
    """A message that names its sender must name the one who logged in."""
    user_id = properties.user_id()
    return user_id is None or user_id == user.encode(errors="surrogateescape")
