"""basic.consume of a stream: what RabbitMQ asks for, and where the reader begins."""

from typing import Final

from penstock.broker.arguments import STREAM
from penstock.broker.errors import NotImplementedHere, PreconditionFailed
from penstock.broker.field_types import type_name
from penstock.broker.header_values import Timestamp
from penstock.broker.names import NAME_OCTETS_MAX, described
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.reading import OFFSET_ARGUMENT, Reading, start_of
from penstock.broker.streams.filters import filter_of
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.stream_consume import StreamConsumer
from penstock.wire.amqp091.field_table import Timestamp as WireTimestamp
from penstock.wire.amqp091.methods_generated import BasicConsume

CURSOR_ARGUMENT: Final = "x-stream-cursor"


def consume_stream(
    channel: Channel, method: BasicConsume, stream: MessageQueue, tag: str, now: int
) -> None:
    """Register the consumer; the caller answers."""
    queue = described("queue", stream.name, channel.vhost.name)
    if not channel.consumer_prefetch:
        raise PreconditionFailed(f"consumer prefetch count is not set for '{queue}'")
    if method.no_ack:
        raise NotImplementedHere(
            f"automatic acknowledgement not supported by stream queues {queue}"
        )
    arguments = method.arguments
    if "x-priority" in arguments:
        raise PreconditionFailed(
            f"invalid arg 'x-priority' for {queue} of queue type {STREAM.module_name}"
        )
    cursor = _cursor_of(queue, arguments)
    start = start_of(queue, _neutral(arguments), bool(cursor))
    wanted = filter_of(queue, arguments)
    consumer = StreamConsumer(
        channel, channel.deliveries, stream, tag, method.exclusive, channel.consumer_prefetch
    )
    channel.deliveries.has_had_owners = True
    consumer.prefetch_count = channel.consumer_prefetch
    if arguments:
        consumer.arguments = arguments
    stream.subscribe(consumer, Reading(start, cursor, wanted), now)
    channel.consumers[tag] = consumer
    if cursor:
        # It is confirmed only when its definition is durable, whoever made it.
        channel.container.hold_until_durable(channel.wire.outgoing)


def _cursor_of(queue: str, arguments: dict[str, object]) -> str:
    if CURSOR_ARGUMENT not in arguments:
        return ""
    cursor = arguments[CURSOR_ARGUMENT]
    if not isinstance(cursor, str):
        reason = f"expected longstr, got {type_name(cursor)}"
    elif not 0 < len(cursor.encode(errors="surrogateescape")) <= NAME_OCTETS_MAX:
        reason = f"the name of a cursor must have 1 to {NAME_OCTETS_MAX} bytes"
    else:
        return cursor
    raise PreconditionFailed(f"invalid arg '{CURSOR_ARGUMENT}' for {queue}: \"{reason}\"")


def _neutral(arguments: dict[str, object]) -> dict[str, object]:
    """With the broker's own timestamp type in place of the wire's."""
    offset = arguments.get(OFFSET_ARGUMENT)
    if not isinstance(offset, WireTimestamp):
        return arguments
    neutral = dict(arguments)
    neutral[OFFSET_ARGUMENT] = Timestamp(offset.seconds)
    return neutral
