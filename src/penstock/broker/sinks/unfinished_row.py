"""A row that a queue refused, or has not decided on: the sink waits for it and publishes it again.

Queues of one server decide at once, and a step asks whether they have room before it publishes
(`row_targets.first_full`). Others may hold a message and give it up later; a row has no client who
could hear of that, and what was committed is published, so the row's step is its publisher.

A row that is given up late is published again to all of its queues, because nobody says which of them
gave it up. So is one that a crash finds unfinished. In both cases a queue that had taken the row gets
it twice; no queue of this server gives anything up.
"""

from penstock.broker.message import Message, Publisher
from penstock.broker.publishing.publish import Outcome, publish_resolved
from penstock.broker.publishing.target import Target
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.routing_table import RoutingTable


class UnfinishedRow(Publisher):
    """Held by the step that published it, and by the message while somebody holds that."""

    def __init__(
        self, routing: RoutingTable, target: Target, message: Message, refusing: list[MessageQueue]
    ) -> None:
        self._routing: RoutingTable = routing
        self._target: Target = target
        self._message: Message = message
        # Queues that have still to take it.
        self._refusing: list[MessageQueue] = refusing
        self._is_given_up: bool = False
        self._listen()

    def held(self, sequence: int) -> None:
        """`finish` looks at the message itself."""

    def completed(self, sequence: int) -> None:
        """As `held`."""

    def refused(self, sequence: int) -> None:
        self._is_given_up = True

    def waits_for(self) -> str:
        """A queue that does not have it."""
        queues = self._refusing or self._target.queues
        return queues[0].name if queues else ""

    def finish(self, now: int) -> bool:
        """Publish it again where it was refused. Whether all of its queues have it."""
        if self._message.holds:
            return False
        if self._is_given_up:
            self._is_given_up = False
            self._refusing = self._target.queues
        left = [queue for queue in self._refusing if not queue.is_deleted]
        if not left:
            return True
        # It was counted when it was published first.
        again = self._target.with_queues(left)
        again.count = None
        again.delayed = []
        former = self._message
        self._message = Message(former.address, former.properties, former.body, former.origin)
        self._refusing = []
        outcome = publish_resolved(self._routing, again, self._message, None, now, self._refusing)
        self._listen()
        return outcome is not Outcome.REFUSED and self._message.holds == 0

    def _listen(self) -> None:
        """Only where somebody holds it: the ledger knows no publishers of rows."""
        if self._message.holds:
            self._message.publisher = self
