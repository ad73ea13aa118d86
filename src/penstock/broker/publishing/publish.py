"""Putting a routed message into its queues, now or later."""

from mypy_extensions import mypyc_attr

from penstock.broker.message import Message
from penstock.broker.queues.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class PublishInterceptor:
    """Asked once per publish with the queues that were matched, before any of them is touched.

    The cluster's push decision attaches here, and faults on demand. It may hold the message to
    delay its confirm, change the list of queues, or refuse the message.
    """

    def admits(self, message: Message, queues: list[Queue], now: int) -> bool:
        """False refuses the message: its publisher hears a negative confirm."""
        raise NotImplementedError


def enqueue_all(queues: list[Queue], message: Message, now: int) -> bool:
    """Put one message into several queues. False when any of them refused it."""
    accepted = True
    for queue in queues:
        if not queue.enqueue(message, now):
            accepted = False
    return accepted
