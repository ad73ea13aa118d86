"""Three members that change roles, lose their links and are killed; each is always what a root was.

Every root notes what its state was after each of its operations. Whatever happens, the state of each
member is the one that was noted for its `syn`. A run is determined by its seed.
"""

from collections import Counter
from random import Random

import pytest

from penstock.broker.errors import Refusal
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import (
    BindQueue,
    ClearPolicy,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    PutUser,
    SetPolicy,
    UnbindQueue,
)
from penstock.ha.replica_reading import RecordReader
from tests.broker.store.doubles import message
from tests.ha.replica_doubles import Member, audit, finish, sync

NAMES = ["a", "b", "c", "d"]
KINDS: list[dict[str, object]] = [
    {},
    {},
    {"x-max-priority": 3},
    {"x-message-ttl": 40},
    {"x-max-length": 9, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "d"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "a"},
    {"x-expires": 500},
]
# How often what happens, in relation to one another.
WEIGHTS = {
    "declare": 6,
    "delete": 1,
    "purge": 1,
    "bind": 2,
    "unbind": 1,
    "delete_exchange": 1,
    "limit": 1,
    "clear_limit": 1,
    "put_user": 1,
    "publish": 12,
    "publish_many": 6,
    "get": 6,
    "settle": 10,
    "take_many": 4,
    "end_of_tick": 10,
    "follow": 20,
    "join": 10,
    "sync_partly": 5,
    "stage_live": 5,
    "flush": 5,
    "reclaim": 10,
    "restart": 3,
    "restart_with_a_torn_tail": 2,
    "change_the_root": 2,
}


class MembersRun:
    """The model is what each root noted."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.members = [Member(), Member(), Member()]
        self.noted: dict[tuple[int, int], str] = {(0, 0): self.members[0].digest()}
        self.epoch = 0
        self.root = 0
        self.body = 0
        # In the middle of a SYNC: which live operations are staged from, by member.
        self.sightings: Counter[str] = Counter()
        self.elect(0)

    def run(self, steps: int) -> None:
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        for step in range(steps):
            (name,) = self.dice.choices(names, weights)
            getattr(self, name)()
            self.check(f"step {step}: {name}")

    def check(self, where: str) -> None:
        for index, member in enumerate(self.members):
            if index == self.root:
                continue
            syn = member.replica.syn()
            assert member.digest() == self.noted[syn], f"{where}: member {index} at {syn}"
            audit(member)
            check_octets(member)
            assert not member.state.decides
            assert member.replica.durable_syn() <= syn

    @property
    def at_root(self) -> Member:
        return self.members[self.root]

    def queue(self) -> MessageQueue | None:
        return self.at_root.vhost.queues.get(self.dice.choice(NAMES))

    def backup(self) -> Member:
        return self.members[(self.root + self.dice.choice([1, 2])) % 3]

    def elect(self, index: int) -> None:
        self.epoch += 1
        self.root = index
        self.noted[self.epoch, 0] = self.at_root.digest()
        self.at_root.promote(self.epoch)
        self.tick()

    def tick(self, milliseconds: int = 1) -> None:
        root = self.at_root
        root.tick(milliseconds)
        root.flushed()
        self.noted[root.replica.syn()] = root.digest()

    # What clients do.

    def declare(self) -> None:
        name = self.dice.choice(NAMES)
        if name not in self.at_root.vhost.queues:
            durable = self.dice.random() < 0.9
            kind = self.dice.choice(KINDS)
            self.at_root.apply(DeclareQueue(name, durable=durable, arguments=kind))

    def delete(self) -> None:
        self.at_root.apply(DeleteQueue(self.dice.choice(NAMES)))

    def purge(self) -> None:
        queue = self.queue()
        if queue is not None:
            self.at_root.apply(PurgeQueue(queue.name))

    def bind(self) -> None:
        try:
            auto_delete = self.dice.random() < 0.5
            durable = self.dice.random() < 0.7
            exchange = DeclareExchange("x", "fanout", durable=durable, auto_delete=auto_delete)
            self.at_root.apply(exchange)
            self.at_root.apply(BindQueue(self.dice.choice(NAMES), "x", ""))
        except Refusal:
            pass

    def unbind(self) -> None:
        self.at_root.apply(UnbindQueue(self.dice.choice(NAMES), "x", ""))

    def delete_exchange(self) -> None:
        self.at_root.apply(DeleteExchange("x"))

    def limit(self) -> None:
        definition: dict[str, object] = {"max-length": self.dice.randrange(20)}
        self.at_root.apply(SetPolicy("short", "^[ab]$", definition, "queues", 0))

    def clear_limit(self) -> None:
        if self.at_root.vhost.policies.listed():
            self.at_root.apply(ClearPolicy("short"))

    def put_user(self) -> None:
        self.at_root.state.apply(PutUser(self.dice.choice(NAMES), "", ()), 0)

    def publish(self) -> None:
        reached = self.dice.sample(NAMES, self.dice.randint(1, 3))
        self._publish(reached, self.dice.randrange(90))

    def _publish(self, reached: list[str], size: int) -> None:
        root = self.at_root
        self.body += 1
        persistent = self.body % 3 > 0
        sent = message(
            b"%d" % self.body + b"." * size, priority=self.body % 5, persistent=persistent
        )
        for name in reached:
            queue = root.vhost.queues.get(name)
            if queue is not None:
                queue.enqueue(sent, root.now)

    def publish_many(self) -> None:
        name = self.dice.choice(NAMES)
        for _ in range(self.dice.randint(1, 30)):
            self._publish([name], 10)

    def get(self) -> None:
        queue = self.queue()
        for _ in range(self.dice.randint(1, 5)):
            entry = None if queue is None else queue.get(self.at_root.now)
            if queue is not None and entry is not None:
                self.at_root.out.append((queue, entry))

    def settle(self) -> None:
        root = self.at_root
        if not root.out:
            return
        queue, entry = root.out.pop(self.dice.randrange(len(root.out)))
        what = self.dice.randrange(4)
        if what < 2:
            queue.acknowledge(entry)
        elif what == 2:
            queue.requeue([entry], root.now)
        else:
            queue.reject(entry, root.now)

    def take_many(self) -> None:
        queue = self.queue()
        for _ in range(self.dice.randint(1, 60)):
            entry = None if queue is None else queue.get(self.at_root.now)
            if queue is None or entry is None:
                break
            queue.acknowledge(entry)

    def end_of_tick(self) -> None:
        # What is not committed yet is in the state all the same.
        self.at_root.commits = self.dice.random() < 0.7
        self.tick(self.dice.choice([1, 1, 1, 1, 20, 200]))

    # What links do. The root is at the end of a tick.

    def follow(self) -> None:
        self.tick()
        member = self.backup()
        epoch, k = member.replica.syn()
        if epoch == self.epoch:
            self.sightings["staged while following"] += bool(member.store.staged)
            member.follow(self.at_root, k + self.dice.randint(1, 8))
            self.sightings["followed"] += member.replica.syn()[1] > k

    def join(self) -> None:
        self.tick()
        member = self.backup()
        before = bool(member.store.staged)
        assert sync(member, self.at_root)
        self.sightings["continued a SYNC"] += before
        self.sightings["staged anything"] += bool(member.store.staged)
        finish(member, self.at_root)
        assert member.replica.syn() == self.at_root.replica.syn()

    def sync_partly(self) -> None:
        self.tick()
        sync(self.backup(), self.at_root, self.dice.randint(1, 6))

    def stage_live(self) -> None:
        """Operations that come while a SYNC goes on, which then ends or is interrupted."""
        member = self.backup()
        before = len(self.at_root.stream.operations)
        self.tick()
        for operation in self.at_root.stream.operations[before:]:
            if member.replica.syn()[0] != self.epoch or self.dice.random() < 0.5:
                member.replica.staging.stage_operation(operation)
                self.sightings["staged live"] += 1

    def flush(self) -> None:
        member = self.backup()
        member.flushed()
        assert member.replica.durable_syn() == member.replica.syn()

    def reclaim(self) -> None:
        member = self.backup()
        before = member.journal.segments()
        staged = bool(member.store.staged)
        for _ in range(30):
            member.tick()
            member.flushed()
        assert member.replica.durable_syn() == member.replica.syn()
        removed = member.journal.segments()[0] != before[0] if before else False
        self.sightings["backup removed a segment"] += removed
        self.sightings["removed a segment while staged"] += removed and staged

    # What goes wrong.

    def restart(self) -> None:
        member = self.backup()
        self.sightings["restarted while staged"] += bool(member.store.staged)
        again = member.restarted()
        assert again.replica.staged_ids() == member.replica.staged_ids()
        self.replace(member, again)

    def restart_with_a_torn_tail(self) -> None:
        member = self.backup()
        durable, syn = member.replica.durable_syn(), member.replica.syn()
        again = member.torn(self.dice.randrange(1500))
        assert durable <= again.replica.syn() <= syn
        self.sightings["lost what was not durable"] += again.replica.syn() < syn
        self.replace(member, again)

    def replace(self, old: Member, new: Member) -> None:
        self.members[self.members.index(old)] = new

    def change_the_root(self) -> None:
        self.tick()
        old = self.at_root
        if self.dice.random() < 0.5:
            self.replace(old, old.restarted())
        else:
            old.demote()
            # Requeueing may have brought one more operation.
            self.noted.setdefault(old.replica.syn(), old.digest())
        self.elect(self.dice.randrange(3))


def check_octets(member: Member) -> None:
    reader = RecordReader(member.journal)
    everything = member.replica.held_messages().everything()
    for queue in member.state.queues():
        if queue.number:
            assert queue.ready_bytes == reader.body_octets(everything[queue.number][1])


@pytest.mark.parametrize("seed", range(20))
def test_each_member_is_what_a_root_was(seed: int) -> None:
    MembersRun(seed).run(200)


def test_the_runs_see_what_they_are_for() -> None:
    seen: Counter[str] = Counter()
    for seed in range(100, 104):
        run = MembersRun(seed)
        run.run(200)
        seen += run.sightings
    assert not [name for name in run.sightings if not seen[name]]
