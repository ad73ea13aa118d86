"""A program that declares, binds, deletes and sets policies all the time, and remembers the
answers.

An answered change must survive every crash; an unanswered one may have happened or not. The
messages it leaves in its queues, and takes without settling them, matter only to the store.
"""

from collections.abc import Callable
from typing import Final

from penstock.broker.topology import ClearPolicy, SetPolicy
from penstock.broker.vhost import VirtualHost
from penstock.client.conversation import Conversation
from penstock.client.events import Blocked, ChannelClosed, Event, Replied, Unblocked
from penstock.client.uri import Address
from penstock.node.node import Node
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.host import Host
from penstock.simulation.ledger import Ledger, PromiseKeeper
from penstock.simulation.network import Network
from penstock.simulation.program import Program
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from penstock.wire.amqp091.reply_codes_generated import NOT_FOUND

INTERVAL_US_MAX: Final = 60_000
QUEUES: Final[dict[str, dict[str, object]]] = {
    "q0": {},
    "q1": {"x-max-priority": 2},
    "q2": {"x-queue-type": "quorum"},
    "q3": {"x-max-length": 5},
}
EXCHANGES: Final = {"e0": "direct", "e1": "fanout", "e2": "topic"}
# Deleted when its last outgoing binding is.
FADING: Final = "fading"
KEYS: Final = ("a", "b")
BODY_BYTES_MAX: Final = 400
PERSISTENT: Final = BasicProperties(delivery_mode=2)

Thing = tuple[str, ...]  # what kind it is, then its names


class Operator(Program, PromiseKeeper):
    """Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, host: Host,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger)
        self._host = host
        # Whether an object exists, by the last answer; absent when it is unknown.
        self._known: dict[Thing, bool] = {}
        # The call that is not answered: what it is about, and what the answer will mean.
        self._ticket = 0
        self._thing: Thing = ()
        self._will_be = False
        self._actions: list[tuple[Callable[[Conversation], None], int]] = [
            (self._declare_queue, 6),
            (self._delete_queue, 2),
            (self._declare_exchange, 4),
            (self._delete_exchange, 1),
            (self._bind, 8),
            (self._bind_exchange, 3),
            (self._set_policy, 2),
            (self._publish, 6),
            (self._get, 3),
        ]
        ledger.promise_keepers.append(self)
        clock.after(dice.between(0, INTERVAL_US_MAX), self._work)

    def ready(self, conversation: Conversation) -> None:
        """Nothing to prepare."""

    def _work(self) -> None:
        if self.is_leaving:
            return
        self.clock.after(self.dice.between(0, INTERVAL_US_MAX), self._work)
        conversation = self.conversation
        if conversation is not None and not self._ticket and not self.is_calm:
            self.dice.weighted(self._actions)(conversation)
            self.flush()

    def _ask(
        self, conversation: Conversation, method: m.Method, thing: Thing, will_be: bool
    ) -> None:
        self.expected_code = NOT_FOUND
        self._thing = thing
        self._will_be = will_be
        self._ticket = conversation.call(self.channel, method)

    def _own(self, name: str) -> str:
        return f"{self.name}.{name}"

    # Actions.

    def _declare_queue(self, conversation: Conversation) -> None:
        kind = self.dice.choose(list(QUEUES))
        method = m.QueueDeclare(self._own(kind), durable=True, arguments=dict(QUEUES[kind]))
        self._ask(conversation, method, ("queue", kind), True)

    def _delete_queue(self, conversation: Conversation) -> None:
        kind = self.dice.choose(list(QUEUES))
        self._ask(conversation, m.QueueDelete(self._own(kind)), ("queue", kind), False)

    def _declare_exchange(self, conversation: Conversation) -> None:
        if self.dice.chance(0.3):
            method = m.ExchangeDeclare(self._own(FADING), "fanout", durable=True, auto_delete=True)
            self._ask(conversation, method, (FADING,), True)
            return
        kind = self.dice.choose(list(EXCHANGES))
        method = m.ExchangeDeclare(self._own(kind), EXCHANGES[kind], durable=True)
        self._ask(conversation, method, ("exchange", kind), True)

    def _delete_exchange(self, conversation: Conversation) -> None:
        kind = self.dice.choose(list(EXCHANGES))
        self._ask(conversation, m.ExchangeDelete(self._own(kind)), ("exchange", kind), False)

    def _bind(self, conversation: Conversation) -> None:
        source = self.dice.choose([*EXCHANGES, FADING])
        queue = self.dice.choose(list(QUEUES))
        key = self.dice.choose(KEYS)
        thing = ("binding", source, queue, key)
        if self.dice.chance(0.7):
            bind = m.QueueBind(self._own(queue), self._own(source), key)
            self._ask(conversation, bind, thing, True)
        else:
            unbind = m.QueueUnbind(self._own(queue), self._own(source), key)
            self._ask(conversation, unbind, thing, False)

    def _bind_exchange(self, conversation: Conversation) -> None:
        source = self.dice.choose([*EXCHANGES, FADING])
        destination = self.dice.choose(list(EXCHANGES))
        thing = ("exchange binding", source, destination)
        if self.dice.chance(0.7):
            bind = m.ExchangeBind(self._own(destination), self._own(source), "x")
            self._ask(conversation, bind, thing, True)
        else:
            unbind = m.ExchangeUnbind(self._own(destination), self._own(source), "x")
            self._ask(conversation, unbind, thing, False)

    def _set_policy(self, conversation: Conversation) -> None:
        """Not over AMQP, so there is no answer to remember."""
        del conversation
        if not self._host.is_up:
            return
        vhost = self._host.node.state.vhost("/")
        name = self._own("policy")
        command: SetPolicy | ClearPolicy = SetPolicy(
            name, f"^{self.name}", {"max-length": self.dice.between(2, 9)}, "queues", 1
        )
        if name in [policy.name for policy in vhost.policies.listed()] and self.dice.chance(0.3):
            command = ClearPolicy(name)
        self._host.node.apply_to_vhost("/", command, self._host.now())
        self._host.schedule_flush()

    def _publish(self, conversation: Conversation) -> None:
        for _ in range(self.dice.between(1, 5)):
            body = self.dice.octets(self.dice.between(0, BODY_BYTES_MAX))
            queue = self._own(self.dice.choose(list(QUEUES)))
            conversation.publish(self.channel, "", queue, body, PERSISTENT)

    def _get(self, conversation: Conversation) -> None:
        queue = self._own(self.dice.choose(list(QUEUES)))
        self._ask(conversation, m.BasicGet(queue), ("nothing",), True)

    # Answers.

    def told(self, event: Event) -> None:
        if isinstance(event, (Blocked, Unblocked)):
            return
        if not isinstance(event, Replied) or event.ticket != self._ticket:
            self.ledger.violated(f"{self.name} was told {event!r}")
            return
        self._ticket = 0
        self.expected_code = 0
        thing = self._thing
        self.history.add(f"{self.name} {thing} {'is there' if self._will_be else 'is gone'}")
        self._known[thing] = self._will_be
        if not self._will_be and thing[0] in {"queue", "exchange"}:
            # Its bindings went with it.
            for other in list(self._known):
                if "binding" in other[0] and thing[1] in other[1:]:
                    self._known[other] = False

    def channel_lost(self, event: ChannelClosed) -> None:
        del event
        if self._ticket:
            self._forget(self._thing)
        self._ticket = 0

    def _forget(self, thing: Thing) -> None:
        """It may exist or not, and so may what depends on it."""
        self._known.pop(thing, None)
        for other in list(self._known):
            if "binding" in other[0] and thing[1:2] and thing[1] in other[1:]:
                del self._known[other]

    # What must hold.

    def broken(self, node: Node) -> list[str]:
        vhost = node.state.vhost("/")
        complaints: list[str] = []
        for thing, is_there in self._known.items():
            if self._ticket and (thing == self._thing or set(self._thing[1:]) & set(thing[1:])):
                continue
            if FADING in thing:
                continue
            if thing[0] != "nothing" and self._is_there(vhost, thing) != is_there:
                complaints.append(
                    f"{self.name} was told that {thing} is {'there' if is_there else 'gone'}"
                )
        return complaints

    def _is_there(self, vhost: VirtualHost, thing: Thing) -> bool:
        if thing[0] == "queue":
            return self._own(thing[1]) in vhost.queues
        if thing[0] == "exchange":
            return self._own(thing[1]) in vhost.exchanges
        source = self._own(thing[1])
        destination = self._own(thing[2])
        key = "x" if thing[0] == "exchange binding" else thing[3]
        for binding in vhost.bindings.listed():
            end = binding.destination_queue or binding.destination_exchange
            if (
                binding.source.name == source
                and end is not None
                and end.name == destination
                and binding.routing_key == key
            ):
                return True
        return False
