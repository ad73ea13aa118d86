"""Where a link receives from: a queue, a stream, or a subscription to an exchange.

`resolve_source` checks permissions and makes what has to be made. It raises a `Refusal`, and then
nothing was changed, except that an exchange may have been created as asked.
"""

from typing import Final

from penstock.broker.arguments import STREAM
from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.names import described, server_named
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp10.nodes.addresses import parse_source, queue_address
from penstock.dialects.amqp10.nodes.creation import (
    CREATE,
    QUEUE_CAPABILITIES,
    TOPIC_CAPABILITIES,
    answered_properties,
    create_bare_queue,
    create_dynamic_queue,
    create_exchange,
    create_queue,
    means_stream,
    means_topic,
    wants_creation,
)
from penstock.dialects.amqp10.nodes.filters import Place, Selection, read_selection
from penstock.dialects.amqp10.nodes.lifetimes import NodeLife, life_for_others
from penstock.dialects.amqp10.nodes.subscriptions import (
    ADDRESS_ARGUMENT,
    GLOBAL,
    SHARED,
    UNSETTLED_STATE,
    Subscribed,
    SubscriptionName,
    recall,
    subscribe,
)
from penstock.dialects.amqp10.nodes.termini import (
    NEVER,
    Ending,
    Node,
    address_text,
    check_expiry,
    check_no_address,
)
from penstock.dialects.principal import Principal
from penstock.wire.amqp10.performatives_generated import Released, Source
from penstock.world.entropy import Entropy

_MOVE: Final = "move"
_COPY: Final = "copy"
_OUTCOMES: Final = (
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
)
_QUEUE_OFFERS: Final = QUEUE_CAPABILITIES | {CREATE}
_SUBSCRIPTION_OFFERS: Final = TOPIC_CAPABILITIES | {CREATE, SHARED, GLOBAL}


class SourceNode(Node):
    """Where a link receives from. Held by the link, also while it is suspended."""

    def __init__(self, source: Source, queue: MessageQueue, selection: Selection) -> None:
        super().__init__(source.expiry_policy, source.timeout, source.durable)
        self._asked: Source = source
        self.queue: MessageQueue = queue
        self.selection: Selection = selection
        self.is_subscription: bool = False
        # What the attach answer says.
        self.answered: Source = source
        # True for a browser, which leaves messages where they are.
        self.browses: bool = False

    @property
    def no_local(self) -> bool:
        return self.selection.no_local

    def is_for(self, source: Source) -> bool:
        """Whether an attach of this link asks for the same thing again."""
        asked = self._asked
        if source.dynamic or asked.dynamic:
            # A peer that resumes names the address that it was given.
            return source.address == self.answered.address
        return (
            source.address == asked.address
            and source.filter_ == asked.filter_
            and source.distribution_mode == asked.distribution_mode
            and source.capabilities == asked.capabilities
        )


def resolve_source(
    principal: Principal,
    vhost: VirtualHost,
    source: Source,
    container_id: str,
    link_name: str,
    connection_number: int,
    entropy: Entropy,
    now: int,
    creates_queues: bool = False,
) -> SourceNode:
    """`creates_queues` says whether a bare name that is missing is created as a queue."""
    check_expiry(source.expiry_policy)
    if source.dynamic:
        return _dynamic_source(principal, vhost, source, connection_number, entropy, now)
    if source.address is None:
        raise PreconditionFailed("a source has an address or is dynamic")
    address = parse_source(address_text(source.address), vhost, means_topic(source.capabilities))
    creates = wants_creation(source.capabilities, source.dynamic_node_properties)
    if address.queue is not None:
        creates_bare = creates_queues and address.is_bare
        return _queue_source(
            principal, vhost, source, address.queue, connection_number, creates_bare, now
        )
    if creates and address.exchange not in vhost.exchanges:
        properties = source.dynamic_node_properties
        create_exchange(principal, vhost, address.exchange, properties, now)
    wish = SubscriptionName(source, container_id, link_name)
    subscribed = subscribe(principal, vhost, source, address, wish, connection_number, entropy, now)
    return _subscription_node(source, subscribed, source.address)


def recall_source(
    principal: Principal,
    vhost: VirtualHost,
    desired_capabilities: list[str],
    container_id: str,
    link_name: str,
    connection_number: int,
) -> SourceNode:
    """For a receiver that attaches without a source: the durable subscription of its name, so that
    it can be looked at and unsubscribed. Raises `NotFound`.
    """
    asked = Source(durable=UNSETTLED_STATE, expiry_policy=NEVER, capabilities=desired_capabilities)
    wish = SubscriptionName(asked, container_id, link_name)
    subscribed = recall(principal, vhost, wish, connection_number)
    return _subscription_node(asked, subscribed, subscribed.queue.arguments[ADDRESS_ARGUMENT])


def release_source(node: SourceNode, how: Ending, now: int) -> None:
    """The caller has taken its consumer off the queue."""
    node.ended(how, now)


def resume_source(node: SourceNode) -> None:
    """A suspended link is attached again. Raises `NotFound` when its queue is gone."""
    if node.queue.is_deleted:
        raise NotFound(f"no {described('queue', node.queue.name, node.queue.vhost.name)}")
    node.resumed()


def _queue_source(
    principal: Principal,
    vhost: VirtualHost,
    source: Source,
    name: str,
    connection_number: int,
    creates_bare: bool,
    now: int,
) -> SourceNode:
    principal.check_read_queue(name)
    properties = source.dynamic_node_properties
    life: NodeLife | None = None
    is_maker = False
    if name not in vhost.queues and wants_creation(source.capabilities, properties):
        _check_filters(source, connection_number)
        life = create_queue(principal, vhost, name, properties, connection_number, now)
        is_maker = True
    elif name not in vhost.queues and creates_bare:
        _check_filters(source, connection_number)
        life = create_bare_queue(principal, vhost, name, properties, connection_number, now)
        is_maker = True
    queue = vhost.accessible_queue(name, connection_number)
    node = _read_node(vhost, source, queue, connection_number)
    node.belongs_to(life if is_maker else life_for_others(queue), is_maker)
    node.answered = _answered_source(source, node, source.address, _QUEUE_OFFERS)
    return node


def _read_node(
    vhost: VirtualHost, source: Source, queue: MessageQueue, connection_number: int
) -> SourceNode:
    place = Place.STREAM if queue.queue_type is STREAM else Place.QUEUE
    what = described("queue", queue.name, vhost.name)
    selection = read_selection(source.filter_, place, False, what, connection_number)
    node = SourceNode(source, queue, selection)
    node.browses = source.distribution_mode == _COPY and place is Place.QUEUE
    return node


def _check_filters(source: Source, connection_number: int) -> None:
    """Checked before the queue is made: invalid filters must not leave one behind."""
    is_stream = means_stream(source.dynamic_node_properties)
    place = Place.STREAM if is_stream else Place.QUEUE
    read_selection(source.filter_, place, False, "a new queue", connection_number)


def _subscription_node(source: Source, subscribed: Subscribed, address: object) -> SourceNode:
    node = SourceNode(source, subscribed.queue, subscribed.selection)
    node.is_subscription = True
    node.belongs_to(subscribed.life, True)
    node.answered = _answered_source(source, node, address, _SUBSCRIPTION_OFFERS)
    return node


def _dynamic_source(
    principal: Principal,
    vhost: VirtualHost,
    source: Source,
    connection_number: int,
    entropy: Entropy,
    now: int,
) -> SourceNode:
    check_no_address(source.address)
    properties = source.dynamic_node_properties
    goes_with_connection = source.timeout == 0 and source.expiry_policy != NEVER
    name = server_named(entropy)
    principal.check_read_queue(name)
    _check_filters(source, connection_number)
    life = create_dynamic_queue(
        principal, vhost, name, properties, goes_with_connection, connection_number, now
    )
    node = _read_node(vhost, source, life.queue, connection_number)
    node.belongs_to(life, True)
    address = queue_address(life.queue.name)
    node.answered = _answered_source(source, node, address, _QUEUE_OFFERS)
    node.answered.dynamic_node_properties = answered_properties(life.lifetime, properties)
    return node


def _answered_source(
    asked: Source, node: SourceNode, address: object, offers: frozenset[str]
) -> Source:
    mode = asked.distribution_mode if node.is_subscription else _MOVE
    if node.browses or node.queue.keeps_messages:
        mode = _COPY
    return Source(
        address,
        asked.durable,
        asked.expiry_policy,
        asked.timeout,
        asked.dynamic,
        asked.dynamic_node_properties,
        mode,
        node.selection.in_force or None,
        asked.default_outcome or Released(),
        [name for name in _OUTCOMES if not asked.outcomes or name in asked.outcomes],
        [name for name in asked.capabilities if name in offers],
    )
