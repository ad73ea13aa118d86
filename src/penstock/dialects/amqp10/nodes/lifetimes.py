"""The lifetime of a queue that was made for a link (specification 3.5.10 to 3.5.13).

A `NodeLife` observes its queue, and is found again among its observers by whoever attaches to the
queue later. So it lives as long as the queue; queues with a lifetime do not outlive the process,
except for durable subscriptions, whose life begins anew with the next attach.

Invariant: `links` counts link endpoints with the queue as source or target, and each is counted
once until it is gone. Of a durable subscription it counts subscribers that are not suspended.
"""

from enum import Enum
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import PreconditionFailed
from penstock.broker.observers import QueueObserver
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.timers import Timer
from penstock.broker.topology import DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.wire.amqp10.performatives_generated import (
    DELETE_ON_CLOSE,
    DELETE_ON_NO_LINKS,
    DELETE_ON_NO_LINKS_OR_MESSAGES,
    DELETE_ON_NO_MESSAGES,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
)
from penstock.wire.amqp10.values import Composite, Described

LIFETIME_PROPERTY: Final = "lifetime-policy"
# Due at once, in the tick to come.
_AT_ONCE: Final = 0


class Lifetime(Enum):
    """When a queue that was made for a link is deleted."""

    ON_CLOSE = "amqp:delete-on-close:list"
    ON_NO_LINKS = "amqp:delete-on-no-links:list"
    # The link that made it is gone, and it is empty.
    ON_NO_MESSAGES = "amqp:delete-on-no-messages:list"
    ON_NO_LINKS_OR_MESSAGES = "amqp:delete-on-no-links-or-messages:list"
    # Of a durable subscription: a subscriber closes its link and nobody else is attached.
    UNSUBSCRIBED = "unsubscribed"


_BY_NUMBER: Final[dict[int, Lifetime]] = {
    DELETE_ON_CLOSE: Lifetime.ON_CLOSE,
    DELETE_ON_NO_LINKS: Lifetime.ON_NO_LINKS,
    DELETE_ON_NO_MESSAGES: Lifetime.ON_NO_MESSAGES,
    DELETE_ON_NO_LINKS_OR_MESSAGES: Lifetime.ON_NO_LINKS_OR_MESSAGES,
}


class NodeLife(QueueObserver):
    """The life of one queue. Held by the queue and by the nodes of the links to it."""

    def __init__(self, vhost: VirtualHost, queue: MessageQueue, lifetime: Lifetime) -> None:
        self.queue: MessageQueue = queue
        self.lifetime: Lifetime = lifetime
        self.links: int = 0
        self._vhost: VirtualHost = vhost
        self._maker_is_gone: bool = False
        self._timer: LifeTimer = LifeTimer(self)
        queue.observers.append(self)

    def link_added(self) -> None:
        self.links += 1

    def link_suspended(self) -> bool:
        """Returns whether it is no longer counted. A suspended link still exists, but it does not
        prevent others from unsubscribing.
        """
        if self.lifetime is not Lifetime.UNSUBSCRIBED:
            return False
        self.links -= 1
        return True

    def link_gone(self, was_counted: bool, is_maker: bool, now: int) -> None:
        if was_counted:
            assert self.links > 0, "a link ends only once"
            self.links -= 1
        if self.lifetime is Lifetime.UNSUBSCRIBED:
            # Decided now: when nobody is attached later, they may all be suspended.
            self._maker_is_gone = is_maker and self.links == 0
        else:
            self._maker_is_gone = self._maker_is_gone or is_maker
        self.end_if_over(now)

    def end_if_over(self, now: int) -> None:
        queue = self.queue
        if not self._is_over() or self._vhost.queues.get(queue.name) is not queue:
            return
        self._vhost.apply(DeleteQueue(queue.name, connection=queue.exclusive_owner), now)

    def dequeued(self, entry: QueueEntry) -> None:
        """An observer must not change the queue, so a timer deletes it."""
        if self._is_over():
            self._vhost.timers.schedule(self._timer, _AT_ONCE)

    def _is_over(self) -> bool:
        lifetime = self.lifetime
        if lifetime in {Lifetime.ON_CLOSE, Lifetime.UNSUBSCRIBED}:
            return self._maker_is_gone
        if lifetime is Lifetime.ON_NO_MESSAGES:
            return self._maker_is_gone and self._is_empty()
        if lifetime is Lifetime.ON_NO_LINKS_OR_MESSAGES:
            return self.links == 0 and self._is_empty()
        return self.links == 0

    def _is_empty(self) -> bool:
        return self.queue.message_count == 0 and self.queue.unacked_count == 0


class LifeTimer(Timer):
    """Ends a life from outside its queue."""

    def __init__(self, life: NodeLife) -> None:
        super().__init__()
        self._life: NodeLife = life

    def fire(self, now: int) -> None:
        self._life.end_if_over(now)


def life_of(queue: MessageQueue) -> NodeLife | None:
    for observer in queue.observers:
        if isinstance(observer, NodeLife):
            return observer
    return None


def life_for_others(queue: MessageQueue) -> NodeLife | None:
    """The life for a link that names the queue itself. It does not count as a subscriber."""
    life = life_of(queue)
    return None if life is None or life.lifetime is Lifetime.UNSUBSCRIBED else life


def read_lifetime(properties: dict[str, object] | None) -> Lifetime | None:
    """What a peer asks for in its dynamic-node-properties; None when it says nothing."""
    policy = (properties or {}).get(LIFETIME_PROPERTY)
    if policy is None:
        return None
    named: object = policy
    if isinstance(policy, Composite):
        named = policy.identity()
    elif isinstance(policy, Described):
        named = policy.descriptor
    if isinstance(named, int) and named in _BY_NUMBER:
        return _BY_NUMBER[named]
    for lifetime in _BY_NUMBER.values():
        if named == lifetime.value:
            return lifetime
    raise PreconditionFailed(
        f"invalid {LIFETIME_PROPERTY}: {policy!r} is not a lifetime policy of AMQP 1.0"
    )


def written_lifetime(lifetime: Lifetime) -> Composite:
    if lifetime is Lifetime.ON_NO_LINKS:
        return DeleteOnNoLinks()
    if lifetime is Lifetime.ON_NO_MESSAGES:
        return DeleteOnNoMessages()
    if lifetime is Lifetime.ON_NO_LINKS_OR_MESSAGES:
        return DeleteOnNoLinksOrMessages()
    return DeleteOnClose()
