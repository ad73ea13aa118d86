"""A commit of AMQP 0-9-1 on its way: prepared over as many turns as it takes, done in one step.

Nothing of it can be seen before `finish`, which enqueues and settles everything in one tick: nobody
sees half of it, and the journal has it in one batch. The connection's later input waits for it. A
connection that ends before has rolled back.

First every message is routed. For queues that take whatever comes, and to which each message goes
alone, entries and their records are made next (`PreparedRun`), so that the last step is a short one.
The others are enqueued one by one.

Invariants
- routes are those of one state of the topology, as long as it changes no more often than
  `RESTARTS_MAX` times meanwhile; a message whose queue was deleted is routed again in any case;
- messages reach their queues in the order in which they were published.
"""

from typing import Final

from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.message import Message
from penstock.broker.prepared_run import PreparedRun, can_be_prepared
from penstock.broker.publishing.routing import resolve
from penstock.broker.queues.queue import Queue
from penstock.broker.route_count import RouteCount
from penstock.dialects.amqp091.acknowledge import Outcome, settle
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.publish import route_and_enqueue
from penstock.dialects.amqp091.reply_to import PSEUDO_QUEUE
from penstock.dialects.amqp091.staged import StagedPublish, StagedSettlement
from penstock.dialects.turn import COMPARED_PER_UNIT, ENQUEUED_PER_UNIT, ROUTE_UNITS, PendingWork
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.methods_generated import TxCommitOk
from penstock.wire.amqp091.reply_codes_generated import PRECONDITION_FAILED

# Messages whose target is known cost a look-up; so many are a unit.
PLAIN_PER_UNIT: Final = 32
# An entry and its record cost a quarter of a microsecond.
PLACED_PER_UNIT: Final = 4
# How often it begins anew because something was declared or deleted meanwhile, or because another
# commit to the same queue was done. Who does that without end must not keep a commit from being done.
RESTARTS_MAX: Final = 3


class Commit(PendingWork):
    """Held by the connection's turn from tx.commit to its answer."""

    def __init__(
        self,
        channel: Channel,
        publishes: list[StagedPublish],
        settlements: list[StagedSettlement],
        octets: int,
    ) -> None:
        self.channel: Channel = channel
        self._publishes: list[StagedPublish] = publishes
        self._settlements: list[StagedSettlement] = settlements
        self._octets: int = octets
        # How many are routed, and how many of them are in runs or among those that are enqueued
        # one by one.
        self._routed: int = 0
        self._placed: int = 0
        self._runs: dict[Queue, PreparedRun] = {}
        self._one_by_one: list[StagedPublish] = []
        # Queues that need more than to have messages appended.
        self._unprepared: set[Queue] = set()
        # What the messages in them add to counts of publishes.
        self._counts: dict[RouteCount, int] = {}
        # False for a short one, and when it is not known where some message goes.
        self._step_count: int = channel.container.turns.commit_step_count
        self._makes_runs: bool = self._is_long()
        self._generation: int = channel.vhost.generation
        self._restarts: int = 0

    def prepare(self, now: int) -> bool:
        channel = self.channel
        turn = channel.turn
        if channel.vhost.generation != self._generation and self._restarts < RESTARTS_MAX:
            self._generation = channel.vhost.generation
            self._restarts += 1
            self._routed = 0
            self._forget_runs()
            self._unprepared = set()
            self._makes_runs = self._is_long()
        count = len(self._publishes)
        while self._routed < count:
            end = min(count, self._routed + self._step_count)
            turn.charge(self._route(self._routed, end))
            self._routed = end
            if turn.is_over:
                return False
        while self._makes_runs and self._placed < count:
            end = min(count, self._placed + self._step_count)
            self._place(self._placed, end)
            turn.charge((end - self._placed) // PLACED_PER_UNIT)
            self._placed = end
            if turn.is_over:
                return False
        if self._restarts < RESTARTS_MAX and self._is_overtaken():
            # Another long commit was quicker.
            self._restarts += 1
            self._forget_runs()
            return False
        return True

    def _is_overtaken(self) -> bool:
        return any([run.is_overtaken() for run in self._runs.values()])

    def _forget_runs(self) -> None:
        for run in self._runs.values():
            run.forget()
        self._placed = 0
        self._runs = {}
        self._counts = {}
        self._one_by_one = []

    def _is_long(self) -> bool:
        return len(self._publishes) >= self._step_count

    def _route(self, begin: int, end: int) -> int:
        """Find the queues of some of the messages. Returns what it cost."""
        units = 0
        plain = 0
        generation = self.channel.vhost.generation
        for index in range(begin, end):
            staged = self._publishes[index]
            target = staged.target
            if target.is_plain and target.generation == generation and staged.is_plain:
                staged.queues = target.queues
                plain += 1
            else:
                units += ROUTE_UNITS + self._resolve(staged)
            queues = staged.queues
            if queues is None:
                self._makes_runs = False
            elif len(queues) != 1 or not can_be_prepared(queues[0], staged.message):
                self._unprepared.update(queues)
        return units + plain // PLAIN_PER_UNIT + 1

    def _resolve(self, staged: StagedPublish) -> int:
        """For a message with nothing special about it but its way; any other one is routed by
        `finish`.
        """
        channel = self.channel
        target = staged.target
        message = staged.message
        address = message.address
        staged.queues = None
        if (
            not staged.is_plain
            or isinstance(target.exchange, DelayedExchange)
            or (not address.exchange and address.routing_key.startswith(PSEUDO_QUEUE))
        ):
            return 0
        route = resolve(channel.vhost, target.exchange, address.routing_key, message.properties)
        if not route.delayed and (route.queues or not target.mandatory):
            staged.queues = route.queues
        return route.compared // COMPARED_PER_UNIT

    def _place(self, begin: int, end: int) -> None:
        """Make the entries of some of the messages, where that is possible."""
        messages: dict[Queue, list[Message]] = {}
        for index in range(begin, end):
            staged = self._publishes[index]
            queues = staged.queues
            assert queues is not None, "it is known where each of them goes"
            if len(queues) != 1 or queues[0] in self._unprepared:
                self._one_by_one.append(staged)
                continue
            messages.setdefault(queues[0], []).append(staged.message)
            count = staged.target.count
            if count is not None:
                self._counts[count] = self._counts.get(count, 0) + 1
        for queue, together in messages.items():
            run = self._runs.get(queue)
            if run is None:
                run = PreparedRun(queue)
                self._runs[queue] = run
            run.add(together)

    def finish(self, now: int) -> None:
        channel = self.channel
        if self._can_enqueue_runs():
            for run in self._runs.values():
                run.enqueue()
            for count, added in self._counts.items():
                count.count += added
            accepted = self._enqueue_each(self._one_by_one, now)
        else:
            accepted = self._enqueue_each(self._publishes, now)
        self._settle(now)
        channel.container.state.discarded.add(self._publishes)
        if not accepted:
            text = "partial tx completion: a queue refused a message"
            raise ChannelFault(PRECONDITION_FAILED, text)
        channel.wire.send_method(channel.number, TxCommitOk())
        channel.container.gate(channel.wire.outgoing)

    def roll_back(self) -> None:
        """Freed a part at a time."""
        self._forget_runs()
        self.channel.container.state.discarded.add(self._publishes)

    def _settle(self, now: int) -> None:
        deliveries = self.channel.deliveries
        unacknowledged = deliveries.unacknowledged
        index = 0
        while index < len(self._settlements):
            first = self._settlements[index]
            end = self._acknowledged_until(index)
            if end - index > 1 and unacknowledged.slot_of(first.tag) == unacknowledged.head():
                # One by one they would be the same as all up to the last.
                settle(deliveries, self._settlements[end - 1].tag, True, first.outcome, now)
                index = end
            else:
                settle(deliveries, first.tag, first.multiple, first.outcome, now)
                index += 1

    def _acknowledged_until(self, begin: int) -> int:
        """Behind the last of the acknowledgements from here on whose tags follow one another."""
        unacknowledged = self.channel.deliveries.unacknowledged
        tag = self._settlements[begin].tag
        end = begin
        while end < len(self._settlements):
            settlement = self._settlements[end]
            if (
                settlement.outcome is not Outcome.ACKNOWLEDGED
                or settlement.multiple
                or settlement.tag != tag
                or not unacknowledged.holds(tag)
            ):
                break
            tag += 1
            end += 1
        return end

    def _can_enqueue_runs(self) -> bool:
        channel = self.channel
        return (
            self._makes_runs
            and channel.vhost.generation == self._generation
            and channel.container.interceptor is None
            and all([run.can_be_enqueued() for run in self._runs.values()])
        )

    def _enqueue_each(self, publishes: list[StagedPublish], now: int) -> bool:
        """False when a queue refused one of them."""
        channel = self.channel
        is_changed = channel.vhost.generation != self._generation
        intercepted = channel.container.interceptor is not None
        accepted = True
        for staged in publishes:
            message = staged.message
            message.through_journal = True
            queues = staged.queues
            if queues is None or intercepted or (is_changed and _is_any_deleted(queues)):
                if not route_and_enqueue(channel, staged.target, message, now):
                    accepted = False
                continue
            target = staged.target
            if target.count is not None:
                target.count.count += 1
            for queue in queues:
                if not queue.enqueue(message, now):
                    accepted = False
        return accepted

    def held_bytes(self, message_bytes: int) -> int:
        return self._octets + len(self._publishes) * message_bytes

    def finish_units(self) -> int:
        """What `finish` cost; the rest of the input waits for the next turn after a large one."""
        return (self._routed + len(self._settlements)) // ENQUEUED_PER_UNIT


def _is_any_deleted(queues: list[Queue]) -> bool:
    for queue in queues:
        if queue.is_deleted:
            return True
    return not queues
