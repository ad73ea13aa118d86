"""The store of a cluster's member: a replica while another server is the root, and the way there and back.

A backup keeps applying operations as a start does what it reads back: each is one batch of its own
journal, and its messages go to lists without a message in memory. It reclaims on its own. It decides
nothing (`BrokerState.decides`). A SYNC is staged beside the state and takes effect in one record.

When its server becomes the root (`promote`), each queue gets a list that pages, with the same arrays;
only priority queues and delay lines are read. When it steps down (`demote`), everything that is defined
is made anew around lists of a replica, as at a start: no timer, consumer or lock of the root is left.

Invariants
- the state is at every moment what the root of epoch e had after k whole operations; (e, k) is
  `syn()`, and `durable_syn()` is what a crash would leave of it;
- nothing is acknowledged, nor reclaimed, before the record that says so is durable: the journal
  removes a segment only when everything before is.
"""

from typing import Final

from penstock.broker.delays.delay_line import DelayLine
from penstock.broker.leases.leases import resume_leases
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.position_runs import Ranges
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.replication_level import ReplicationLevel
from penstock.broker.sinks.sinks import resume_sinks
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.store import records
from penstock.broker.store.definition_records import (
    Change,
    encode_snapshot,
)
from penstock.broker.store.journalled_blocks import JournalledBlocks
from penstock.broker.store.message_store import (
    MessageStore,
    StoredDefinitions,
    StoredLists,
)
from penstock.broker.store.reclaim import Reclaimer, UnsettledSource, whole_snapshot
from penstock.broker.streams.opening import streams_of
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.topology import DeleteExchange, DeleteQueue
from penstock.ha.broker_replicator import BrokerReplicator, UnheardDefinitions
from penstock.ha.id_setter import IdSetter
from penstock.ha.made_queue import MadeQueue
from penstock.ha.operation_ends import OperationEnds
from penstock.ha.queue_guard import first_uncommitted
from penstock.ha.replica_operation import (
    BadOperation,
    ReplicaOperation,
    read_change,
    read_operation,
    read_snapshot,
)
from penstock.ha.replica_queues import ReplicaLists, ReplicaQueues
from penstock.ha.replica_reading import HeldMessages, RecordReader
from penstock.ha.replica_recovery import ReplicaRecovery
from penstock.ha.replicated_messages import ReplicatedMessages
from penstock.ha.stream_replicator import StreamReplicator
from penstock.ha.sync_staging import SyncStaging
from penstock.ha.trial_definitions import try_definitions, try_operation
from penstock.storage.journal import NOT_SUMMED
from penstock.storage.segment import segment_of

# Batches that are appended and not known to be durable. There is one per operation, so this is more
# than come between two flushes; beyond it one of them stands for the last ones together, which only
# delays their acknowledgement.
UNFLUSHED_MAX: Final = 4096
Target = list[tuple[int, Ranges]]  # by queue number


class ReplicaStore:
    """Held by the node of a member, beside the message store whose journal and segments it uses."""

    def __init__(
        self,
        state: BrokerState,
        store: MessageStore,
        reclaimer: Reclaimer,
        deliveries: UnsettledSource,
        recovery: ReplicaRecovery,
        streams: ReplicatedStreams,
        now: int,
    ) -> None:
        self._state: BrokerState = state
        self._store: MessageStore = store
        self._reclaimer: Reclaimer = reclaimer
        self._deliveries: UnsettledSource = deliveries
        self._queues: ReplicaQueues = ReplicaQueues(store)
        self._definitions: BrokerReplicator = BrokerReplicator(state, self._queues)
        streams.keeper = JournalledBlocks(store)
        store.streams = streams
        self._streams: StreamReplicator = StreamReplicator(store, streams)
        self.staging: SyncStaging = SyncStaging(store, self._queues, self._streams)
        self.is_root: bool = False
        # What a crash would leave, and the journal positions at which it becomes more.
        self._durable_syn: tuple[int, int] = (0, 0)
        self._unflushed: list[tuple[int, tuple[int, int]]] = []
        # What is read in this moment, once anything was; and the records that were read last, at most a
        # block of the journal: the next piece begins there.
        self._held: HeldMessages | None = None
        self._reader: RecordReader = RecordReader(store.journal)
        self._become_backup()
        self._ends: OperationEnds = OperationEnds(UNFLUSHED_MAX)
        recovery.restore_replica(state, store, self._queues, self._definitions, streams, now)
        self._definitions.opens_streams = True
        self._note_syn(recovery.syn(), recovery.syn_segment())

    def _become_backup(self) -> None:
        self.is_root = False
        self._state.decides = False
        self._state.log_definitions(UnheardDefinitions())
        self._state.shared.ready_lists = ReplicaLists()

    # Positions.

    def syn(self) -> tuple[int, int]:
        """Epoch and k of the state."""
        return self._store.syn

    def durable_syn(self) -> tuple[int, int]:
        """Epoch and k of what would be there after a crash."""
        durable = self._store.journal.durable_position
        count = 0
        while count < len(self._unflushed) and self._unflushed[count][0] <= durable:
            self._durable_syn = self._unflushed[count][1]
            count += 1
        if count:
            del self._unflushed[:count]
        return self._durable_syn

    def _note_syn(self, syn: tuple[int, int], segment: int) -> None:
        """The journal's last batch says how far the state has come."""
        self._store.note_syn(syn[0], syn[1], segment)
        if len(self._unflushed) == UNFLUSHED_MAX:
            self._unflushed.pop()
        position = self._store.journal.position
        self._unflushed.append((position, syn))
        self._ends.note(syn[0], syn[1], position)

    def committed_position(self, epoch: int, k: int) -> int:
        """The journal's position up to which a backup knows its state to be committed, and has it
        durably, if the root of an epoch says that operation k is committed; 0 for nothing new.
        """
        if self.is_root:
            return 0
        return self._ends.committed(epoch, k, self._store.journal.durable_position)

    # What a root sends.

    def apply(self, octets: bytes, now: int, checksum: int = NOT_SUMMED, start: int = 0) -> None:
        """Apply a whole operation: the one after `syn()`, which are the octets from a place on. Raises
        `BadOperation`, and has changed nothing then. `checksum` is the operation's, if it is known.
        """
        assert not self.is_root, "a root applies what its clients want"
        operation = read_operation(octets, start)
        epoch, k = self._store.syn
        if operation.epoch != epoch or operation.k != k + 1:
            raise BadOperation(
                f"operation {operation.k} of epoch {operation.epoch} does not follow operation {k} "
                f"of epoch {epoch}"
            )
        self._queues.check(operation)
        self._streams.check(operation)
        if operation.changes:
            try_operation(operation.changes, self._state, now)
        store = self._store
        # Places of records are counted from the first of the octets. There are fewer before the
        # operation than a batch's header has, so this is in the same segment.
        base = store.journal.append(octets, checksum, start) - start
        self._note_syn((epoch, operation.k), segment_of(base))
        for change in operation.changes:
            self._change(change, now)
        self._queues.add_messages(octets, operation.runs, base, bool(operation.changes))
        for record in operation.dequeued:
            self._queues.remove_messages(record)
        self._streams.apply(operation, base)
        store.journal.request_flush()

    def _change(self, change: Change, now: int) -> None:
        self._definitions.change(change, now)
        if change.queue_number >= self._store.next_queue_number:
            self._store.next_queue_number = change.queue_number + 1

    def parts(self, octets: bytes) -> ReplicaOperation:
        """An operation, taken apart; nothing is applied. Raises `BadOperation`."""
        return read_operation(octets)

    # SYNC: what it brings is staged (`sync_staging`), and then the state becomes that.

    def finish(
        self, epoch: int, k: int, target: Target, values: bytes, texts: list[bytes], now: int
    ) -> None:
        """SYNC-DONE: in one record the state becomes the target. Raises `BadOperation`, and has
        changed nothing then.
        """
        assert not self.is_root, "a root does not join"
        changes = read_snapshot(values)
        changes.extend([read_change(text) for text in texts])
        try_definitions(changes, self._state, now)
        of_streams = {n: ranges for n, ranges in target if self._streams.streams.knows(n)}
        of_queues = [part for part in target if part[0] not in of_streams]
        self._queues.check_target(of_queues)
        blocks = self._streams.chosen(of_streams)
        pieces: list[bytes] = []
        records.append_sync_done(pieces, epoch, k, target)
        records.append_text(pieces, records.SNAPSHOT, values)
        for text in texts:
            records.append_text(pieces, records.DEFINITION, text)
        store = self._store
        base = store.journal.append(b"".join(pieces))
        self._note_syn((epoch, k), segment_of(base))
        store.lives.wrote(segment_of(base), 0, 0, True)
        store.snapshot_segment = segment_of(base)
        before = self._queues.counts()
        self._make_anew(changes, self._targets(of_queues), "another server is the root", now)
        self._streams.become(of_streams, blocks)
        self._queues.staged.clear()
        self._queues.staged_octets = {}
        after = self._queues.counts()
        for segment, count in before.items():
            gone = count - after.get(segment, 0)
            if gone:
                store.lives.dequeued_unread(segment, gone)
        store.journal.request_flush()

    def _targets(self, target: Target) -> dict[int, MadeQueue]:
        """The messages of the target, taken out of the state and of what is staged."""
        made: dict[int, MadeQueue] = {}
        reader = RecordReader(self._store.journal)
        for number, ranges in target:
            part = self._queues.by_number.get(number)
            staged = self._queues.staged.get(number)
            queue = MadeQueue()
            if part is not None:
                queue.add(part.ready, ranges, part.octets(), reader)
            if staged is not None:
                queue.add(staged, ranges, self._queues.staged_octets[number], reader)
            made[number] = queue
        return made

    def _make_anew(
        self, changes: list[Change], made: dict[int, MadeQueue], reason: str, now: int
    ) -> None:
        """Drop what is defined, and make it from these changes with these messages."""
        # Its pass over a segment knows the lists that will be gone.
        self._reclaimer.begin_anew()
        for known in self._queues.by_number.values():
            known.ready.drain()
        self._definitions.drop(reason, now)
        self._become_backup()
        self._queues.by_number = {}
        self._streams.streams.begin_anew()
        self._definitions.opens_streams = False
        for change in changes:
            self._change(change, now)
        self._definitions.opens_streams = True
        for stream in streams_of(self._state.queues()):
            stream.open([], now)
        self._streams.streams.end_anew()
        for number, queue in made.items():
            part = self._queues.by_number.get(number)
            if part is not None:
                queue.fill(part.ready)
                part.add_octets(queue.octets)

    # The root's side.

    def held_messages(self) -> HeldMessages:
        """Of the state, to be asked in this very tick."""
        return HeldMessages(self._state, self._store.journal, self._deliveries)

    def ids(self) -> dict[int, Ranges]:
        """Of the state after the last whole operation, also of what is not ready."""
        if self.is_root:
            self._check_end_of_tick()
            ids = self.held_messages().ids()
        else:
            ids = {n: part.ready.ranges() for n, part in self._queues.by_number.items()}
        ids.update(self._streams.streams.ids())
        return ids

    def read(self, number: int, wanted: Ranges, octets_max: int) -> tuple[bytes, int]:
        """See `ReplicatedState.read`."""
        if number in self._streams.streams.files:
            return self._streams.read(number, wanted, octets_max)
        if self._held is None:
            # Once for many small queues: it looks at all queues that there are.
            self._held = self.held_messages()
        return self._held.read(number, wanted, octets_max, self._reader)

    def begin_reading(self) -> None:
        """See `ReplicatedState.begin_reading`."""
        self._held = None

    def first_uncommitted(self) -> dict[int, int]:
        """Of a root: where a guard begins, by queue number."""
        return first_uncommitted(self._state)

    def message_count(self) -> int:
        """Of all queues, while it is a backup."""
        return sum([part.ready.count for part in self._queues.by_number.values()])

    def staged_ids(self) -> dict[int, Ranges]:
        """Ranges of a stream may overlap."""
        found = {number: ready.ranges() for number, ready in self._queues.staged.items()}
        found.update(self._streams.streams.staged_ids())
        return found

    def values(self) -> bytes:
        """Everything that can change under an id."""
        self._check_end_of_tick()
        changes = whole_snapshot(self._state, self._deliveries)
        return encode_snapshot(changes, self._store.next_queue_number)

    def _check_end_of_tick(self) -> None:
        """A SYNC must tell what the state was after a whole operation: no change may be pending."""
        assert not self._store.has_records(), "asked between the end of a tick and the next change"

    def promote(self, epoch: int, now: int) -> int:
        """This server is the root of an epoch from now on. What follows from it (transient queues
        are gone, messages have expired meanwhile) is part of its first operation. Returns where the
        journal ends before that.
        """
        assert not self.is_root, "one becomes the root once per epoch"
        store = self._store
        state = self._state
        before = store.syn[0]
        is_new = not state.vhosts and not state.users.listed()
        base = store.journal.append(records.root_record(epoch))
        self._queues.discard_staged()
        self._streams.streams.discard_staged()
        self._note_syn((epoch, 0), segment_of(base))
        self.is_root = True
        self._reclaimer.begin_anew()
        lists = StoredLists(store)
        state.shared.ready_lists = lists
        for host in state.vhosts.values():
            for queue in host.queues.values():
                if queue.keeps_messages:
                    self._store.attach(queue, queue.number)
                else:
                    self._page(queue, lists)
            if host.delay_line.number:
                self._read_line(host.delay_line, now)
        self._queues.by_number = {}
        for files in self._streams.streams.files.values():
            files.inherited(store.journal.position)
        IdSetter(store).begin(epoch)
        state.log_definitions(StoredDefinitions(store, True))
        state.decides = True
        if state.shared.watcher is not None:
            # Before anything of it expires or is deleted.
            state.shared.watcher.inherit(epoch, before, now + state.wall.offset_ms)
        if is_new:
            # No root has written anything yet, or what the first one wrote did not reach this server.
            put_defaults(state, now)
        self._delete_unreplicated(now)
        for queue in state.queues():
            queue.resume(now)
        for host in state.vhosts.values():
            resume_leases(host, now)
            resume_sinks(host, now)
        store.journal.request_flush()
        return store.journal.position

    def _page(self, queue: MessageQueue, lists: StoredLists) -> None:
        """Give a queue a list that pages, with the messages that it has."""
        replica = queue.journal_list()
        assert isinstance(replica, ReplicaList), "made by the lists of a replica"
        queue.replace_list(lists.make(queue.settings.max_priority))
        if queue.number:
            self._store.attach(queue, queue.number)
            queue.has_returns = bool(replica.delivery_counts())
            queue.restore(ReplicatedMessages(self._store, replica, queue.number, queue.ready_bytes))

    def _read_line(self, line: DelayLine, now: int) -> None:
        replica = line.waiting
        assert isinstance(replica, ReplicaList), "made by the queues of a replica"
        found = ReplicatedMessages(self._store, replica, line.number, line.octets)
        line.waiting = ReadyList()
        line.octets = 0
        self._store.attach_delay_line(line, line.number)
        entries = found.entries()
        line.restored(entries, found.highest_position)
        for entry in entries:
            line.hold(entry, now)

    def _delete_unreplicated(self, now: int) -> None:
        """What queues of level none held was at the last root only; no exclusive queue is here. And
        what went with the last consumer is gone.
        """
        for host in self._state.vhosts.values():
            for queue in list(host.queues.values()):
                # The consumers of an auto-delete queue were the last root's, and are gone.
                if queue.level is ReplicationLevel.NONE or queue.had_consumer:
                    host.apply(DeleteQueue(queue.name), now)
            for exchange in list(host.exchanges.values()):
                if exchange.level is ReplicationLevel.NONE:
                    host.apply(DeleteExchange(exchange.name), now)

    def demote(self, now: int) -> None:
        """This server is not the root any more. Its clients are gone, and its last tick is written.
        What it has written stays, and the next root decides about it.
        """
        assert self.is_root, "only a root steps down"
        assert not self._store.has_records(), "the last tick is written"
        values = self.values()
        held = self.held_messages()
        octets = held.octets()
        made: dict[int, MadeQueue] = {}
        for number, places in held.everything().items():
            queue = MadeQueue()
            queue.messages.add_many(places[0], places[1])
            queue.octets = octets[number]
            made[number] = queue
        for known in self._state.queues():
            if known.number and not known.keeps_messages:
                made[known.number].messages.may_expire = known.may_expire()
        self._store.operations = None
        self._state.decides = False
        self._state.log_definitions(UnheardDefinitions())
        self._make_anew(read_snapshot(values), made, "this server is not the root any more", now)
        self._state.touched.clear()
        self._store.page_list.clear()
        # Of its own operations the journal was told without us.
        self._note_syn(self._store.syn, self._store.syn_segment)
