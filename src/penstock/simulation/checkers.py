"""What must be true when a run is over. Each checker returns its complaints."""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.state import DEFAULT_VHOST
from penstock.broker.streams.opening import streams_of
from penstock.broker.timers import NEVER
from penstock.ha.replica_reading import RecordReader
from penstock.node.node import Node
from penstock.simulation.copies import Fate, name_in
from penstock.simulation.ledger import Ledger

# Enough to see everything that a run leaves in a queue.
BROWSE_MAX: Final = 1_000_000


def queues_of(node: Node) -> dict[str, MessageQueue]:
    return node.state.vhost(DEFAULT_VHOST).queues


def delayed_entries(node: Node) -> list[QueueEntry]:
    """The messages in delayed exchanges, in the order in which they were published."""
    waiting = node.state.vhost(DEFAULT_VHOST).delay_line.waiting
    entries = [waiting.entry_of(position) for position in waiting.positions()]
    return [entry for entry in entries if entry is not None]


def delayed_bodies(node: Node) -> list[bytes]:
    """The same of any server of a cluster."""
    waiting = node.state.vhost(DEFAULT_VHOST).delay_line.waiting
    if isinstance(waiting, ReplicaList):
        return replica_bodies(node, waiting)
    return [entry.message.body for entry in delayed_entries(node)]


def watched_queues(ledger: Ledger, node: Node) -> dict[str, MessageQueue]:
    """The queues of the plan, without those that operators make and remove."""
    return {name: queue for name, queue in queues_of(node).items() if name in ledger.watches}


def confirmed_and_missing(ledger: Ledger, node: Node) -> list[str]:
    """Every confirmed message is settled by a consumer or still queued, in every queue it was
    routed to, or in the queue where that one's dead messages go.
    """
    queues = queues_of(node)
    queued = {
        name: {name_in(entry.message.body) for entry in queue.browse(BROWSE_MAX)}
        for name, queue in queues.items()
    }
    complaints: list[str] = []
    for copy in ledger.copies.values():
        if copy.fate is not Fate.CONFIRMED:
            continue
        for queue in copy.queues:
            plan = ledger.watches[queue].plan
            places = [place for place in (queue, plan.dead_queue) if place]
            is_safe = any(
                (place, copy.name) in ledger.settled
                or (place, copy.name) in ledger.taken
                or copy.name in queued.get(place, set())
                or copy.name in ledger.watches[place].deleted_names
                for place in places
            )
            has_evaporated = any(
                copy.name in ledger.watches[place].evaporated_names for place in places
            )
            if not is_safe and not plan.may_drop and not has_evaporated:
                complaints.append(f"confirmed {copy.name!r} is neither settled nor in {queue}")
    return complaints


def refused_and_kept(ledger: Ledger) -> list[str]:
    """A refused message that had one queue to go to is not in it."""
    return [
        f"refused {copy.name!r} is in {copy.queues[0]}"
        for copy in ledger.copies.values()
        if copy.fate is Fate.REFUSED
        and len(copy.queues) == 1
        and copy.name in ledger.watches[copy.queues[0]].enqueued_names
    ]


def torn_transactions(ledger: Ledger) -> list[str]:
    """A transaction reached all its queues or none, and none without a commit."""
    complaints: list[str] = []
    for copies in ledger.transactions:
        reached = {
            copy.name in ledger.watches[queue].enqueued_names
            for copy in copies
            for queue in copy.queues
            # A queue that did not exist for a while may have missed any of them.
            if not ledger.watches[queue].plan.may_vanish
        }
        if len(reached) > 1:
            complaints.append(f"a transaction was torn: {[copy.name for copy in copies]}")
    for copy in ledger.copies.values():
        for queue in copy.queues if copy.fate is Fate.ROLLED_BACK else ():
            if copy.name in ledger.watches[queue].enqueued_names:
                complaints.append(f"{copy.name!r} was rolled back and reached {queue}")
    return complaints


def dead_and_not_buried(ledger: Ledger) -> list[str]:
    """What died in a queue with dead-lettering reached its dead queue, and nothing else did."""
    complaints: list[str] = []
    for watch in ledger.watches.values():
        if not watch.plan.dead_queue:
            continue
        buried = ledger.watches[watch.plan.dead_queue].enqueued_names
        for name in sorted(watch.dead_names ^ buried):
            complaints.append(
                f"{name!r} was dead-lettered in {watch.plan.name}, or is only in its dead letter "
                "queue"
            )
    return complaints


def dropped_without_reason(ledger: Ledger) -> list[str]:
    """What left a queue without limits was acknowledged or rejected by a consumer."""
    complaints: list[str] = []
    for queue, watch in ledger.watches.items():
        if watch.plan.may_drop or watch.plan.dead_queue:
            continue
        for name in sorted(watch.dead_names):
            if (queue, name) not in ledger.settled:
                complaints.append(f"{queue} dropped {name!r}")
    return complaints


def counters_that_differ(ledger: Ledger, node: Node) -> list[str]:
    """The node's own counters agree with what observers saw. Holds at every moment."""
    complaints: list[str] = []
    out: dict[str, int] = {}
    for queue, entry in node.unsettled():
        if not queue.is_deleted:
            out[queue.name] = out.get(queue.name, 0) + len(entry.message.body)
    for name, queue in watched_queues(ledger, node).items():
        watch = ledger.watches[name]
        counted = {
            "held": (queue.message_count + queue.unacked_count, len(watch.held)),
            "published": (queue.published_total, watch.enqueued_count),
            "acknowledged": (queue.acknowledged_total, watch.acknowledged_count),
            "delivered": (queue.delivered_total, watch.delivered_count),
            "bytes": (
                queue.ready_bytes + out.get(name, 0),
                sum(len(ledger.copies[held].kept) for held in watch.held),
            ),
        }
        for what, (theirs, ours) in counted.items():
            if theirs != ours:
                complaints.append(f"{name} counts {theirs} {what}, observers {ours}")
        # A queue that refuses publishes may exceed its limit with requeued messages.
        limit = -1 if watch.plan.may_refuse else queue.settings.max_length
        if 0 <= limit < queue.message_count:
            complaints.append(f"{name} holds {queue.message_count}, more than {limit}")
    return complaints


def entries_of(queue: MessageQueue) -> list[QueueEntry]:
    """Everything that it holds and that is not out with consumers; at the root of a cluster also what
    waits for its commit.
    """
    return [*queue.browse(BROWSE_MAX), *queue.waiting_entries()]


def bodies_of(node: Node, queue: MessageQueue) -> list[bytes]:
    """The same of any server: a backup has no messages in memory. Of a stream all that the server has,
    even if readers do not see it yet.
    """
    for stream in streams_of([queue]):
        return [entry.message.body for entry in [*entries_of(stream), *stream.files.waiting()]]
    ready = queue.journal_list()
    if isinstance(ready, ReplicaList):
        return replica_bodies(node, ready)
    return [entry.message.body for entry in entries_of(queue)]


def replica_bodies(node: Node, replica: ReplicaList) -> list[bytes]:
    assert node.stored is not None, "a backup has a disk"
    reader = RecordReader(node.stored.journal)
    return [reader.record(location).body() for location in replica.journalled()[1]]


def not_drained(ledger: Ledger, node: Node) -> list[str]:
    """Every queue with consumers is empty once the faults are over."""
    complaints = [
        f"{name} still holds {queue.message_count} ready and {queue.unacked_count} unacknowledged"
        for name, queue in watched_queues(ledger, node).items()
        if not ledger.watches[name].plan.is_unread and (queue.message_count or queue.unacked_count)
    ]
    waiting = node.state.vhost(DEFAULT_VHOST).delay_line.waiting.count
    if waiting:
        complaints.append(f"{waiting} messages still wait in delayed exchanges")
    return complaints


def left_behind(ledger: Ledger, node: Node) -> list[str]:
    """Once all clients have disconnected, a node holds nothing of them."""
    container = node.container
    due = node.timers.next_due()
    left = {
        "connections": len(node.connections),
        "touched queues": len(node.state.touched),
        "outputs to flush": len(container.flush_list),
        "confirms to flush": len(container.answer_list),
        "open virtual hosts": sum(container.connection_counts.values()),
        "timers": 0 if due == NEVER else 1,
        "suspended links": node.amqp10.links.suspended_count(),
    }
    for name, queue in watched_queues(ledger, node).items():
        left[f"consumers of {name}"] = queue.consumer_count
        left[f"unacknowledged in {name}"] = queue.unacked_count
        is_held_back = len(ledger.watches[name].held) - queue.message_count
        left[f"entries observers miss in {name}"] = is_held_back
    return [f"{count} {what} left behind" for what, count in left.items() if count]
