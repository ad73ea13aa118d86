"""The record of a run of a cluster: one for all servers, because any of them may be the root.

The clients' side is what programs report. The broker's side comes from observers on the queues of
whoever is the root. When another server is elected, what it holds is compared with both, before it
decides anything: every message that was confirmed and not dequeued is there (P1), none whose dequeue was
completed (P2), a transaction is there completely or not at all, and every other promise is kept. So is it
after its first tick, in which it decides what backups do not, and when what it inherited is committed.
"""

from collections import deque
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.observers import QueueObserver
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.state import DEFAULT_VHOST
from penstock.formats.replication_id import epoch_of
from penstock.ha.replica_reading import RecordReader
from penstock.node.node import Node
from penstock.simulation.cluster_host import ClusterHost, ElectionWatcher
from penstock.simulation.copies import Copy, Fate, name_in
from penstock.simulation.definition_history import DefinitionHistory
from penstock.simulation.durable_host import stored_of
from penstock.simulation.host import Host, HostWatcher
from penstock.simulation.ledger import Ledger
from penstock.simulation.role_sightings import RoleSightings

# A server's clock may be ahead by this much when it has run for a minute.
DRIFT_MS: Final = 1_500
# A message in a queue: the queue's name, the copy's.
Held = tuple[str, bytes]
# The place of what a delayed exchange holds back.
DELAYED: Final = ""


def held_by(node: Node) -> set[Held]:
    """Every message that a server has in its state, root or not, ready or not."""
    assert node.stored is not None, "a member has a disk"
    assert node.stored.replica is not None, "a member has a replica"
    names = {queue.number: queue.name for queue in node.state.queues() if queue.number}
    names.update({host.delay_line.number: DELAYED for host in node.state.vhosts.values()})
    reader = RecordReader(node.stored.journal)
    found: set[Held] = set()
    for number, places in node.stored.replica.held_messages().everything().items():
        if number in names and number:
            for location in places[1]:
                found.add((names[number], name_in(reader.record(location).body())))
    return found


class ClusterLedger(Ledger):
    """Held by the run and by all programs."""

    # The newest root, and what it was found with or has taken since.
    top_epoch: int
    root_of: dict[int, str]

    def begin(self) -> None:
        """Nothing has happened yet."""
        self.top_epoch = 0
        self.root_of = {}
        # Dequeued at the newest root or an earlier one; and those whose dequeue was committed.
        self.gone: set[Held] = set()
        self.completed: set[Held] = set()
        # Of those that are gone: which went to a dead letter queue.
        self.dead: set[Held] = set()
        # In which epoch they went; a root that is deposed and does not know it may still dequeue.
        self._gone_in: dict[Held, int] = {}
        # What the newest root was elected with, until it is active; and the last one that was.
        self._inherited: set[Held] = set()
        self.active_epoch = 0
        # Enqueued at any root, and delivered by any.
        self.enqueued: set[Held] = set()
        self.sent: set[Held] = set()
        self.definitions = DefinitionHistory()
        # The newest root counts as a new life of what clients talk to.
        self.life = 0

    def confirmed(self, copy: Copy, refused: bool) -> None:
        if copy.fate is not Fate.SENT:
            self.violated(f"{copy.name!r} was confirmed while {copy.fate.value}")
        copy.fate = Fate.REFUSED if refused else Fate.CONFIRMED
        if refused and not any(self.watches[queue].plan.may_refuse for queue in copy.queues):
            self.violated(f"{copy.name!r} was refused, although no queue of its route may refuse")
        for queue in copy.queues if not (refused or copy.not_before) else ():
            if (queue, copy.name) not in self.enqueued:
                self.violated(f"{copy.name!r} was confirmed, but never reached {queue}")
        if copy.is_mandatory and not copy.queues and not copy.was_returned:
            self.violated(f"{copy.name!r} was confirmed before it was returned")

    def delivered(
        self, queue: str, consumer: str, body: bytes, redelivered: bool, may_be_resent: bool = False
    ) -> bytes:
        name = name_in(body)
        copy = self.copies.get(name)
        if copy is None or copy.body != body:
            self.violated(
                f"{consumer} got from {queue} a message that was never published: {body[:40]!r}"
            )
            return name
        watch = self.watches[queue]
        if not watch.may_hold(copy):
            self.violated(f"{name!r} came from {queue}, where it was not routed")
        if copy.not_before > self.history.now() + DRIFT_MS:
            self.violated(f"{name!r} came from {queue} before its delay was over")
        if copy.fate is Fate.ROLLED_BACK:
            self.violated(f"{name!r} was rolled back and came from {queue}")
        self.seen[queue, name] = self.seen.get((queue, name), 0) + 1
        if redelivered:
            self.history.sighted("a redelivery")
            return name
        if (queue, name) in self.unflagged:
            self.violated(f"{name!r} was delivered twice from {queue} without the flag (P3)")
        self.unflagged.add((queue, name))
        if not (watch.is_dead_queue or copy.not_before):
            self._check_order(queue, consumer, copy)
        return name

    def acknowledgement_committed(self, queue: str, name: bytes) -> None:
        """The answer may come from a root that was deposed meanwhile, but what it says is true."""
        if (queue, name) not in self.gone:
            self.violated(f"the acknowledgement of {name!r} in {queue} was committed and lost")
        self.completed.add((queue, name))

    # The broker's side.

    def elected(self, host: ClusterHost, epoch: int) -> None:
        """A server has won an election, and its state is that of a backup. Whatever was promised is in
        it (R5, I2), even if this server is never active.
        """
        if epoch < self.top_epoch:
            return
        held = held_by(host.node)
        complaints = self.wrong_in(held) + self._torn_in(held)
        complaints += self.definitions.wrong_in(host.node, stored_of(host.node).store.syn)
        complaints += self.broken_in(host.node)
        for complaint in complaints:
            self.violated(f"{host.name}, elected for epoch {epoch}: {complaint}")

    def became_root(self, host: ClusterHost, epoch: int, inherited_at: tuple[int, int]) -> None:
        """A server is the root of an epoch, and has decided what a root decides at once. `inherited_at`
        is where it was before.
        """
        self.history.add(f"{host.name} is the root of epoch {epoch}")
        known = self.root_of.setdefault(epoch, host.name)
        if known != host.name:
            self.violated(f"both {known} and {host.name} are roots of epoch {epoch} (P4)")
        if epoch < self.top_epoch:
            return
        self.top_epoch = epoch
        self.life = epoch
        held = held_by(host.node)
        self._inherited = held
        complaints = self.wrong_in(held) + self._torn_in(held)
        complaints += self.definitions.wrong_in_new_root(host.node, inherited_at)
        for complaint in complaints:
            self.violated(f"root {host.name} of epoch {epoch}: {complaint}")

    def _torn_in(self, held: set[Held]) -> list[str]:
        """Transactions of which a server has a part."""
        complaints: list[str] = []
        for copies in self.transactions:
            there = {
                (queue, copy.name) in held
                or (queue, copy.name) in self.gone
                or self._has_moved(queue, copy.name, held)
                for copy in copies
                for queue in copy.queues
            }
            if len(there) > 1:
                complaints.append(f"it has half of {[copy.name for copy in copies]}")
        return complaints

    def became_active(self, host: ClusterHost) -> None:
        """What the newest root has inherited is committed: a dequeue that it does not know was
        undone, and no later root may know it either.
        """
        if self.active_epoch == self.top_epoch:
            return
        self.active_epoch = self.top_epoch
        for complaint in self.broken_in(host.node):
            self.violated(f"root {host.name} of epoch {self.top_epoch}: {complaint}")
        undone = {
            held
            for held in (self.gone - self.completed) & self._inherited
            if self._gone_in[held] < self.top_epoch
        }
        if undone:
            self.history.sighted("an acknowledgement in doubt is undone")
        self.gone -= undone
        self.dead -= undone
        self._inherited = set()

    def dequeued(self, held: Held, epoch: int) -> None:
        self.gone.add(held)
        self._gone_in[held] = max(epoch, self._gone_in.get(held, 0))

    def broken_in(self, node: Node) -> list[str]:
        """Promises beside those of queues: of streams, leases, sinks, moves and administrators."""
        return [complaint for keeper in self.promise_keepers for complaint in keeper.broken(node)]

    def wrong_in(self, held: set[Held]) -> list[str]:
        """What a server must have and has not, or has and must not have (I5)."""
        complaints = [
            f"confirmed {name!r} is not in {queue} (P1)"
            for queue, name in sorted(self.must_be_held() - held)
            if not self._has_moved(queue, name, held)
        ]
        complaints += [
            f"{name!r} is in {queue} again, although its dequeue was completed (P2)"
            for queue, name in sorted(self.completed & held)
        ]
        return complaints

    def _has_moved(self, queue: str, name: bytes, held: set[Held]) -> bool:
        """Whether a message is where it was before it came to the queue, or has gone from there."""
        if self.copies[name].not_before and (DELAYED, name) in held:
            return True
        dead_queue = self.watches[queue].plan.dead_queue
        return bool(dead_queue) and ((dead_queue, name) in held or (dead_queue, name) in self.gone)

    def must_be_held(self) -> set[Held]:
        """What was confirmed and not dequeued. What died must be in the dead letter queue, unless
        it was dequeued there.
        """
        return {
            (queue, copy.name)
            for copy in self.copies.values()
            if copy.fate is Fate.CONFIRMED
            for queue in copy.queues
            if not self.watches[queue].plan.may_drop
            and ((queue, copy.name) not in self.gone or (queue, copy.name) in self.dead)
        }

    def sight_doubts(self, held: set[Held]) -> None:
        """What became of the publishes that were never answered."""
        for copy in self.copies.values():
            for queue in copy.queues if copy.fate is Fate.IN_DOUBT else ():
                if (queue, copy.name) in held or (queue, copy.name) in self.seen:
                    self.history.sighted("a publish in doubt survives")
                elif (queue, copy.name) in self.enqueued and (queue, copy.name) not in self.gone:
                    self.history.sighted("a publish in doubt vanishes")


class RootWatch(QueueObserver):
    """Sees one queue of a root. Held by that queue and by the watcher of its host."""

    def __init__(
        self, ledger: ClusterLedger, host: ClusterHost, queue: MessageQueue, epoch: int
    ) -> None:
        self._ledger = ledger
        self._host = host
        self.queue = queue
        self._epoch = epoch
        # Enqueued and dequeued since the last tick ended.
        self.enqueued_now: list[Held] = []
        self.dequeued_now: list[Held] = []
        # The journal positions of what was enqueued here.
        self.positions: dict[Held, int] = {}

    def _key(self, entry: QueueEntry) -> Held:
        return self.queue.name, name_in(entry.message.body)

    def enqueued(self, entry: QueueEntry) -> None:
        self._ledger.enqueued.add(self._key(entry))
        self.enqueued_now.append(self._key(entry))
        if epoch_of(entry.position) != self._epoch:
            self._ledger.violated(
                f"{self.queue.name} gave a position of epoch {epoch_of(entry.position)} in epoch "
                f"{self._epoch}"
            )

    def delivered(self, entry: QueueEntry) -> None:
        key = self._key(entry)
        host = self._host
        # What a root prepares without a lease never leaves it, which is checked where it would.
        is_sent = host.has_lease()
        if key in self.enqueued_now or self.positions.get(key, 0) > host.node.durability.durable:
            self._ledger.violated(f"{key[1]!r} is delivered from {key[0]} before its commit (R16)")
        if is_sent and key in self._ledger.completed:
            self._ledger.violated(
                f"{key[1]!r} is delivered from {key[0]}, although its dequeue was completed (P2)"
            )
        if is_sent and key in self._ledger.sent and not entry.is_redelivered:
            self._ledger.violated(f"{key[1]!r} is delivered again from {key[0]} unflagged (P3)")
        self._ledger.sent.add(key)

    def taken_many(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            self.delivered(entry)
            self._ledger.taken.add(self._key(entry))
        super().taken_many(entries)

    def dropped(self, entry: QueueEntry, reason: str) -> None:
        if (
            self._epoch >= self._ledger.active_epoch
            and self._ledger.watches[self.queue.name].plan.dead_queue
        ):
            self._ledger.dead.add(self._key(entry))
        super().dropped(entry, reason)

    def dequeued(self, entry: QueueEntry) -> None:
        if self._epoch >= self._ledger.active_epoch:
            self._ledger.dequeued(self._key(entry), self._epoch)
            self.dequeued_now.append(self._key(entry))


class MemberWatcher(HostWatcher, ElectionWatcher):
    """Follows one server from role to role. Held by its host."""

    def __init__(self, ledger: ClusterLedger, hosts: list[ClusterHost]) -> None:
        self._ledger = ledger
        self._hosts = hosts
        self._root: tuple[int, int] = (0, 0)
        # Where it was as a backup, and how many changes of definitions it has seen as a root.
        self._syn: tuple[int, int] = (0, 0)
        self._change_count = -1
        self._watches: dict[str, RootWatch] = {}
        # Journal positions, with what was dequeued in their ticks.
        self._dequeued: deque[tuple[int, list[Held]]] = deque()
        self._sightings = RoleSightings(ledger.history)

    def elected(self, host: ClusterHost, epoch: int) -> None:
        self._ledger.elected(host, epoch)
        # It may have applied operations in this tick.
        self._syn = stored_of(host.node).store.syn

    def tick_ended(self, host: Host) -> None:
        assert isinstance(host, ClusterHost), "a server of a cluster"
        self._sightings.look(host)
        while host.broken_promises:
            self._ledger.violated(host.broken_promises.pop())
        serving = [other.name for other in self._hosts if other.may_serve()]
        if len(serving) > 1:
            self._ledger.violated(f"{' and '.join(serving)} serve clients at the same time")
        primary = host.member.primary
        if primary is None:
            self._syn = stored_of(host.node).store.syn
            if self._root == (host.life, self._syn[0]):
                # It has just stepped down. Its last operation has what its clients left: what they
                # defined in this tick, and what they held.
                self._ledger.definitions.defined(host.node, *self._syn)
                self._ledger.definitions.tick_ended(host.node, *self._syn)
                self._tell_keepers(host.node, self._syn[0])
            self._root = (0, 0)
            return
        if self._root != (host.life, primary.epoch):
            self._root = (host.life, primary.epoch)
            self._watches = {}
            self._dequeued = deque()
            self._sightings.won(primary, self._hosts)
            self._ledger.became_root(host, primary.epoch, self._syn)
            self._change_count = -1
        if primary.epoch == self._ledger.top_epoch and primary.committed_k >= 0:
            self._ledger.became_active(host)
        changes = host.node.state.definitions.change_count
        if changes != self._change_count:
            self._change_count = changes
            self._ledger.definitions.defined(host.node, primary.epoch, primary.last_k)
        self._ledger.definitions.tick_ended(host.node, primary.epoch, primary.last_k)
        self._attach(host, primary.epoch)
        self._note(host.node)
        self._tell_keepers(host.node, primary.epoch)

    def _tell_keepers(self, node: Node, epoch: int) -> None:
        if epoch == self._ledger.top_epoch:
            for keeper in self._ledger.promise_keepers:
                keeper.root_ticked(node, epoch)

    def _attach(self, host: ClusterHost, epoch: int) -> None:
        vhost = host.node.state.vhosts.get(DEFAULT_VHOST)
        if vhost is None:
            return
        for name in self._ledger.watches:
            queue = vhost.queues.get(name)
            known = self._watches.get(name)
            if queue is not None and (known is None or known.queue is not queue):
                self._watches[name] = RootWatch(self._ledger, host, queue, epoch)
                queue.observers.append(self._watches[name])

    def _note(self, node: Node) -> None:
        """What was dequeued in this tick is completed when the tick is committed."""
        dequeued: list[Held] = []
        for watch in self._watches.values():
            dequeued += watch.dequeued_now
            watch.positions.update(dict.fromkeys(watch.enqueued_now, node.durability.written))
            watch.enqueued_now = []
            watch.dequeued_now = []
        if dequeued:
            self._dequeued.append((node.durability.written, dequeued))
        while self._dequeued and self._dequeued[0][0] <= node.durability.durable:
            self._ledger.completed.update(self._dequeued.popleft()[1])
