"""The definition of a scenario: queues and bindings, how many clients, how often which faults.

A topology here is also the model that deliveries are checked against, so it routes by itself: what
a message's queues are is computed twice, once by the node and once by `Topology.queues_for`.
"""

from dataclasses import dataclass, field

from penstock.broker.exchanges.delayed import KIND as DELAYED_KIND
from penstock.broker.exchanges.delayed import TYPE_ARGUMENT as DELAYED_TYPE
from penstock.broker.store.limits import StoreLimits
from penstock.broker.topology import BindQueue, DeclareExchange, DeclareQueue, VhostCommand


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """One queue. `dead_queue` is where messages that die in it must arrive."""

    name: str
    arguments: dict[str, object] = field(default_factory=dict)
    dead_queue: str = ""
    # It has no consumers: at the end everything must still be there.
    is_unread: bool = False
    # What it drops is lost on purpose: a length limit without dead-lettering.
    may_drop: bool = False
    # Publishes may be refused: `x-overflow` is reject-publish.
    may_refuse: bool = False
    # An operator deletes it now and then, with all that is in it, and declares it anew.
    may_vanish: bool = False


@dataclass(frozen=True, slots=True)
class BindingPlan:
    exchange: str
    key: str
    queue: str


@dataclass(frozen=True, slots=True)
class Topology:
    exchanges: dict[str, str]
    queues: tuple[QueuePlan, ...]
    bindings: tuple[BindingPlan, ...]
    # What publishers may use; some of it reaches no queue.
    routes: tuple[tuple[str, str], ...]
    # Exchanges that hold a message back first, and route like the one of the plan then.
    delayed: frozenset[str] = frozenset()
    # Objects beside the plan, for programs with records of their own.
    more: tuple[VhostCommand, ...] = ()

    def queues_for(self, exchange: str, key: str) -> tuple[str, ...]:
        if not exchange:
            return tuple(plan.name for plan in self.queues if plan.name == key)
        kind = self.exchanges.get(exchange, "")
        found = [
            binding.queue
            for binding in self.bindings
            if binding.exchange == exchange and matches(kind, binding.key, key)
        ]
        return tuple(dict.fromkeys(found))

    def commands(self) -> list[VhostCommand]:
        """The commands that create all of it in a new node."""
        commands: list[VhostCommand] = []
        for name in self.exchanges:
            kind, arguments = self.declared(name)
            commands.append(DeclareExchange(name, kind, durable=True, arguments=arguments))
        for plan in self.queues:
            commands.append(DeclareQueue(plan.name, durable=True, arguments=dict(plan.arguments)))
        for binding in self.bindings:
            commands.append(BindQueue(binding.queue, binding.exchange, binding.key))
        return [*commands, *self.more]

    def declared(self, exchange: str) -> tuple[str, dict[str, object]]:
        """Kind and arguments of an exchange."""
        kind = self.exchanges[exchange]
        if exchange in self.delayed:
            return DELAYED_KIND, {DELAYED_TYPE: kind}
        return kind, {}


def matches(kind: str, pattern: str, key: str) -> bool:
    """Deliberately not the broker's trie: the plainest code that follows the specification."""
    if kind == "fanout":
        return True
    if kind == "direct":
        return pattern == key
    return _topic_matches(pattern.split("."), key.split(".") if key else [])


def _topic_matches(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_topic_matches(pattern[1:], words[skip:]) for skip in range(len(words) + 1))
    return bool(words) and pattern[0] in {"*", words[0]} and _topic_matches(pattern[1:], words[1:])


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """A node with a disk: its limits, and how often each fault happens."""

    limits: StoreLimits = field(default_factory=StoreLimits)
    kill_weight: int = 5
    power_weight: int = 12
    stop_weight: int = 1
    failed_flush_weight: int = 2
    full_disk_weight: int = 2


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """When a stream gives up segments; 0 for no limit."""

    bytes_max: int = 0
    age_ms_max: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """All numbers of a kind of run; what varies within it is drawn from the seed."""

    topology: Topology
    host_count: int = 1
    # Of a cluster: servers that run beside the members and are added and removed.
    spare_count: int = 0
    publisher_count: int = 3
    transactional_count: int = 0
    # For each queue that is read.
    consumers_per_queue: int = 2
    messages_per_publisher: int = 50
    body_bytes_max: int = 300
    frame_max: int = 131_072
    prefetch_max: int = 20
    # Consumers now and then stop reading for a while.
    consumers_pause: bool = False
    # Mean time between faults, in milliseconds. Recovery takes from a tenth of a second (a reset)
    # to some four seconds (a cut), so most faults meet nodes that have recovered.
    fault_interval_ms: int = 1_500
    alarm_weight: int = 1
    # None for a node that keeps everything in memory.
    storage: StoragePlan | None = None
    persistent_share: float = 0.0
    # Who declare and delete all the time.
    operator_count: int = 0
    administrator_count: int = 0
    # For each queue that is read: who acknowledge in transactions, and who never acknowledge.
    transactional_consumers_per_queue: int = 0
    careless_consumers_per_queue: int = 0
    # Who publish to streams, with and without numbers, and who read them, for each stream.
    stream_publisher_count: int = 0
    readers_per_stream: int = 0
    # By stream; in a cluster only.
    retention: dict[str, RetentionPlan] = field(default_factory=dict)
    # Who take leases, with a publisher each for what they take; and who write in batches.
    lease_job_count: int = 0
    sink_job_count: int = 0
    # Operators who move messages between queues, with a publisher each.
    move_job_count: int = 0
    # Who publish what moves on to a stream, with a mover each.
    mover_count: int = 0
    # Over AMQP 1.0: who send, who receive (for each queue that is read), and who do both in
    # transactions. The shares are of links that outlive their connections and are resumed.
    sender_count: int = 0
    receivers_per_queue: int = 0
    transactor_count: int = 0
    lasting_share: float = 0.0


def dead_lettering(queue: str, **arguments: object) -> QueuePlan:
    """A queue whose dead messages go to a queue of its own, so that each can be followed."""
    said = {name.replace("_", "-"): value for name, value in arguments.items()}
    said["x-dead-letter-exchange"] = ""
    said["x-dead-letter-routing-key"] = f"dead.{queue}"
    return QueuePlan(queue, said, dead_queue=f"dead.{queue}")
