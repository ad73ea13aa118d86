"""A program that works in transactions over AMQP 1.0: it sends, and settles what it got,
together.
"""

from collections import deque
from typing import Final

from penstock.client.uri import Address
from penstock.simulation.amqp10_message import copy_of, head_of
from penstock.simulation.amqp10_receiver import Amqp10Receiver
from penstock.simulation.amqp10_receiver_link import ReceiverLink
from penstock.simulation.amqp10_transaction import (
    CoordinatorLink,
    OpenTransaction,
    PostingLink,
    Retired,
    TransactionOwner,
)
from penstock.simulation.clock import VirtualClock
from penstock.simulation.copies import Copy, Fate
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.lives import Lives
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario
from penstock.simulation.publisher import Order
from penstock.wire.amqp10.conditions_generated import INVALID_FIELD, TRANSACTION_UNKNOWN_ID
from penstock.wire.amqp10.link import RCV_FIRST
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Declare,
    Discharge,
    Flow,
    Rejected,
    Released,
    TransactionalState,
)
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED
from penstock.wire.amqp10.values import Composite

# What ends a turn; otherwise the transaction stays open for the next one.
COMMIT_CHANCE: Final = 0.5
ROLL_BACK_CHANCE: Final = 0.15
POSTS_MAX: Final = 3
RETIRES_MAX: Final = 4
# How often a message is posted settled, and a delivery retired so.
SETTLED_CHANCE: Final = 0.2
REJECT_CHANCE: Final = 0.1
RELEASE_CHANCE: Final = 0.1
# How often later deliveries are to be acquired in the transaction.
ACQUIRE_CHANCE: Final = 0.15

ACTIONS: Final = (
    ("", 80),
    ("drain", 3),
    ("detach", 3),
    ("suspend", 2),
    ("wrong flow", 5),
    ("lose coordinator", 3),
    ("end session", 2),
    ("crash", 3),
)


class Amqp10Transactor(Amqp10Receiver, TransactionOwner):
    """Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, scenario: Scenario, lives: Lives, queue: str,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger, scenario, lives, queue)
        self._scenario = scenario
        routes = ledger.topology.routes
        self._orders: deque[Order] = deque(
            dice.choose(routes) for _ in range(scenario.messages_per_publisher)
        )
        self._serial = 0
        self._attach_count = 0
        self._coordinator = CoordinatorLink(self)
        self._poster = PostingLink(self)
        self._transaction: OpenTransaction | None = None
        self.actions["lose coordinator"] = self._lose_coordinator

    @property
    def is_plain(self) -> bool:
        return False

    @property
    def is_done(self) -> bool:
        transaction = self._transaction
        return not self._orders and (transaction is None or transaction.is_empty)

    def next_action(self) -> str:
        return "" if self.is_calm else self.dice.weighted(ACTIONS)

    def _lose_coordinator(self) -> None:
        self.history.sighted("a link to the coordinator is detached")
        if self._poster.is_half_sent():
            # The rest of the delivery arrives when the transaction no longer exists.
            self._poster.expected.add(TRANSACTION_UNKNOWN_ID)
        self.detach(self._coordinator, closed=self.dice.chance(0.5))

    # One turn.

    def turn_ended(self) -> None:
        if self.session is None or not self._is_attached():
            return
        transaction = self._transaction
        if transaction is None:
            if self._coordinator.ask(Declare()):
                self._transaction = OpenTransaction()
        elif transaction.is_open:
            self._post(transaction)
            self._retire(transaction)
            if not self.is_calm and self.dice.chance(ACQUIRE_CHANCE):
                self._acquire(transaction)
            if not transaction.is_empty and not self._poster.is_half_sent():
                self._end(transaction)

    def _is_attached(self) -> bool:
        for user in (self._coordinator, self._poster):
            if user.link is None and self.line is not None and self.session is not None:
                self._attach_count += 1
                link = user.attach(self.line.wire, self.session, self._attach_count)
                self.keep_link(user, link)
        return self._coordinator.is_ready and self._poster.is_ready

    def _post(self, transaction: OpenTransaction) -> None:
        for _ in range(self.dice.between(0, POSTS_MAX)):
            is_free = not self._poster.is_half_sent() and self._poster.has_capacity()
            if not is_free or not self._orders:
                return
            copy = self._next_copy(*self._orders.popleft())
            self.ledger.published(copy)
            is_settled = bool(copy.queues) and self.dice.chance(SETTLED_CHANCE)
            transaction.copies[copy.name] = copy
            if is_settled:
                transaction.told.add(copy.name)
            self._poster.post(copy, transaction.txn_id, is_settled=is_settled)

    def _retire(self, transaction: OpenTransaction) -> None:
        for _ in range(self.dice.between(0, RETIRES_MAX)):
            found = self.any_held()
            if found is None:
                return
            receiver, holding = found
            is_late = INVALID_FIELD in receiver.expected
            self._say(transaction, Retired(receiver, holding, self._outcome(), is_late=is_late))

    def _outcome(self) -> Composite:
        kind = self.dice.fraction()
        if self.is_calm or kind > REJECT_CHANCE + RELEASE_CHANCE:
            return OUTCOME_ACCEPTED
        return Rejected() if kind < REJECT_CHANCE else Released()

    def _say(self, transaction: OpenTransaction, retired: Retired) -> None:
        session = self.session
        assert session is not None, "looked at by the turn"
        holding = retired.holding
        transaction.retired.append(retired)
        state = TransactionalState(transaction.txn_id, retired.outcome)
        is_first = retired.receiver.rcv_settle_mode == RCV_FIRST
        if is_first and self.dice.chance(SETTLED_CHANCE):
            self.history.sighted("a delivery is settled in a transaction")
            del retired.receiver.held[holding.tag]
            session.settle(holding.delivery_id, holding.delivery_id, state)
        else:
            holding.outcome = retired.outcome
            session.say_state(holding.delivery_id, holding.delivery_id, state)

    def settle_late(self, receiver: ReceiverLink) -> None:
        transaction = self._transaction
        if transaction is not None and transaction.is_open:
            for holding in receiver.undecided():
                late = Retired(receiver, holding, OUTCOME_ACCEPTED, is_late=True)
                self._say(transaction, late)

    def _acquire(self, transaction: OpenTransaction) -> None:
        link = self.receivers[0].receiving
        if link is None or not self.receivers[0].is_ready or self.session is None:
            return
        self.history.sighted("messages are acquired in a transaction")
        transaction.acquired_from.add(self.receivers[0].queue)
        flow = Flow(
            handle=link.handle,
            delivery_count=link.delivery_count,
            link_credit=max(link.credit, 0),
            drain=link.is_draining,
            properties={"txn-id": transaction.txn_id},
        )
        self.session.send_flow(flow)

    def _end(self, transaction: OpenTransaction) -> None:
        kind = self.dice.fraction()
        commits = self.is_calm or kind < COMMIT_CHANCE
        if not commits and kind >= COMMIT_CHANCE + ROLL_BACK_CHANCE:
            return
        if not self._coordinator.ask(Discharge(transaction.txn_id, not commits)):
            return
        transaction.is_ending = True
        transaction.commits = commits
        if not commits:
            return
        self.ledger.transactions.append(tuple(transaction.copies.values()))
        for retired in transaction.retired:
            if isinstance(retired.outcome, Accepted):
                self.ledger.acknowledged(retired.receiver.queue, retired.holding.name)
            elif isinstance(retired.outcome, Rejected):
                self.ledger.rejected(retired.receiver.queue, retired.holding.name)

    def _next_copy(self, exchange: str, key: str) -> Copy:
        self._serial += 1
        return copy_of(self, self._scenario, self._serial, exchange, key)

    def head(self, copy: Copy) -> bytes:
        return head_of(copy, True)

    # Calls from the coordinator link.

    def declared(self, txn_id: bytes) -> None:
        assert self._transaction is not None, "asked for"
        self._transaction.txn_id = txn_id

    def told(self, copy: Copy, state: TransactionalState) -> None:
        transaction = self._transaction
        if transaction is None or state.txn_id != transaction.txn_id:
            if copy.fate is Fate.CONFIRMED:
                self.ledger.violated(f"{copy.name!r} got its provisional outcome too late")
        elif isinstance(state.outcome, Accepted):
            transaction.told.add(copy.name)
        elif isinstance(state.outcome, Released):
            # It reaches no queue and is not part of the transaction.
            del transaction.copies[copy.name]
            self.ledger.released(copy)
        elif not self._may_fail(transaction):
            self.ledger.violated(f"{copy.name!r} was {state.outcome} provisionally")

    def discharged(self, state: Composite | None) -> None:
        transaction = self._transaction
        assert transaction is not None, "asked for"
        self._transaction = None
        is_accepted = isinstance(state, Accepted)
        is_done = is_accepted and transaction.commits
        names = b" ".join(transaction.copies).decode()
        retired = b" ".join([retired.holding.name for retired in transaction.retired]).decode()
        done = "committed" if is_done else "rolled back"
        self.history.add(f"{self.name} {done} {names} and {retired}")
        if is_done:
            self._committed(transaction)
            return
        if not is_accepted and not self._may_fail(transaction):
            why = state.error if isinstance(state, Rejected) else state
            text = "" if why is None else f"{why}"
            self.ledger.violated(f"{self.name} could not commit {names}: {text}")
        self._rolled_back(transaction)

    def _may_fail(self, transaction: OpenTransaction) -> bool:
        watches = self.ledger.watches
        if any(watches[queue].plan.may_vanish for queue in transaction.queues()):
            self.history.sighted("a transaction fails, because a queue has gone")
            return True
        return False

    def _committed(self, transaction: OpenTransaction) -> None:
        self.history.sighted("a transaction is committed")
        for copy in transaction.copies.values():
            if copy.name not in transaction.told:
                self.ledger.violated(f"{copy.name!r} was committed without a provisional outcome")
            self.ledger.confirmed(copy, refused=False)
        for retired in transaction.retired:
            if isinstance(retired.outcome, Accepted) and not retired.is_late:
                queue = retired.receiver.queue
                self.ledger.acknowledgement_committed(queue, retired.holding.name)

    def _rolled_back(self, transaction: OpenTransaction) -> None:
        self.history.sighted("a transaction is rolled back")
        for copy in transaction.copies.values():
            self.ledger.rolled_back(copy)
            self._orders.append((copy.exchange, copy.key))
        for retired in transaction.retired:
            # Unsettled deliveries are still ours.
            retired.holding.outcome = None

    def abandoned(self) -> None:
        transaction = self._transaction
        self._transaction = None
        if transaction is None:
            return
        if not transaction.commits:
            self._rolled_back(transaction)
            return
        self.history.sighted("a commit is in doubt")
        for copy in transaction.copies.values():
            self.doubted(copy)
        for retired in transaction.retired:
            retired.holding.outcome = None

    def answered(self, copy: Copy, outcome: Composite | None) -> None:
        self.ledger.violated(f"{self.name} heard {outcome} of {copy.name!r}")

    def doubted(self, copy: Copy) -> None:
        self.ledger.doubted(copy)
        self._orders.append((copy.exchange, copy.key))
