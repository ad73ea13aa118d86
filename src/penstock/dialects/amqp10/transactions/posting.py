"""Messages that are published when their transaction commits."""

from penstock.broker.errors import NotFound, ResourceError
from penstock.broker.message import Message, Publisher
from penstock.broker.publishing.publish import admitted, publish_resolved
from penstock.broker.publishing.target import Target, target_of
from penstock.dialects.amqp10.nodes.addresses import TargetAddress
from penstock.dialects.amqp10.publish import find_target
from penstock.dialects.amqp10.transactions.transaction import Rehearsal, Work
from penstock.dialects.container import Container
from penstock.dialects.principal import Principal


class Posting(Work):
    """One message. The commit routes it again, by the topology of that moment, so that it is not
    sent to a queue that was deleted meanwhile.
    """

    def __init__(self, container: Container, principal: Principal, message: Message) -> None:
        super().__init__(len(message.body) + len(message.properties.encoded()))
        self._container: Container = container
        self._principal: Principal = principal
        self._message: Message = message
        # Where the commit sends it, once that is known.
        self._target: Target | None = None

    def rehearse(self, rehearsal: Rehearsal, publisher: Publisher, now: int) -> None:
        message = self._message
        address = message.address
        key = address.routing_key
        target = find_target(self._principal, TargetAddress(address.exchange, key), key)
        found = target_of(self._principal.vhost.routing, target, message.properties)
        if not found.reaches_any:
            raise NotFound(f"no queue is bound to '{address.exchange}' with key '{key}' any more")
        # A hold on it delays the answer to the discharge.
        message.publisher = publisher
        self._target = admitted(found, message, self._container.interceptor, now)
        if self._target is None:
            raise ResourceError("a message was rejected")
        for queue in self._target.queues:
            rehearsal.put(queue, len(message.body))

    def apply(self, now: int) -> None:
        message = self._message
        message.through_journal = True
        assert self._target is not None, "rehearsed in the same tick"
        publish_resolved(self._principal.vhost.routing, self._target, message, None, now)
        if message.holds == 0:
            # Complete: it must not keep the link alive while it waits in a queue.
            message.publisher = None

    def undo(self, now: int) -> None:
        """The message was never visible, so nothing has to be undone."""
