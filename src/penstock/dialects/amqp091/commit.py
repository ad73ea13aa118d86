"""A commit of AMQP 0-9-1: prepared over as many turns as it takes, applied in one step.

Nothing of it can be seen before `finish`, which enqueues and settles everything in one tick: nobody
sees half of it, and the journal has it in one batch. The connection's later input waits for it. A
connection that ends before has rolled back.

First every message is routed. For queues that take whatever comes, and to which each message goes
alone, entries and their records are made next (`PreparedRuns`), so that the last step is a short
one. The others are published one by one. A held message delays tx.commit-ok, and one that is
refused afterwards closes the channel instead.

Invariants
- routes are those of one state of the topology, as long as it changes no more often than
  `RESTARTS_MAX` times meanwhile; a message whose queue was deleted is routed again in any case;
- messages reach their queues in the order in which they were published.
"""

from typing import Final

from penstock.broker.publishing.prepared_run import PreparedRuns
from penstock.broker.publishing.publish import Outcome as PublishOutcome
from penstock.broker.publishing.publish import publish_resolved
from penstock.broker.publishing.target import target_of
from penstock.dialects.amqp091.acknowledge import Outcome, settle
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.publish import publish_with_all_rules, return_unrouted
from penstock.dialects.amqp091.reply_to import is_direct_reply
from penstock.dialects.amqp091.staged import StagedPublish, StagedSettlement
from penstock.dialects.commit_answer import CommitAnswer
from penstock.dialects.turn import COMPARED_PER_UNIT, ENQUEUED_PER_UNIT, ROUTE_UNITS, PendingWork
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.methods_generated import TxCommitOk
from penstock.wire.amqp091.reply_codes_generated import PRECONDITION_FAILED

# Messages whose target is known cost a look-up; so many are a unit.
PLAIN_PER_UNIT: Final = 32
# An entry and its record cost a quarter of a microsecond.
PLACED_PER_UNIT: Final = 4
# How often it begins anew because something was declared or deleted meanwhile, or because another
# commit to the same queue was done. A client that does that without end must not block a commit
# forever.
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
        self._runs: PreparedRuns = PreparedRuns()
        self._one_by_one: list[StagedPublish] = []
        # False for a short one.
        self._step_count: int = channel.container.turns.commit_step_count
        self._makes_runs: bool = len(publishes) >= self._step_count
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
            self._runs = PreparedRuns()
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
        if self._restarts < RESTARTS_MAX and self._runs.is_overtaken():
            # Another long commit was quicker.
            self._restarts += 1
            self._forget_runs()
            return False
        return True

    def _forget_runs(self) -> None:
        self._placed = 0
        self._runs.forget()
        self._one_by_one = []

    def _route(self, begin: int, end: int) -> int:
        """Find the queues of some of the messages. Returns what it cost."""
        units = 0
        plain = 0
        vhost = self.channel.vhost
        for index in range(begin, end):
            staged = self._publishes[index]
            target = staged.target
            if target.is_plain and target.generation == vhost.generation and staged.is_plain:
                found = target
                plain += 1
            elif is_direct_reply(target.address):
                staged.found = None
                continue
            else:
                found = target_of(vhost.routing, target, staged.message.properties)
                units += ROUTE_UNITS + found.compared // COMPARED_PER_UNIT
            staged.found = found
            if self._makes_runs:
                self._runs.look_at(found, staged.message)
        return units + plain // PLAIN_PER_UNIT + 1

    def _place(self, begin: int, end: int) -> None:
        """Make the entries of some of the messages, where that is possible."""
        runs = self._runs
        for index in range(begin, end):
            staged = self._publishes[index]
            found = staged.found
            if found is not None and runs.takes(found):
                runs.add(found, staged.message)
            else:
                self._one_by_one.append(staged)
        runs.make()

    def finish(self, now: int) -> None:
        self.channel.turn.took(self._octets)
        channel = self.channel
        answer = TxCommitAnswer(channel)
        if self._can_publish_runs():
            self._runs.publish(now)
            accepted = self._publish_each(self._one_by_one, answer, now)
        else:
            accepted = self._publish_each(self._publishes, answer, now)
        self._settle(now)
        channel.container.state.discarded.add(self._publishes)
        if not accepted:
            answer.is_given = True
            raise _partial()
        answer.finish()
        channel.container.hold_until_durable(channel.wire.outgoing)

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
        """The index after the last of the acknowledgements from here on with consecutive tags."""
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

    def _can_publish_runs(self) -> bool:
        channel = self.channel
        return (
            self._makes_runs
            and channel.vhost.generation == self._generation
            and channel.container.interceptor is None
            and self._runs.can_be_published()
        )

    def _publish_each(self, publishes: list[StagedPublish], answer: CommitAnswer, now: int) -> bool:
        """False when one of them was refused."""
        channel = self.channel
        interceptor = channel.container.interceptor
        is_changed = channel.vhost.generation != self._generation
        accepted = True
        for number, staged in enumerate(publishes, 1):
            message = staged.message
            message.through_journal = True
            message.sequence = number
            message.publisher = answer
            found = staged.found
            if found is None or (is_changed and found.is_outdated()):
                if not publish_with_all_rules(channel, staged.target, message, now):
                    accepted = False
            else:
                outcome = publish_resolved(channel.vhost.routing, found, message, interceptor, now)
                if outcome is PublishOutcome.REFUSED:
                    accepted = False
                elif outcome is PublishOutcome.UNROUTED:
                    return_unrouted(channel, staged.target, message, outcome)
            if message.holds == 0:
                # Complete: it must not keep the channel alive while it waits in a queue.
                message.publisher = None
        return accepted

    def held_bytes(self, message_bytes: int) -> int:
        return self._octets + len(self._publishes) * message_bytes

    def finish_units(self) -> int:
        """What `finish` cost; the rest of the input waits for the next turn after a large one."""
        return (self._routed + len(self._settlements)) // ENQUEUED_PER_UNIT


class TxCommitAnswer(CommitAnswer):
    """Says tx.commit-ok, or closes the channel."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel: Channel = channel

    def answer(self, is_refused: bool) -> None:
        channel = self._channel
        if channel.has_ended:
            return
        if is_refused:
            channel.wire.close_channel(channel.number, _partial())
        else:
            channel.wire.send_method(channel.number, TxCommitOk())


def _partial() -> ChannelFault:
    # RabbitMQ's words, and what happened here.
    text = "partial tx completion: a queue refused a message"
    return ChannelFault(PRECONDITION_FAILED, text)
