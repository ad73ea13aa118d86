"""Messages go from one queue to another place, all or those that a selector wants.

A step takes messages out of the source and publishes them as the one publish does. It is part of
one tick, and what a tick writes is one batch of the journal: after a crash each message is in the
source or where it was moved to, and not in both. Steps are of bounded size, one per millisecond.

A message keeps its body, properties and, where a queue is named as the destination, the exchange
and routing key that it was published with. It is new in the destination: not redelivered, with no
deliveries, and its time to live begins anew.

Invariants
- nothing is taken out of the source before a destination is known to take it: what would reach no
  queue, or overflow one, or would not survive a restart any more, ends the move and stays;
- only what was there when the move began is looked at, each message once, in the queue's order.
"""

from dataclasses import dataclass
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import AccessRefused, PreconditionFailed
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.internal_queues import is_internal
from penstock.broker.message import Address, Message
from penstock.broker.move_table import MoveState, RunningMove
from penstock.broker.names import described
from penstock.broker.publishing.publish import Outcome, publish_resolved
from penstock.broker.publishing.target import Target, target_by_keys
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.walk import Walk
from penstock.broker.selectors.message_subject import MessageSubject
from penstock.broker.selectors.selector import Selector
from penstock.broker.topology import NO_CONNECTION
from penstock.broker.vhost import VirtualHost
from penstock.storage.errors import Damaged

# A step takes a millisecond or two, in which nobody else is served: so many messages are moved, so
# many bytes of bodies read, or so many messages looked at that a selector does not want.
STEP_COUNT: Final = 256
STEP_BYTES: Final = 1024 * 1024
STEP_LOOKED_AT: Final = 1024
# Others have their turn between steps; so often is also asked whether the last step is safe.
STEP_PAUSE_MS: Final = 1
# How soon is asked again whether publishers are still blocked.
CLOSED_POLL_MS: Final = 20
NO_LIMIT: Final = -1


@dataclass(frozen=True, slots=True)
class StepLimits:
    """How much one step does. The simulator makes it little."""

    count: int = STEP_COUNT
    octets: int = STEP_BYTES
    looked_at: int = STEP_LOOKED_AT


USUAL_STEPS: Final = StepLimits()


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """What somebody asks for: to a queue (`destination`), or to an exchange with a routing key, where
    None keeps the key of each message.
    """

    source: str
    destination: str = ""
    exchange: str | None = None
    routing_key: str | None = None
    selector: str = ""
    count: int = NO_LIMIT
    copy: bool = False


class Move(RunningMove):
    """Held by the virtual host's table, and by the timers while it goes on."""

    def __init__(
        self, vhost: VirtualHost, request: MoveRequest, limits: StepLimits, now: int
    ) -> None:
        """Raises a `Refusal` for what cannot be begun."""
        super().__init__(request.source)
        self._vhost: VirtualHost = vhost
        self.request: MoveRequest = request
        self._limits: StepLimits = limits
        self._selector: Selector | None = None
        if request.selector:
            self._selector = Selector.parse(request.selector)
        self._queue: MessageQueue = _source_of(vhost, request)
        self._exchange: Exchange = _exchange_of(vhost, request)
        self._walk: Walk = Walk()
        # What arrives from here on is left alone.
        self._end: int = self._queue.end_position()
        # Behind what the last step wrote to the journal; -1 while that is not known.
        self._written: int = 0
        self.began_at: int = vhost.shared.wall.at(now)
        self.moved_count: int = 0
        self.moved_bytes: int = 0
        self.seen_count: int = 0

    def fire(self, now: int) -> None:
        if self.state is not MoveState.RUNNING:
            return
        gate = self._vhost.shared.move_gate
        if self._written < 0:
            # The tick of the last step is over.
            self._written = gate.written()
        if gate.is_closed():
            self._vhost.timers.schedule(self, now + CLOSED_POLL_MS)
            return
        if gate.durable() >= self._written:
            self._written = -1
            try:
                self.step(now)
            except Exception:
                # A message that was paged out cannot be read, say; the node hears of it.
                self.end(MoveState.STOPPED, "an internal error; see the broker's log")
                raise
        if self.state is MoveState.RUNNING:
            self._vhost.timers.schedule(self, now + STEP_PAUSE_MS)

    def cancel(self) -> None:
        """Messages that were moved stay moved."""
        self.end(MoveState.CANCELLED, "it was cancelled")

    def step(self, now: int) -> None:
        """Move what one tick may; ends the move when there is no more."""
        count = self._limits.count
        octets = self._limits.octets
        looked_at = self._limits.looked_at
        while count > 0 and octets > 0 and looked_at > 0:
            if 0 <= self.request.count <= self.moved_count:
                self.end(MoveState.DONE, "")
                return
            entry = self._next()
            if entry is None:
                return
            looked_at -= 1
            octets -= len(entry.message.body)
            if entry.position >= self._end:
                # It arrived since. With priorities, older ones may come behind it.
                continue
            self.seen_count += 1
            if not self._wants(entry, now):
                continue
            if not self._move(entry, now):
                return
            count -= 1

    def _next(self) -> QueueEntry | None:
        """The next one there is, or None when the move is over."""
        queue = self._queue
        if queue.is_deleted:
            self.end(MoveState.STOPPED, f"{self._named(queue)} was deleted")
            return None
        try:
            entry = queue.look_on(self._walk)
        except Damaged as damage:
            self.end(MoveState.STOPPED, str(damage))
            return None
        is_over = entry is None or (entry.position >= self._end and not queue.settings.max_priority)
        if is_over:
            self.end(MoveState.DONE, "")
            return None
        return entry

    def _wants(self, entry: QueueEntry, now: int) -> bool:
        if 0 < entry.expires_at <= now:
            # It is dead, and only waits for its turn at the head.
            return False
        if self._selector is None:
            return True
        subject = MessageSubject(entry.message, entry.delivery_count, entry.is_redelivered)
        return self._selector.matches(subject)

    def _move(self, entry: QueueEntry, now: int) -> bool:
        """False when the move cannot go on; then the message is where it was."""
        message = self._copy_of(entry.message)
        target = self._target_of(message)
        objection = self._objection(target, message, now)
        if objection:
            self.end(MoveState.STOPPED, objection)
            return False
        taken = entry
        if not self.request.copy:
            taken = self._queue.take_out(self._walk, entry.position)
        outcome = publish_resolved(self._vhost.routing, target, message, None, now)
        if outcome is Outcome.REFUSED or outcome is Outcome.UNROUTED:
            if not self.request.copy:
                self._queue.put_back(taken)
            self.end(MoveState.STOPPED, "the destination refused a message")
            return False
        if not self.request.copy:
            self._queue.moved_away(taken)
        self.moved_count += 1
        self.moved_bytes += len(message.body)
        return True

    def _copy_of(self, message: Message) -> Message:
        """The journal writes a message object in one tick only; a later tick needs a copy."""
        request = self.request
        address = message.address
        if request.exchange is not None:
            key = request.routing_key
            key = address.routing_key if key is None else key
            address = Address(request.exchange, key, b"")
        copied = Message(address, message.properties, message.body, message.origin)
        # One batch of the journal: it leaves this queue and reaches the others, or neither.
        copied.through_journal = not request.copy and self._queue.journals(message)
        return copied

    def _target_of(self, message: Message) -> Target:
        """Where it goes by the key that was asked for, whatever its CC header says."""
        request = self.request
        key = request.destination if request.exchange is None else message.address.routing_key
        return target_by_keys(
            self._vhost.routing, self._exchange, message.address, [key], message.properties
        )

    def _objection(self, target: Target, message: Message, now: int) -> str:
        """Why a message must not go there; empty when it may."""
        if not target.reaches_any:
            if self.request.exchange is None:
                return f"there is no queue '{self.request.destination}' any more"
            return (
                f"a message with the routing key '{message.address.routing_key}' would reach no "
                f"queue through exchange '{self.request.exchange}'"
            )
        survives = False
        for queue in target.queues:
            if is_internal(queue.name, queue.arguments):
                return f"{self._named(queue)} is an internal queue of the broker"
            if not queue.has_room(len(message.body), now):
                return (
                    f"{self._named(queue)} is full: another message would be refused, or push the "
                    "oldest one out. Raise its limit, or let its consumers catch up"
                )
            survives = survives or queue.is_lasting
        for exchange in target.delayed:
            survives = survives or exchange.is_lasting
        if self._must_survive(message) and not survives:
            return (
                "a persistent message of a durable queue would reach no durable queue, or in a "
                "cluster none of level 'all', and be lost with the next restart"
            )
        return ""

    def _must_survive(self, message: Message) -> bool:
        return not self.request.copy and self._queue.is_lasting and self._queue.journals(message)

    def _named(self, queue: MessageQueue) -> str:
        return described("queue", queue.name, self._vhost.name)


def begin_move(
    vhost: VirtualHost, request: MoveRequest, now: int, limits: StepLimits = USUAL_STEPS
) -> Move:
    """The first step is taken when timers are due next. Raises a `Refusal`."""
    move = Move(vhost, request, limits, now)
    vhost.move_table.add(move)
    vhost.timers.schedule(move, now)
    return move


def _source_of(vhost: VirtualHost, request: MoveRequest) -> MessageQueue:
    queue = vhost.accessible_queue(request.source, NO_CONNECTION)
    what = described("queue", queue.name, vhost.name)
    if is_internal(queue.name, queue.arguments):
        raise PreconditionFailed(f"{what} is an internal queue of the broker")
    if not request.copy:
        queue.check_used_here()
    if queue.keeps_messages and not request.copy:
        raise PreconditionFailed(
            f"{what} is a stream, whose messages stay; copy them with 'copy': true"
        )
    return queue


def _exchange_of(vhost: VirtualHost, request: MoveRequest) -> Exchange:
    if request.exchange is not None:
        if request.destination:
            raise PreconditionFailed("a move has one destination: a queue or an exchange")
        exchange = vhost.exchange(request.exchange)
        if exchange.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'"
            )
        return exchange
    if request.routing_key is not None:
        raise PreconditionFailed("a routing key needs an exchange; a queue is named by itself")
    destination = vhost.accessible_queue(request.destination, NO_CONNECTION)
    what = described("queue", destination.name, vhost.name)
    if destination.name == request.source:
        raise PreconditionFailed(f"{what} is both the source and the destination")
    if is_internal(destination.name, destination.arguments):
        raise PreconditionFailed(f"{what} is an internal queue of the broker")
    return vhost.exchange("")
