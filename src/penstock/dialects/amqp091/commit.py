"""A commit of AMQP 0-9-1 on its way: prepared over as many turns as it takes, done in one step.

Nothing of it can be seen before `finish`, which enqueues and settles everything in one tick: nobody
sees half of it, and the journal has it in one batch. The connection's later input waits for it. A
connection that ends before has rolled back.

First every message is routed. Where each of them goes to one queue that takes whatever comes, their
entries and the records of these are made next (`PreparedRun`), so that the last step is a short one.

Invariants
- routes are those of one state of the topology, as long as it changes no more often than
  `RESTARTS_MAX` times meanwhile; a message whose queue was deleted is routed again in any case;
- messages reach their queues in the order in which they were published.
"""

from typing import Final

from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.message import Message
from penstock.broker.queues.prepared import PreparedRun, can_be_prepared
from penstock.broker.queues.queue import Queue
from penstock.broker.routing import resolve
from penstock.dialects.amqp091.acknowledge import settle
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.publish import route_and_enqueue
from penstock.dialects.amqp091.reply_to import PSEUDO_QUEUE
from penstock.dialects.amqp091.staged import StagedPublish, StagedSettlement
from penstock.dialects.turn import COMPARED_PER_UNIT, ENQUEUED_PER_UNIT, ROUTE_UNITS, PendingWork
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.methods_generated import TxCommitOk
from penstock.wire.amqp091.reply_codes_generated import PRECONDITION_FAILED

# Routed between two looks at the turn; with their cost far below it.
STEP_COUNT: Final = 256
# Messages whose target is known cost a look-up; so many are a unit.
PLAIN_PER_UNIT: Final = 32
# Fewer than these are enqueued one by one, which takes about a tenth of a millisecond.
RUN_COUNT_MIN: Final = 1024
# An entry and its record cost a quarter of a microsecond.
IN_RUNS_PER_UNIT: Final = 4
# How often routing begins anew because something was declared or deleted meanwhile. Somebody who
# declares without end must not keep a commit from being done.
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
        # How many are routed, and how many of them are in runs.
        self._routed: int = 0
        self._in_runs: int = 0
        self._runs: dict[Queue, PreparedRun] = {}
        # False when some message needs more than to be appended to one queue.
        self._makes_runs: bool = len(publishes) >= RUN_COUNT_MIN
        self._generation: int = channel.vhost.generation
        self._restarts: int = 0

    def prepare(self, now: int) -> bool:
        channel = self.channel
        turn = channel.turn
        if channel.vhost.generation != self._generation and self._restarts < RESTARTS_MAX:
            self._generation = channel.vhost.generation
            self._restarts += 1
            self._routed = 0
            self._in_runs = 0
            self._runs = {}
            self._makes_runs = len(self._publishes) >= RUN_COUNT_MIN
        count = len(self._publishes)
        while self._routed < count:
            end = min(count, self._routed + STEP_COUNT)
            turn.charge(self._route(self._routed, end))
            self._routed = end
            if turn.is_over:
                return False
        while self._makes_runs and self._in_runs < count:
            end = min(count, self._in_runs + STEP_COUNT)
            self._add_to_runs(self._in_runs, end)
            turn.charge((end - self._in_runs) // IN_RUNS_PER_UNIT)
            self._in_runs = end
            if turn.is_over:
                return False
        return True

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
            if (
                self._makes_runs
                and queues is not None
                and len(queues) == 1
                and target.count is None
                and can_be_prepared(queues[0], staged.message)
            ):
                continue
            self._makes_runs = False
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
            target.immediate
            or not staged.is_plain
            or isinstance(target.exchange, DelayedExchange)
            or (not address.exchange and address.routing_key.startswith(PSEUDO_QUEUE))
        ):
            return 0
        route = resolve(channel.vhost, target.exchange, address.routing_key, message.properties)
        if not route.delayed and (route.queues or not target.mandatory):
            staged.queues = route.queues
        return route.compared // COMPARED_PER_UNIT

    def _add_to_runs(self, begin: int, end: int) -> None:
        """Make the entries of some of the messages."""
        messages: dict[Queue, list[Message]] = {}
        for index in range(begin, end):
            staged = self._publishes[index]
            assert staged.queues is not None, "each of them has one queue"
            messages.setdefault(staged.queues[0], []).append(staged.message)
        for queue, together in messages.items():
            run = self._runs.get(queue)
            if run is None:
                run = PreparedRun(queue)
                self._runs[queue] = run
            run.add(together)

    def finish(self, now: int) -> None:
        channel = self.channel
        accepted = True
        if self._can_enqueue_runs():
            for run in self._runs.values():
                run.enqueue()
        else:
            accepted = self._enqueue_each(now)
        for settlement in self._settlements:
            settle(channel.deliveries, settlement.tag, settlement.multiple, settlement.outcome, now)
        channel.container.state.discarded.add(self._publishes)
        if not accepted:
            text = "partial tx completion: a queue refused a message"
            raise ChannelFault(PRECONDITION_FAILED, text)
        channel.wire.send_method(channel.number, TxCommitOk())
        channel.container.gate(channel.wire.outgoing)

    def _can_enqueue_runs(self) -> bool:
        channel = self.channel
        return (
            self._makes_runs
            and channel.vhost.generation == self._generation
            and channel.container.interceptor is None
            and all([run.can_be_enqueued() for run in self._runs.values()])
        )

    def _enqueue_each(self, now: int) -> bool:
        """False when a queue refused one of them."""
        channel = self.channel
        is_changed = channel.vhost.generation != self._generation
        intercepted = channel.container.interceptor is not None
        accepted = True
        for staged in self._publishes:
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
