"""basic.consume, cancel, get and qos."""

import base64
from typing import Final

from penstock.broker.arguments import STREAM
from penstock.broker.errors import AccessRefused, NotFound, PreconditionFailed
from penstock.broker.field_types import type_name
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.replicas.feed_batch import SUBSCRIPTION_ARGUMENT
from penstock.dialects.amqp091.acknowledge import requeue_all
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.consume import DELIVERY_COUNT, ChannelConsumer, Getter
from penstock.dialects.amqp091.properties import properties_of
from penstock.dialects.amqp091.replica_subscribe import subscribe_replica
from penstock.dialects.amqp091.reply_to import PSEUDO_QUEUE, TOKEN_OCTETS, ReplyConsumer
from penstock.dialects.amqp091.stream_subscribe import consume_stream
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.methods_generated import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    BasicRecoverOk,
)
from penstock.wire.amqp091.reply_codes_generated import (
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
)
from penstock.wire.outgoing import DELIVERY_BYTES_MAX

TAG_OCTETS: Final = 16


def named_queue(channel: Channel, name: str) -> str:
    """An empty name stands for the queue this channel declared last."""
    if name:
        return name
    if not channel.last_queue:
        raise NotFound("no previously declared queue")
    return channel.last_queue


def drawn_tag(channel: Channel) -> str:
    octets = channel.container.entropy.octets(TAG_OCTETS)
    return "amq.ctag-" + base64.urlsafe_b64encode(octets).decode().rstrip("=")


def consume(channel: Channel, method: BasicConsume, now: int) -> None:
    tag = method.consumer_tag or drawn_tag(channel)
    if tag in channel.consumers or (
        channel.reply_consumer is not None and channel.reply_consumer.consumer.tag == tag
    ):
        raise ConnectionFault(NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
    if method.queue == PSEUDO_QUEUE:
        _consume_replies(channel, method, tag)
        return
    name = named_queue(channel, method.queue)
    channel.principal.check_read_queue(name)
    queue = channel.vhost.accessible_queue(name, channel.connection_number)
    if SUBSCRIPTION_ARGUMENT in method.arguments:
        subscribe_replica(channel, method, queue, tag, now)
    elif queue.queue_type is STREAM:
        consume_stream(channel, method, queue, tag, now)
    else:
        _consume_queue(channel, method, queue, tag)
    # The answer goes out before the first delivery: deliveries happen at the end of the tick.
    if not method.no_wait:
        channel.wire.send_method(channel.number, BasicConsumeOk(tag))


def _consume_queue(channel: Channel, method: BasicConsume, queue: MessageQueue, tag: str) -> None:
    name = queue.name
    if queue.settings.single_active_consumer and method.exclusive:
        raise AccessRefused(f"queue '{name}' in vhost '{channel.vhost.name}' in exclusive use")
    if queue.counts_deliveries and channel.deliveries.has_limit:
        raise ConnectionFault(
            NOT_IMPLEMENTED,
            f"queue '{name}' in vhost '{channel.vhost.name}' does not support global qos",
        )
    if "x-stream-offset" in method.arguments:
        raise PreconditionFailed(
            f"invalid arg 'x-stream-offset' for queue '{name}' in vhost '{channel.vhost.name}' "
            f"of queue type {queue.settings.queue_type.module_name}"
        )
    consumer = ChannelConsumer(
        channel,
        channel.deliveries,
        queue,
        tag,
        _priority_of(channel, name, method.arguments),
        method.exclusive,
        method.no_ack,
    )
    if method.no_ack:
        channel.deliveries.has_had_unowned = True
    else:
        channel.deliveries.has_had_owners = True
    if channel.consumer_prefetch and not method.no_ack:
        consumer.credit = channel.consumer_prefetch
    consumer.prefetch_count = channel.consumer_prefetch
    if method.arguments:
        consumer.arguments = method.arguments
    if method.no_local:
        consumer.selective = True
        consumer.no_local_origin = channel.connection_number
    queue.add_consumer(consumer)
    channel.consumers[tag] = consumer


def _priority_of(channel: Channel, queue: str, arguments: dict[str, object]) -> int:
    priority = arguments.get("x-priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise PreconditionFailed(
            f"invalid arg 'x-priority' for queue '{queue}' in vhost '{channel.vhost.name}': "
            f'"expected integer, got {type_name(priority)}"'
        )
    return priority


def _consume_replies(channel: Channel, method: BasicConsume, tag: str) -> None:
    if not method.no_ack:
        raise ChannelFault(PRECONDITION_FAILED, "reply consumer cannot acknowledge")
    if channel.reply_consumer is not None:
        raise ChannelFault(PRECONDITION_FAILED, "reply consumer already set")
    octets = channel.container.entropy.octets(TOKEN_OCTETS)
    token = base64.urlsafe_b64encode(octets).decode().rstrip("=")
    consumer = ChannelConsumer(
        channel, channel.deliveries, channel.dialect.reply_queue, tag, 0, False, True
    )
    channel.deliveries.has_had_unowned = True
    channel.reply_consumer = ReplyConsumer(token, consumer)
    channel.dialect.reply_consumers.add(channel.reply_consumer)
    if not method.no_wait:
        channel.wire.send_method(channel.number, BasicConsumeOk(tag))


def cancel(channel: Channel, method: BasicCancel, now: int) -> None:
    tag = method.consumer_tag
    consumer = channel.consumers.pop(tag, None)
    reply_consumer = channel.reply_consumer
    if consumer is not None:
        consumer.leave(now)
    elif reply_consumer is not None and reply_consumer.consumer.tag == tag:
        channel.dialect.reply_consumers.remove(reply_consumer)
        channel.reply_consumer = None
    if not method.no_wait:
        channel.wire.send_method(channel.number, BasicCancelOk(tag))


def get(channel: Channel, method: BasicGet, now: int) -> None:
    name = named_queue(channel, method.queue)
    channel.principal.check_read_queue(name)
    queue = channel.vhost.accessible_queue(name, channel.connection_number)
    entry = queue.get(now, channel.deliveries.holder)
    deliveries = channel.deliveries
    if entry is None:
        deliveries.got_empty += 1
        channel.container.got_empty_total += 1
        channel.wire.send_method(channel.number, BasicGetEmpty())
        return
    deliveries.tag += 1
    message = channel.container.translator.for_amqp091(entry.message)
    properties = properties_of(message)
    if queue.counts_deliveries:
        properties = properties.with_header(DELIVERY_COUNT, entry.delivery_count)
    said = BasicGetOk(
        deliveries.tag,
        entry.is_redelivered,
        message.address.exchange,
        message.address.routing_key,
        queue.message_count,
    )
    channel.wire.send_content(channel.number, said.encode(), properties.header, message.body)
    if channel.wire.outgoing.size >= DELIVERY_BYTES_MAX:
        # Many gets in one read would all be answered at once, and together be too much to wait.
        channel.turn.end()
    if method.no_ack:
        deliveries.got_unowned += 1
        channel.container.got_unowned_total += 1
        queue.acknowledge(entry, deliveries.holder)
    else:
        deliveries.got += 1
        channel.container.got_total += 1
        getter = Getter(channel, deliveries, queue, "", 0, False, False)
        deliveries.unacknowledged.add(deliveries.tag, entry, getter)
        deliveries.credit -= 1


def set_prefetch(channel: Channel, method: BasicQos) -> None:
    """Without `global` the count holds for consumers to come, with it for the whole channel, which
    is RabbitMQ's reading of the flag.
    """
    if method.prefetch_size:
        raise ConnectionFault(NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.deliveries.set_limit(method.prefetch_count)
    else:
        channel.consumer_prefetch = method.prefetch_count
    channel.wire.send_method(channel.number, BasicQosOk())


def recover(channel: Channel, requeue: bool, answers: bool, now: int) -> None:
    if not requeue:
        raise ConnectionFault(NOT_IMPLEMENTED, "requeue=false")
    # The answer goes first: deliveries before it count as requeued.
    if answers:
        channel.wire.send_method(channel.number, BasicRecoverOk())
    transaction = channel.transaction
    requeue_all(channel.deliveries, now, None if transaction is None else transaction.tags)
