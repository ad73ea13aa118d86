"""What a restart must recover, exactly.

Every tick is one batch, so a recovered journal holds the node's state at the end of some tick: not
before the last one whose end was known to be durable, and after the death of the process alone
exactly the last one. What every tick did is kept here, and the tick that a start came back to is
found by the journal position. From there on the ledger continues as if later ticks had not
happened.
"""

from typing import Final

from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.paged_list import PagedReadyList
from penstock.broker.state import DEFAULT_VHOST
from penstock.broker.store.definition_records import Change, encode_snapshot, snapshot_of
from penstock.broker.streams.journalled_appends import offset_of
from penstock.broker.streams.opening import streams_of
from penstock.broker.topology import CommitSink
from penstock.node.node import Node
from penstock.simulation import checkers
from penstock.simulation.copies import Fate, name_in
from penstock.simulation.dice import Dice
from penstock.simulation.durable_host import DurableHost, RecoveryWatcher, stored_of
from penstock.simulation.host import Host
from penstock.simulation.inspection import Inspection
from penstock.simulation.ledger import (
    ACKNOWLEDGED,
    DECLARED,
    DELETED,
    DEQUEUED,
    ENQUEUED,
    TAKEN,
    Happening,
    Ledger,
    QueueWatch,
)
from penstock.storage.segment import segment_of

# Each check reads the whole journal, so checks are rare.
LOOK_CHANCE: Final = 0.01
# What a message costs beside its body, at the most.
RECORD_BYTES: Final = 250
# Reclaiming stops when half of the octets are needed; counted roughly, and definitions take room.
NEEDED_SHARE: Final = 4
SEGMENTS_MAX: Final = 6


class Tick:
    """What one tick did, and how far the journal was written at its end."""

    def __init__(self, position: int, happenings: list[Happening], definitions: str | None) -> None:
        self.position = position
        self.happenings = happenings
        # Everything that was defined at its end; None when that had not changed.
        self.definitions = definitions


class RecoveryLedger(RecoveryWatcher):
    """Held by its host; follows one node over all its lives."""

    def __init__(self, ledger: Ledger, host: DurableHost, dice: Dice) -> None:
        self._ledger = ledger
        self._dice = dice
        self._ticks: list[Tick] = []
        self._change_count = -1
        self._safe = 0
        self._was_power_lost = False
        self._found: Inspection | None = None
        ledger.events = []
        host.watcher = self
        host.recovery_watcher = self

    # While it runs.

    def tick_ended(self, host: Host) -> None:
        node = host.node
        self._keep_tick(node)
        stored = stored_of(node)
        if stored.store.spool.file_count():
            self._ledger.history.sighted("the spool is used")
        if self._dice.chance(LOOK_CHANCE):
            assert isinstance(host, DurableHost)
            self.compare(host)

    def _keep_tick(self, node: Node) -> None:
        events = self._ledger.events
        assert events is not None, "a reader follows"
        count = node.state.definitions.change_count
        definitions: str | None = None
        if count != self._change_count:
            self._change_count = count
            definitions = definitions_of(node)
        if events or definitions is not None:
            self._ticks.append(Tick(node.durability.written, events, definitions))
            self._ledger.events = []

    def compare(self, host: DurableHost) -> None:
        """Compare a running node, at the end of a tick, with its disk."""
        node = host.node
        stored = stored_of(node)
        found = Inspection(host.disk)
        if found.has_snapshot:
            self._ledger.history.sighted("a snapshot of the definitions is written")
        held: dict[int, set[int]] = {}
        for queue, entry in node.unsettled():
            if (
                queue.number
                and not queue.is_deleted
                and not queue.keeps_messages
                and entry.message.properties.persistent
            ):
                held.setdefault(queue.number, set()).add(entry.position)
        queues = [queue for queue in node.state.queues() if queue.number]
        for queue in queues:
            on_disk = found.bodies(queue.number)
            positions = held.get(queue.number, set()) | self._ready_positions(queue)
            if positions != set(on_disk):
                self._violated(
                    f"{queue.name} holds {sorted(positions)}, its disk {sorted(on_disk)}"
                )
        numbers = [queue.number for queue in queues]
        line = node.state.vhost(DEFAULT_VHOST).delay_line
        if line.number:
            numbers.append(line.number)
            waiting = {entry.position for entry in checkers.delayed_entries(node)}
            if waiting != set(found.bodies(line.number)):
                self._violated(
                    f"{sorted(waiting)} wait, on disk {sorted(found.bodies(line.number))}"
                )
        counts = found.live_counts(numbers)
        for queue, entry in node.unsettled():
            # What is out of a queue that is deleted counts until it is settled.
            if queue.number and queue.is_deleted and entry.message.location >= 0:
                segment = segment_of(entry.message.location)
                counts[segment] = counts.get(segment, 0) + 1
        for segment in stored.journal.segments():
            believed = stored.store.lives.of(segment).live_count
            if believed != counts.get(segment, 0):
                self._violated(
                    f"segment {segment} holds {counts.get(segment, 0)} needed records, but the "
                    f"store counts {believed}"
                )

    def check_size(self, host: DurableHost) -> None:
        """An idle node's disk holds little more than what is in its queues."""
        found = Inspection(host.disk)
        needed = sum(
            len(body) + RECORD_BYTES
            for queue in host.node.state.queues()
            if queue.number
            for body in found.bodies(queue.number).values()
        )
        limit = needed * NEEDED_SHARE + host.segment_bytes_max * SEGMENTS_MAX
        if found.journal_bytes > limit:
            self._violated(f"{needed} bytes are needed, but {found.journal_bytes} are on disk")

    def _ready_positions(self, queue: MessageQueue) -> set[int]:
        """Of what is ready and persistent."""
        watch = self._ledger.watches.get(queue.name)
        ready = queue.journal_list()
        if queue.keeps_messages:
            if ready.count:
                self._ledger.history.sighted("a stream takes over through the journal")
            return set(ready.positions())
        if not isinstance(ready, PagedReadyList):
            return {
                entry.position
                for entry in queue.browse(checkers.BROWSE_MAX)
                if entry.message.properties.persistent
            }
        if ready.tail_count():
            self._ledger.history.sighted("messages are paged out")
        positions = set(ready.positions())
        if watch is not None:
            for name, position in watch.held.items():
                if not self._ledger.copies[name].is_persistent:
                    positions.discard(position)
        return positions

    # When it goes down.

    def went_down(self, host: DurableHost, was_power_lost: bool) -> None:
        node = host.node
        stored = stored_of(node)
        # A tick that failed after its batch was written still counts.
        if stored.journal.position > node.durability.written:
            node.durability.written = stored.journal.position
            self._keep_tick(node)
        self._ledger.events = []
        # A process that dies leaves what it wrote to the page cache, but for a long commit that the
        # disk's thread was still to write, and what came behind that.
        is_cut = was_power_lost or host.disk.was_written_late
        self._safe = node.durability.durable if is_cut else node.durability.written
        self._was_power_lost = was_power_lost

    # When it comes back.

    def comes_back(self, host: DurableHost) -> None:
        self._found = Inspection(host.disk)

    def came_back(self, host: DurableHost) -> None:
        node = host.node
        found = self._found
        assert found is not None, "looked at before the start"
        position = stored_of(node).journal.position
        if position < self._safe:
            self._violated(f"recovered to position {position}, but {self._safe} was durable")
        self._note_transient()
        kept = [tick for tick in self._ticks if tick.position <= position]
        self._ticks = kept
        self._check_definitions(node)
        self._replay()
        self._change_count = node.state.definitions.change_count
        for watch in self._ledger.watches.values():
            # A publisher cannot know how long a lost deletion was in effect.
            watch.returned_ms = self._ledger.history.now()
        for name, watch in self._ledger.watches.items():
            queue = checkers.queues_of(node).get(name)
            if queue is None:
                if watch.is_there:
                    self._violated(f"{name} was not recovered")
                continue
            if not watch.is_there:
                self._violated(f"{name} was deleted, but was recovered")
            self._forget_deliveries(watch)
            self._check_content(watch, found.bodies(queue.number))
        for name, watch in self._ledger.watches.items():
            queue = checkers.queues_of(node).get(name)
            if queue is not None:
                self._take_over(watch, queue)
        self._sight_streams(node, found)
        self._check_promises(node)

    def _sight_streams(self, node: Node, found: Inspection) -> None:
        """What the journal had for streams when the node started, in their files too or not."""
        for stream in streams_of(node.state.queues()):
            for position in found.bodies(stream.number):
                is_there = offset_of(position) < stream.files.log.end_offset
                what = "has" if is_there else "has lost"
                self._ledger.history.sighted(f"a stream {what} what the journal has for it")

    def _note_transient(self) -> None:
        """Messages that are not persistent end with their node."""
        for watch in self._ledger.watches.values():
            for name in [*watch.held, *sorted(watch.deleted_names)]:
                if not self._ledger.copies[name].is_persistent:
                    self._ledger.history.sighted("a transient message is dropped by a restart")
                    watch.evaporated_names.add(name)

    def _check_definitions(self, node: Node) -> None:
        expected = [tick.definitions for tick in self._ticks if tick.definitions is not None]
        if expected and definitions_of(node) != expected[-1]:
            self._violated(
                f"the definitions were {expected[-1]}, but {definitions_of(node)} were recovered"
            )

    def _replay(self) -> None:
        """Forget what happened in ticks that are lost."""
        watches = self._ledger.watches
        for watch in watches.values():
            watch.enqueued_names.clear()
            watch.held.clear()
            watch.acknowledged_names.clear()
            watch.taken_names.clear()
            watch.dead_names.clear()
            watch.deleted_names.clear()
            watch.is_there = True
            watch.begin_life()
        for tick in self._ticks:
            for queue, what, name, position in tick.happenings:
                watch = watches[queue]
                if what == ENQUEUED:
                    watch.enqueued_names.add(name)
                    watch.held[name] = position
                elif what == ACKNOWLEDGED:
                    watch.acknowledged_names.add(name)
                elif what == TAKEN:
                    watch.taken_names.add(name)
                elif what == DELETED:
                    watch.deleted_names |= set(watch.held)
                    watch.held.clear()
                    watch.is_there = False
                elif what == DECLARED:
                    watch.is_there = True
                else:
                    watch.held.pop(name, None)
                    if name not in (
                        watch.acknowledged_names | watch.taken_names | watch.evaporated_names
                    ):
                        watch.dead_names.add(name)

    def _forget_deliveries(self, watch: QueueWatch) -> None:
        """A message that was delivered before it was durable, and lost, may come as new: a dead
        letter that dies once more.
        """
        ledger = self._ledger
        queue = watch.plan.name
        lost = [name for name in watch.deliveries if name not in watch.enqueued_names]
        for name in lost:
            ledger.history.sighted("what was delivered is lost")
            del watch.deliveries[name]
            # Some client may only now read what it was sent then.
            watch.inherited_names.add(name)
            ledger.unflagged.discard((queue, name))

    def _check_content(self, watch: QueueWatch, on_disk: dict[int, bytes]) -> None:
        ledger = self._ledger
        gone = [name for name in watch.held if not ledger.copies[name].is_persistent]
        for name in gone:
            watch.evaporated_names.add(name)
            self._happened(watch, DEQUEUED, name, watch.held.pop(name))
        expected = {position: ledger.copies[name].kept for name, position in watch.held.items()}
        for position in sorted(expected.keys() | on_disk.keys()):
            if expected.get(position) != on_disk.get(position):
                was = name_in(expected.get(position, b"nothing"))
                came = name_in(on_disk.get(position, b"nothing"))
                what = f"{watch.plan.name} held {was!r} at {position}, but {came!r} was recovered"
                self._violated(what)

    def _take_over(self, watch: QueueWatch, queue: MessageQueue) -> None:
        """Messages that a start itself drops, by time to live or a limit, count as events of the
        new process.
        """
        ready = queue.journal_list()
        if isinstance(ready, PagedReadyList):
            positions = set(ready.positions())
        else:
            positions = {entry.position for entry in queue.browse(checkers.BROWSE_MAX)}
        # Not only of this start: a client that reads late sees deliveries of earlier lives.
        watch.inherited_names |= set(watch.held)
        for name, position in list(watch.held.items()):
            if position not in positions:
                self._ledger.history.sighted("a start drops what has expired or is too much")
                if not (watch.plan.dead_queue or watch.plan.may_drop):
                    self._violated(f"{watch.plan.name} dropped {name!r} at the start")
                self._died_at_start(watch, name, position)
        if positions != set(watch.held.values()):
            # A dead letter of this very start.
            known = set(watch.held.values())
            for entry in queue.browse(checkers.BROWSE_MAX):
                if entry.position not in known:
                    watch.enqueued(entry)
        queue.observers.append(watch)

    def _died_at_start(self, watch: QueueWatch, name: bytes, position: int) -> None:
        watch.held.pop(name)
        watch.dead_names.add(name)
        self._happened(watch, DEQUEUED, name, position)

    def _happened(self, watch: QueueWatch, what: str, name: bytes, position: int) -> None:
        assert self._ledger.events is not None, "a reader follows"
        self._ledger.events.append((watch.plan.name, what, name, position))

    def _check_promises(self, node: Node) -> None:
        """Check the confirms that clients got, independently of the journal."""
        for keeper in self._ledger.promise_keepers:
            for complaint in keeper.broken(node):
                self._violated(complaint)
        waiting = {name_in(entry.message.body) for entry in checkers.delayed_entries(node)}
        if waiting:
            self._ledger.history.sighted("a delayed message waits through a restart")
        for copy in self._ledger.copies.values():
            if copy.fate is not Fate.CONFIRMED or not copy.is_persistent:
                continue
            for queue in copy.queues if copy.name not in waiting else ():
                is_known = copy.name in self._ledger.watches[queue].enqueued_names
                if not is_known and (queue, copy.name) not in self._ledger.taken:
                    self._violated(f"confirmed {copy.name!r} is lost from {queue} after a restart")

        for queue, name in sorted(self._ledger.committed):
            if name in self._ledger.watches[queue].held:
                self._violated(
                    f"{name!r} of {queue} was recovered, although its transaction was committed"
                )

    def _violated(self, what: str) -> None:
        self._ledger.violated(f"{self._ledger.name}: {what}")


def definitions_of(node: Node) -> str:
    """In an order that does not depend on history."""
    changes = snapshot_of(node.state, node.unsettled())
    lines = [encode_snapshot([_settled(node, change)], 0) for change in changes]
    return "\n".join(sorted([line.decode() for line in lines]))


def _settled(node: Node, change: Change) -> Change:
    """A published stage is not recorded as such: it no longer exists."""
    command = change.command
    if change.vhost is None or not isinstance(command, CommitSink):
        return change
    queues = node.state.vhost(change.vhost).queues
    stages = tuple([name for name in command.stages if name in queues])
    return Change(change.vhost, CommitSink(command.sink, command.batch, stages), 0)
