"""Which arguments of a queue can be changed while it is there, and what a change amounts to.

Safe are those that only say what happens next: times to live, limits, dead-lettering, the expiry of
the queue, the limit of deliveries. They take effect at once, as a policy with the same settings
would: a smaller limit drops what exceeds it, a time to live counts for messages that arrive later.
What decides how messages are stored or who gets them cannot change under them.
"""

from typing import Final

from penstock.broker.arguments import QueueType, check_queue_arguments
from penstock.broker.errors import PreconditionFailed
from penstock.broker.internal_queues import is_internal
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import NO_CONNECTION

CHANGEABLE: Final = (
    "x-message-ttl",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-expires",
    "x-delivery-limit",
    "x-max-age",
)


def changed_arguments(
    what: str, queue: MessageQueue, changes: dict[str, object], types: dict[str, QueueType]
) -> dict[str, object]:
    """All arguments of the queue after a change. Raises `PreconditionFailed` for one that is not
    safe, or whose result could not be declared. `what` reads "queue 'q' in vhost '/'".
    """
    if is_internal(queue.name, queue.arguments):
        raise PreconditionFailed(
            f"{what} is an internal queue of the broker; its arguments cannot be changed"
        )
    arguments = dict(queue.arguments)
    for name, value in changes.items():
        if name not in CHANGEABLE:
            raise PreconditionFailed(
                f"argument '{name}' of {what} cannot be changed in place; declare another queue "
                "with the arguments that you want, move the messages there, and delete this one. "
                f"These can be changed: {', '.join(CHANGEABLE)}"
            )
        if value is None:
            arguments.pop(name, None)
        else:
            arguments[name] = value
    check_queue_arguments(
        what,
        arguments,
        queue.durable,
        queue.exclusive_owner != NO_CONNECTION,
        queue.auto_delete,
        types,
    )
    return arguments
