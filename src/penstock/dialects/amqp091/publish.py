"""basic.publish: from a method payload, a header and a body to messages in queues.

`publish` is the broker's hottest function. What does not depend on the message alone is looked up
by the raw bytes: the target by the method payload, the properties by the header payload. Everything
unusual (transactions, extra routing keys, direct replies, delays, returns) takes `_publish_carefully`.
"""

from penstock.broker.errors import AccessRefused, NotFound, NotImplementedHere
from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.message import Address, Message
from penstock.broker.publishing.delayed import hold_back
from penstock.broker.publishing.publish import enqueue_all
from penstock.broker.publishing.routing import resolve
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.properties import MessageProperties, properties_of
from penstock.dialects.amqp091.reply_to import PSEUDO_QUEUE
from penstock.dialects.amqp091.staged import StagedPublish
from penstock.dialects.targets import TARGETS_MAX, PublishTarget
from penstock.dialects.turn import route_units
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.methods_generated import BasicPublish, BasicReturn
from penstock.wire.amqp091.reply_codes_generated import (
    NO_ROUTE,
    PRECONDITION_FAILED,
)


def publish(channel: Channel, method: bytes, header: bytes, body: bytes, now: int) -> None:
    principal = channel.principal
    target = principal.targets.get(method)
    if target is None or target.generation != principal.vhost.generation:
        target = _resolve_target(channel, method)
    container = channel.container
    properties = container.properties.get(header)
    if properties is None:
        properties = container.read_properties(header)
    message = Message(target.address, properties, body, channel.connection_number)
    if not (target.is_plain and properties.is_plain and channel.is_plain):
        _publish_carefully(channel, target, message, properties, now)
        return
    if target.count is not None:
        target.count.count += 1
    if target.units:
        channel.turn.charge(target.units)
    confirms = channel.confirms
    if confirms is None:
        for queue in target.queues:
            queue.enqueue(message, now)
        return
    sequence = confirms.next()
    message.sequence = sequence
    message.publisher = confirms
    if not enqueue_all(target.queues, message, now):
        confirms.refused(sequence)
    if message.is_journalled:
        confirms.journalled(sequence)
    if message.holds == 0:
        # Complete: it must not keep the channel alive while it waits in a queue.
        message.publisher = None


def _resolve_target(channel: Channel, method: bytes) -> PublishTarget:
    """Decode a publish method, check that this user may do it, and route it."""
    principal = channel.principal
    vhost = principal.vhost
    said = BasicPublish.decode(method)
    if said.immediate:
        raise NotImplementedHere("immediate=true")
    principal.check_publish(said.exchange)
    exchange = vhost.exchanges.get(said.exchange)
    if exchange is None:
        raise NotFound(f"no exchange '{said.exchange}' in vhost '{vhost.name}'")
    if exchange.internal:
        raise AccessRefused(
            f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'"
        )
    address = Address(said.exchange, said.routing_key, b"")
    target = PublishTarget(exchange, address, said.mandatory)
    target.generation = vhost.generation
    if vhost.watcher is not None:
        target.count = vhost.watcher.route(vhost.name, said.exchange, said.routing_key)
    if exchange.by_key_only and channel.container.reply_consumers.find(said.routing_key) is None:
        route = resolve(vhost, exchange, said.routing_key, channel.container.no_properties)
        channel.turn.charge(route_units(route))
        target.take(route)
        target.is_plain = (
            route.cacheable
            and not (said.mandatory and not route.queues)
            and not (not said.exchange and said.routing_key.startswith(PSEUDO_QUEUE))
        )
    if len(principal.targets) >= TARGETS_MAX:
        principal.targets.clear()
    principal.targets[method] = target
    return target


def _publish_carefully(
    channel: Channel,
    target: PublishTarget,
    message: Message,
    properties: MessageProperties,
    now: int,
) -> None:
    user_id = properties.user_id
    if user_id is not None and user_id != channel.principal.user:
        raise ChannelFault(
            PRECONDITION_FAILED,
            f"user_id property set to '{user_id}' but authenticated user was "
            f"'{channel.principal.user}'",
        )
    if properties.reply_to == PSEUDO_QUEUE:
        if channel.reply_consumer is None:
            raise ChannelFault(PRECONDITION_FAILED, "fast reply consumer does not exist")
        message.properties = properties.with_reply_to(channel.reply_consumer.address)
    if channel.transaction is not None:
        channel.transaction.stage(StagedPublish(target, message))
        return
    confirms = channel.confirms
    if confirms is not None:
        message.sequence = confirms.next()
        message.publisher = confirms
    accepted = route_and_enqueue(channel, target, message, now)
    if confirms is not None:
        if not accepted:
            confirms.refused(message.sequence)
        if message.is_journalled:
            confirms.journalled(message.sequence)
    if message.holds == 0:
        message.publisher = None


def route_and_enqueue(channel: Channel, target: PublishTarget, message: Message, now: int) -> bool:
    """Route one message with all the rules. False when a queue, or an interceptor, refused it."""
    vhost = channel.vhost
    address = message.address
    if target.count is not None:
        target.count.count += 1
    if not address.exchange:
        reply = channel.container.reply_consumers.find(address.routing_key)
        if reply is not None:
            reply.reply(message)
            return True
    exchange = target.exchange
    if isinstance(exchange, DelayedExchange) and exchange.delay_of(message.properties) > 0:
        hold_back(vhost, exchange, message, now)
        return True
    route = resolve(vhost, exchange, address.routing_key, message.properties)
    channel.turn.charge(route_units(route))
    message.properties = properties_of(message).as_delivered()
    if not route.queues and not route.delayed:
        if target.mandatory:
            _return(channel, message, NO_ROUTE, "NO_ROUTE")
        return True
    queues = route.queues
    interceptor = channel.container.interceptor
    if interceptor is not None and not interceptor.admits(message, queues, now):
        return False
    for delayed in route.delayed:
        hold_back(vhost, delayed, message, now)
    return enqueue_all(queues, message, now)


def _return(channel: Channel, message: Message, code: int, text: str) -> None:
    address = message.address
    method = BasicReturn(code, text, address.exchange, address.routing_key)
    channel.wire.send_content(
        channel.number, method.encode(), properties_of(message).header, message.body
    )
