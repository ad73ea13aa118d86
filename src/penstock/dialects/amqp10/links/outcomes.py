"""How the outcome of a receiver is applied to its delivery.

    outcome                             the queue
    accepted                            forgets it
    rejected                            dead-letters it, or drops it
    released                            has it back in its place, nothing counted
    modified, delivery-failed           has it back, one more failed delivery
    modified, undeliverable-here        dead-letters it as if rejected, as RabbitMQ does
    modified, neither                   has it back, nothing counted

Annotations of modified whose names begin with `x-` are put on the message.
"""

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.names import NAME_OCTETS_MAX
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp10.messages.neutral_values import to_neutral
from penstock.wire.amqp10.performatives_generated import Accepted, Modified, Rejected, Released
from penstock.wire.amqp10.values import Composite


def apply_outcome(
    queue: MessageQueue, entry: QueueEntry, holder: int, outcome: Composite | None, now: int
) -> None:
    """Ignored when the entry is no longer out with `holder`."""
    if isinstance(outcome, Accepted):
        queue.acknowledge(entry, holder)
    elif isinstance(outcome, Rejected):
        queue.reject(entry, now, holder)
    elif isinstance(outcome, Modified) and entry.holder == holder:
        if outcome.message_annotations and not queue.keeps_messages:
            entry.message = _annotated(entry.message, outcome.message_annotations)
        if outcome.undeliverable_here:
            queue.reject(entry, now, holder)
        else:
            queue.requeue([entry], now, outcome.delivery_failed is True, holder)
    else:
        queue.requeue([entry], now, False, holder)


def give_back(
    queue: MessageQueue,
    entries: list[QueueEntry],
    holder: int,
    default_outcome: Composite | None,
    now: int,
) -> None:
    """Give back entries that will not be settled. Without a default outcome each counts as a failed
    delivery, so that a message which kills its receivers does not go round for ever.
    """
    if default_outcome is None:
        if entries:
            queue.requeue(entries, now, True, holder)
        return
    for entry in entries:
        apply_outcome(queue, entry, holder, default_outcome, now)


def is_final(state: Composite | None) -> bool:
    """Whether a delivery state is an outcome."""
    return isinstance(state, (Accepted, Rejected, Released, Modified))


def _annotated(message: Message, annotations: dict[object, object]) -> Message:
    """The same message with more annotations. They are not journalled: after a restart the message
    has its original annotations.
    """
    headers = dict(message.properties.headers())
    for key, value in annotations.items():
        if isinstance(key, str) and key.startswith("x-") and len(key) <= NAME_OCTETS_MAX:
            headers[str(key)] = to_neutral(value)
    properties = message.properties.rewritten(headers, drop_expiration=False)
    annotated = Message(message.address, properties, message.body, message.origin)
    annotated.location = message.location
    annotated.is_journalled = message.is_journalled
    return annotated
