"""basic.publish: from a method payload, a header and a body to messages in queues.

`publish` is the broker's hottest function. What does not depend on the message alone is looked up
by the raw bytes: the target by the method payload, the properties by the header payload, unless that
names its message and is never seen again. Everything unusual (transactions, extra routing keys,
direct replies, delays, returns) takes `_publish_carefully`. Either way ends in the broker's
`publishing`, which does the rest.
"""

from penstock.broker.access.permissions import Permission
from penstock.broker.errors import AccessRefused, NotFound, NotImplementedHere
from penstock.broker.message import Address, Message
from penstock.broker.publishing.publish import Outcome, publish_plain
from penstock.broker.publishing.publish import publish as broker_publish
from penstock.broker.publishing.target import Target, resolve_target
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.properties import MessageProperties, properties_of
from penstock.dialects.amqp091.reply_to import PSEUDO_QUEUE, is_direct_reply
from penstock.dialects.amqp091.staged import StagedPublish
from penstock.dialects.turn import plain_units
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.methods_generated import BasicPublish, BasicReturn
from penstock.wire.amqp091.reply_codes_generated import (
    NO_ROUTE,
    PRECONDITION_FAILED,
)


def publish(channel: Channel, method: bytes, header: bytes, body: bytes, now: int) -> None:
    channel.published += 1
    principal = channel.principal
    target = principal.targets.get(method)
    if target is None or target.generation != principal.vhost.routing.generation:
        target = _resolve_target(channel, method)
    properties = channel.properties_of(header)
    message = Message(target.address, properties, body, channel.connection_number)
    if not (target.is_plain and properties.is_plain and channel.is_plain):
        _publish_carefully(channel, target, message, properties, now)
        return
    if target.units:
        channel.turn.charge(target.units)
    confirms = channel.confirms
    if confirms is None:
        # This is `publish_plain`, written out: here the call would be noticed.
        if target.count is not None:
            target.count.count += 1
        for queue in target.queues:
            queue.enqueue(message, now)
        return
    sequence = confirms.next()
    message.sequence = sequence
    message.publisher = confirms
    if not publish_plain(target, message, now):
        confirms.refused(sequence)
    if message.is_journalled:
        confirms.journalled(sequence)
    if message.holds == 0:
        # Complete: it must not keep the channel alive while it waits in a queue.
        message.publisher = None


def _resolve_target(channel: Channel, method: bytes) -> Target:
    """Decode a publish method, check that this user may do it, and find where it goes."""
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
    principal.check_topic(Permission.WRITE, exchange, said.routing_key)
    # With the exchange's own name, which its targets share.
    address = Address(exchange.name, said.routing_key, b"")
    target = resolve_target(vhost.routing, exchange, address)
    channel.turn.routed(target)
    target.mandatory = said.mandatory
    target.units = plain_units(target)
    target.is_plain = target.is_fixed and target.reaches_any and not is_direct_reply(target.address)
    principal.keep(method, target)
    return target


def _publish_carefully(
    channel: Channel,
    target: Target,
    message: Message,
    properties: MessageProperties,
    now: int,
) -> None:
    if properties.has_extra_keys:
        channel.principal.check_copies(target.address.exchange, properties)
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
    accepted = publish_with_all_rules(channel, target, message, now)
    if confirms is not None:
        if not accepted:
            confirms.refused(message.sequence)
        if message.is_journalled:
            confirms.journalled(message.sequence)
    if message.holds == 0:
        message.publisher = None


def publish_with_all_rules(channel: Channel, target: Target, message: Message, now: int) -> bool:
    """Deliver a message as a direct reply, or publish it, and return it when it is mandatory and
    reaches no queue. False when it was refused.
    """
    if is_direct_reply(message.address):
        reply = channel.dialect.reply_consumers.find(message.address.routing_key)
        if reply is not None:
            target.counted(1)
            reply.reply(message)
            return True
    outcome = broker_publish(
        channel.vhost.routing, target, message, channel.container.interceptor, channel.turn, now
    )
    return_unrouted(channel, target, message, outcome)
    return outcome is not Outcome.REFUSED


def return_unrouted(channel: Channel, target: Target, message: Message, outcome: Outcome) -> None:
    if outcome is Outcome.UNROUTED:
        if target.mandatory:
            _return(channel, message, NO_ROUTE, "NO_ROUTE")
        else:
            channel.container.dropped_total += 1


def _return(channel: Channel, message: Message, code: int, text: str) -> None:
    channel.returned += 1
    channel.container.returned_total += 1
    address = message.address
    method = BasicReturn(code, text, address.exchange, address.routing_key)
    channel.wire.send_content(
        channel.number, method.encode(), properties_of(message).header, message.body
    )
