"""What the next root of a cluster must know of a queue's past, recorded when it happens.

An auto-delete queue that had a consumer is deleted by the next root, because its consumers were
connected to the last one; a queue that nobody has used yet stays. Messages that came back after a
delivery are counted by the root in its entries, and by its backups in the marks of their lists, so
that a limit of deliveries and `x-delivery-count` continue. A note that was not committed when the
root failed is lost, as the event itself is.
"""

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.replication_level import ReplicationLevel
from penstock.broker.shared_services import SharedServices
from penstock.broker.topology import NoteConsumer, NoteReturns

Counts = list[tuple[int, int]]  # position and deliveries


def record_consumer(shared: SharedServices, queue: MessageQueue) -> None:
    """An auto-delete queue has got its first consumer."""
    if _is_inherited(shared, queue):
        shared.definitions.vhost_changed(queue.vhost.name, NoteConsumer(queue.name))


def record_returns(shared: SharedServices, queue: MessageQueue, entries: list[QueueEntry]) -> None:
    """Entries have come back, and are counted. The note is written at the end of the tick: a consumer
    may give back many messages in it, one by one.
    """
    if _is_inherited(shared, queue):
        known = shared.returned.setdefault(queue, {})
        for entry in entries:
            known[entry.position] = entry


def write_returns(shared: SharedServices) -> None:
    """One note for each queue to which messages came back in this tick."""
    for queue, entries in shared.returned.items():
        counts = [
            (position, entry.delivery_count)
            for position, entry in entries.items()
            if not entry.is_gone
        ]
        # A backup could not find a queue that was deleted since.
        if counts and not queue.is_deleted:
            shared.definitions.vhost_changed(queue.vhost.name, _returns_of(queue, counts))
    shared.returned.clear()


def _is_inherited(shared: SharedServices, queue: MessageQueue) -> bool:
    """Whether the next root has the queue."""
    return shared.is_replicated and queue.level is not ReplicationLevel.NONE


def take_note(queue: MessageQueue, note: NoteConsumer | NoteReturns) -> None:
    """A backup does as its root did, or reads it back. A server on its own, which has the store of a
    former member, counts deliveries anew.
    """
    if isinstance(note, NoteConsumer):
        queue.had_consumer = True
        return
    ready = queue.journal_list()
    if isinstance(ready, ReplicaList):
        for first, count, deliveries in note.returns:
            ready.note_returns(first, count, deliveries)


def counts_out(unsettled: list[tuple[MessageQueue, QueueEntry]]) -> dict[MessageQueue, Counts]:
    """Of messages that came back once and are out with consumers again."""
    found: dict[MessageQueue, Counts] = {}
    for queue, entry in unsettled:
        if entry.delivery_count:
            found.setdefault(queue, []).append((entry.position, entry.delivery_count))
    return found


def notes_of(
    queue: MessageQueue, out: dict[MessageQueue, Counts]
) -> list[NoteConsumer | NoteReturns]:
    """Everything that was noted of a queue and still counts; `out` comes from `counts_out`."""
    notes: list[NoteConsumer | NoteReturns] = []
    if queue.level is not ReplicationLevel.NONE and queue.had_consumer:
        notes.append(NoteConsumer(queue.name))
    if queue.is_lasting and not queue.keeps_messages:
        counts = _ready_counts(queue) + out.get(queue, [])
        if counts:
            notes.append(_returns_of(queue, counts))
    return notes


def _ready_counts(queue: MessageQueue) -> Counts:
    ready = queue.journal_list()
    # Most queues of a root have had none, and need not be looked through.
    if queue.has_returns or isinstance(ready, ReplicaList):
        return ready.delivery_counts()
    return []


def _returns_of(queue: MessageQueue, counts: Counts) -> NoteReturns:
    """Positions in a row with the same count are one range."""
    returns: list[tuple[int, int, int]] = []
    first = -1
    following = -1
    deliveries = 0
    for position, count in sorted(counts):
        if position == following and count == deliveries:
            following += 1
            continue
        if first >= 0:
            returns.append((first, following - first, deliveries))
        first, following, deliveries = position, position + 1, count
    returns.append((first, following - first, deliveries))
    return NoteReturns(queue.name, tuple(returns))
