"""Delays the completion of what one queue gets until one backup has acknowledged it.

One stream carries all queues, so one position of the stream says for all of them what a backup has: no
guard is called when a message is enqueued, sent or acknowledged. A guard is the view of that for one queue.
It is made when somebody asks, out of positions: where the guard begins, how far the stream was sent and
acknowledged, and what the queue has that is not committed.
"""

from typing import Final

from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.state import BrokerState
from penstock.ha.id_ranges import IdRanges
from penstock.ha.message_states import ReplicationState, state_after

# The position of a tick that has not ended.
NOT_WRITTEN: Final = -1
# There is no first guarded position: nobody waits for the backup.
NOT_GUARDED: Final = -1


class WaitingTick:
    """What one tick brought to a queue and is not committed. Held by nobody for long."""

    def __init__(self, position: int, ids: list[int]) -> None:
        # Of the journal behind the tick, or NOT_WRITTEN.
        self.position: int = position
        self.ids: list[int] = ids


def first_uncommitted(state: BrokerState) -> dict[int, int]:
    """By queue number, the first id of a root's queue that is not committed, or else the next."""
    found: dict[int, int] = {}
    for queue in state.queues():
        if queue.number and not queue.keeps_messages:
            waiting = queue.waiting_entries()
            found[queue.number] = waiting[0].position if waiting else queue.end_position()
    return found


def waiting_ticks(queue: MessageQueue) -> list[WaitingTick]:
    """What a root's queue has that is not committed, in order."""
    ids = [entry.position for entry in queue.waiting_entries()]
    found: list[WaitingTick] = []
    at = 0
    for position, count in queue.waiting_ticks():
        found.append(WaitingTick(position, ids[at : at + count]))
        at += count
    if at < len(ids):
        found.append(WaitingTick(NOT_WRITTEN, ids[at:]))
    return found


class QueueGuard:
    """Of one queue and one backup, at one moment. Made by a `RemoteBackup`."""

    def __init__(self, first_guarded: int) -> None:
        # From this id on, completion waits for the backup; or NOT_GUARDED.
        self.first_guarded: int = first_guarded
        # What is not safe, of what is not committed.
        self._ids: dict[ReplicationState, IdRanges] = {}

    def add(self, ids: list[int], is_sent: bool) -> None:
        """Messages of an operation that the backup has not acknowledged."""
        for number in ids:
            is_guarded = 0 <= self.first_guarded <= number
            state = state_after(is_guarded, is_sent, False)
            ranges = self._ids.get(state)
            if ranges is None:
                ranges = IdRanges()
                self._ids[state] = ranges
            ranges.add_range(number, 1)

    def state_of(self, number: int) -> ReplicationState:
        """Of a message that is in the queue."""
        for state, ids in self._ids.items():
            if ids.contains(number):
                return state
        return ReplicationState.SAFE

    def delayed_count(self) -> int:
        """Messages whose completion waits for this backup."""
        return self.count(ReplicationState.DELAYED) + self.count(ReplicationState.DELAYED_SENT)

    def count(self, state: ReplicationState) -> int:
        ids = self._ids.get(state)
        return 0 if ids is None else ids.count()
