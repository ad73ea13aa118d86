"""The store as a whole against a model: any mixture of traffic, ticks, restarts and reclaiming."""

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import DeleteQueue, PurgeQueue
from tests.broker.store.doubles import Broker, audit, message

NAMES = ("a", "b", "t")
QUEUES = st.sampled_from(NAMES)


class ModelEntry:
    def __init__(self, body: bytes, persistent: bool) -> None:
        self.body = body
        self.persistent = persistent
        self.seen = False


class StoreMachine(RuleBasedStateMachine):
    """`a` and `b` are durable, `t` is not. A queue of the model holds what is ready, in order, and
    what is out stands beside it with its place.
    """

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker()
        for name in NAMES:
            self.broker.declare(name, durable=name != "t")
        self.broker.tick()
        self.ready: dict[str, list[ModelEntry]] = {name: [] for name in NAMES}
        self.order: dict[ModelEntry, int] = {}
        self.out: list[tuple[MessageQueue, str, QueueEntry, ModelEntry]] = []
        self.sent = 0

    def model_entry(self, body: bytes, persistent: bool) -> ModelEntry:
        entry = ModelEntry(body, persistent)
        self.order[entry] = len(self.order)
        return entry

    @rule(
        names=st.lists(QUEUES, min_size=1, unique=True),
        persistent=st.booleans(),
        count=st.integers(1, 8),
        size=st.integers(0, 200),
    )
    def publish(self, names: list[str], persistent: bool, count: int, size: int) -> None:
        for _ in range(count):
            self.sent += 1
            body = b"%d " % self.sent + b"x" * size
            sent = message(body, persistent=persistent)
            for name in names:
                self.broker.vhost.queue(name).enqueue(sent, self.broker.now)
                self.ready[name].append(self.model_entry(body, persistent))

    @rule(name=QUEUES, count=st.integers(1, 8))
    def deliver(self, name: str, count: int) -> None:
        for _ in range(min(count, len(self.ready[name]))):
            entry = self.broker.get(name)
            expected = self.ready[name].pop(0)
            assert entry.message.body == expected.body
            assert entry.is_redelivered == expected.seen
            self.out.append((self.broker.vhost.queue(name), name, entry, expected))

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        for chosen in self.chosen(data):
            self.broker.acknowledge(chosen[2])

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        for queue, name, entry, expected in self.chosen(data):
            self.broker.settle(entry)
            queue.requeue([entry], self.broker.now)
            if not queue.is_deleted:
                expected.seen = True
                self.ready[name].append(expected)
                self.ready[name].sort(key=self.order.__getitem__)

    def chosen(self, data: st.DataObject) -> list[tuple[MessageQueue, str, QueueEntry, ModelEntry]]:
        indices = data.draw(
            st.lists(st.integers(0, len(self.out) - 1), min_size=1, max_size=6, unique=True)
        )
        found = [self.out[index] for index in indices]
        self.out = [out for index, out in enumerate(self.out) if index not in indices]
        return found

    @rule(name=QUEUES)
    def purge(self, name: str) -> None:
        self.broker.apply(PurgeQueue(name))
        self.ready[name] = []

    @rule(name=QUEUES)
    def delete_and_declare_anew(self, name: str) -> None:
        self.broker.apply(DeleteQueue(name))
        self.broker.declare(name, durable=name != "t")
        self.ready[name] = []

    @rule(count=st.integers(1, 5))
    def tick(self, count: int) -> None:
        for _ in range(count):
            self.broker.tick()
        audit(self.broker)

    @rule()
    def end_of_tick_and_restart(self) -> None:
        self.broker.tick()
        self.broker = self.broker.restarted()
        for queue, name, _, expected in self.out:
            if not queue.is_deleted:
                self.ready[name].append(expected)
        self.out = []
        self.ready["t"] = []
        for name in "a", "b":
            kept = [entry for entry in self.ready[name] if entry.persistent]
            self.ready[name] = sorted(kept, key=self.order.__getitem__)
            for entry in kept:
                entry.seen = True
        self.broker.declare("t", durable=False)

    @invariant()
    def counts_agree(self) -> None:
        for name in NAMES:
            queue = self.broker.vhost.queue(name)
            assert queue.message_count == len(self.ready[name])
            assert queue.ready_bytes == sum(len(entry.body) for entry in self.ready[name])

    def teardown(self) -> None:
        self.broker.rest()
        audit(self.broker)
        for queue, _, entry, _ in self.out:
            self.broker.settle(entry)
            queue.acknowledge(entry)
        for name in NAMES:
            assert self.broker.drain(name) == [entry.body for entry in self.ready[name]]
        self.broker.rest()
        audit(self.broker)
        assert self.broker.store.spool.file_count() <= 1
        assert len(self.broker.journal.segments()) <= 2


StoreMachine.TestCase.settings = hypothesis.settings(
    max_examples=150, stateful_step_count=40, deadline=None
)
TestAgainstAModel = StoreMachine.TestCase
