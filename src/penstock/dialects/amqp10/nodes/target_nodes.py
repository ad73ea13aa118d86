"""Where messages of a link go: a queue, an exchange, or what each message says.

`resolve_target` checks permissions and makes what has to be made. It raises a `Refusal`, and then
nothing was changed, except that an exchange may have been created as asked.
"""

from typing import Final

from penstock.broker.bound_exchanges import DEFAULT_EXCHANGE
from penstock.broker.errors import AccessRefused, PreconditionFailed
from penstock.broker.names import described, server_named
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp10.nodes.addresses import (
    TargetAddress,
    exchange_address,
    parse_target,
    queue_address,
)
from penstock.dialects.amqp10.nodes.creation import (
    CREATE,
    QUEUE_CAPABILITIES,
    TOPIC_CAPABILITIES,
    TemporaryTopic,
    answered_properties,
    create_bare_queue,
    create_dynamic_queue,
    create_exchange,
    create_queue,
    create_temporary_topic,
    means_topic,
    wants_creation,
)
from penstock.dialects.amqp10.nodes.lifetimes import Lifetime, NodeLife, life_for_others
from penstock.dialects.amqp10.nodes.termini import (
    Ending,
    Node,
    address_text,
    check_expiry,
    check_no_address,
)
from penstock.dialects.principal import Principal
from penstock.wire.amqp10.performatives_generated import Target
from penstock.world.entropy import Entropy

_QUEUE_OFFERS: Final = QUEUE_CAPABILITIES | {CREATE}
_TOPIC_OFFERS: Final = TOPIC_CAPABILITIES | {CREATE}


class TargetNode(Node):
    """Where a link's messages go. Held by the link, also while it is suspended."""

    def __init__(self, target: Target, address: TargetAddress | None) -> None:
        super().__init__(target.expiry_policy, target.timeout, target.durable)
        # None is the anonymous terminus: see `resolve_anonymous`.
        self.address: TargetAddress | None = address
        # What the attach answer says.
        self.answered: Target = target
        self.topic: TemporaryTopic | None = None


def resolve_target(
    principal: Principal,
    vhost: VirtualHost,
    target: Target,
    connection_number: int,
    entropy: Entropy,
    now: int,
    creates_queues: bool = False,
) -> TargetNode:
    """`creates_queues` says whether a bare name that is missing is created as a queue."""
    check_expiry(target.expiry_policy)
    if target.dynamic:
        return _dynamic_target(principal, vhost, target, connection_number, entropy, now)
    asked = None if target.address is None else address_text(target.address)
    address = parse_target(asked, vhost, means_topic(target.capabilities))
    if address is None:
        node = TargetNode(target, None)
        node.answered = _answered_target(target, None, frozenset())
        return node
    properties = target.dynamic_node_properties
    creates = wants_creation(target.capabilities, properties)
    life: NodeLife | None = None
    is_maker = False
    principal.check_publish(address.exchange)
    if creates and address.exchange not in vhost.exchanges:
        create_exchange(principal, vhost, address.exchange, properties, now)
    check_target(principal, vhost, address)
    name = address.queue
    if name is not None:
        if creates and name not in vhost.queues:
            life = create_queue(principal, vhost, name, properties, connection_number, now)
            is_maker = True
        elif creates_queues and address.is_bare and name not in vhost.queues:
            life = create_bare_queue(principal, vhost, name, properties, connection_number, now)
            is_maker = True
        else:
            life = life_for_others(vhost.queue(name))
    node = TargetNode(target, address)
    node.belongs_to(life, is_maker)
    offers = _TOPIC_OFFERS if name is None else _QUEUE_OFFERS
    node.answered = _answered_target(target, asked, offers)
    return node


def resolve_anonymous(principal: Principal, vhost: VirtualHost, to: str | None) -> TargetAddress:
    """Where a message goes that came over an anonymous terminus. The result is valid until the
    virtual host's generation changes.
    """
    address = parse_target(to, vhost)
    if address is None:
        raise PreconditionFailed("anonymous terminus requires 'to' address to be set")
    check_target(principal, vhost, address)
    return address


def check_target(principal: Principal, vhost: VirtualHost, address: TargetAddress) -> None:
    """Check that this user may publish there, and that the exchange exists."""
    principal.check_publish(address.exchange)
    exchange = vhost.exchange(address.exchange)
    if exchange.internal:
        what = described("exchange", exchange.name, vhost.name)
        raise AccessRefused(f"cannot publish to internal {what}")


def release_target(node: TargetNode, how: Ending, now: int) -> None:
    node.ended(how, now)
    if node.topic is not None and how is not Ending.SUSPENDED:
        node.topic.end(now)


def resume_target(node: TargetNode) -> None:
    node.resumed()


def _dynamic_target(
    principal: Principal,
    vhost: VirtualHost,
    target: Target,
    connection_number: int,
    entropy: Entropy,
    now: int,
) -> TargetNode:
    check_no_address(target.address)
    properties = target.dynamic_node_properties
    if means_topic(target.capabilities):
        topic = create_temporary_topic(principal, vhost, entropy, now)
        node = TargetNode(target, TargetAddress(topic.exchange.name, None))
        node.topic = topic
        address = exchange_address(topic.exchange.name, None)
        node.answered = _answered_target(target, address, _TOPIC_OFFERS)
        node.answered.dynamic_node_properties = answered_properties(Lifetime.ON_CLOSE, None)
        return node
    principal.check_publish(DEFAULT_EXCHANGE)
    name = server_named(entropy)
    life = create_dynamic_queue(principal, vhost, name, properties, False, connection_number, now)
    node = TargetNode(target, TargetAddress(DEFAULT_EXCHANGE, life.queue.name))
    node.belongs_to(life, True)
    address = queue_address(life.queue.name)
    node.answered = _answered_target(target, address, _QUEUE_OFFERS)
    node.answered.dynamic_node_properties = answered_properties(life.lifetime, properties)
    return node


def _answered_target(asked: Target, address: str | None, offers: frozenset[str]) -> Target:
    return Target(
        address,
        asked.durable,
        asked.expiry_policy,
        asked.timeout,
        asked.dynamic,
        asked.dynamic_node_properties,
        [name for name in asked.capabilities if name in offers],
    )
