"""basic.consume of a server that keeps a replica of a queue: who may, and of what."""

from typing import Final

from penstock.broker.arguments import STREAM
from penstock.broker.entry import NO_HOLDER
from penstock.broker.errors import PreconditionFailed
from penstock.broker.internal_queues import is_internal
from penstock.broker.names import described
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.replicas.feed_batch import (
    HELD_ARGUMENT,
    SUBSCRIPTION_ARGUMENT,
    decode_held,
)
from penstock.broker.replicas.queue_feed import QueueFeed
from penstock.broker.replication_level import ReplicationLevel
from penstock.broker.topology import NO_CONNECTION, NumberFrom
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.replica_consume import ReplicaConsumer, ReplicaOutput
from penstock.wire.amqp091.methods_generated import BasicConsume

# The epoch by which a server on its own numbers when the first replica of one of its queues comes.
_FIRST_EPOCH: Final = 1


def subscribe_replica(
    channel: Channel, method: BasicConsume, queue: MessageQueue, tag: str, now: int
) -> None:
    """Register the subscription; the caller has checked the permission to read, and answers. The
    messages stay: a replica sees them and takes none.
    """
    _check_source(channel, queue)
    if method.no_ack or not channel.consumer_prefetch:
        raise PreconditionFailed(
            "the subscription of a replica must acknowledge, and have a prefetch"
        )
    container = channel.container
    state = container.state
    if not state.shared.is_replicated and not state.epoch:
        # Positions that this server has lost in a crash must not be given again.
        state.apply(NumberFrom(_FIRST_EPOCH), now)
    incarnation = f"{container.store_name}/{queue.number:x}"
    is_accepted = method.arguments[SUBSCRIPTION_ARGUMENT] == incarnation
    consumer = ReplicaConsumer(channel, channel.deliveries, queue, tag, channel.consumer_prefetch)
    output = ReplicaOutput(consumer, container)
    consumer.output = output
    if is_accepted:
        held = method.arguments.get(HELD_ARGUMENT, b"")
        if not isinstance(held, (bytes, bytearray)):
            raise PreconditionFailed(f"invalid arg '{HELD_ARGUMENT}': expected a byte array")
        ranges = decode_held(bytes(held), queue.end_position())
        # What stands for the batches of other replicas has no holder.
        out = [
            entry
            for owner, entry in container.unsettled.unsettled()
            if owner is queue and entry.holder != NO_HOLDER
        ]
        output.feed = QueueFeed(queue, ranges, out, state.wall, output.listener)
        queue.observers.append(output.feed)
    consumer.prefetch_count = channel.consumer_prefetch
    channel.deliveries.has_had_owners = True
    channel.consumers[tag] = consumer
    output.greet(incarnation, is_accepted)


def _check_source(channel: Channel, queue: MessageQueue) -> None:
    """Whether a queue can have a replica. Raises a `Refusal`."""
    what = f"{described('queue', queue.name, channel.vhost.name)} cannot have a replica"
    if queue.queue_type is STREAM:
        raise PreconditionFailed(f"{what}: it is a stream")
    if queue.exclusive_owner != NO_CONNECTION:
        raise PreconditionFailed(f"{what}: it is exclusive")
    if not queue.durable or is_internal(queue.name, queue.arguments):
        raise PreconditionFailed(f"{what}: it is not a durable queue of clients")
    if queue.level is not ReplicationLevel.ALL:
        raise PreconditionFailed(
            f"{what}: its level of replication is '{queue.level.value}', so a failover loses what it has"
        )
    if queue.following is not None:
        raise PreconditionFailed(
            f"{what}: it is itself a replica, of {queue.following.source()}. Replicate that one; "
            "replicas of replicas could form a circle"
        )
    if not channel.container.store_name:
        raise PreconditionFailed(f"{what}: its server has no data directory")
