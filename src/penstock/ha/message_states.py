"""What replication has still to do with one message for one backup: the states of seed 003, as a table.

Nobody keeps a state for each message. Where a message is in the stream says which events it has seen, and
`state_after` says which state that is; `QueueGuard` does so for the messages that are not safe.
"""

from enum import Enum
from typing import Final


class ReplicationState(Enum):
    """The value is the word of the seed."""

    NEW = "new"
    # It was sent to the backup, and nobody waits for it: it may have been acknowledged to its
    # publisher before the guard was set.
    SENT = "sent"
    # Its completion waits for the backup.
    DELAYED = "delayed"
    DELAYED_SENT = "delayed-sent"
    # Replication is done with it.
    SAFE = "safe"


class ReplicationEvent(Enum):
    """What happens to a message on the primary."""

    # Behind the first guarded position.
    ENQUEUE = "enqueue"
    DELIVER = "deliver"
    ACKNOWLEDGED = "acknowledged"
    DEQUEUED = "dequeued"


# A pair that is not here does not occur.
STATES: Final = {
    (ReplicationState.NEW, ReplicationEvent.DELIVER): ReplicationState.SENT,
    (ReplicationState.NEW, ReplicationEvent.ENQUEUE): ReplicationState.DELAYED,
    (ReplicationState.SENT, ReplicationEvent.ACKNOWLEDGED): ReplicationState.SAFE,
    (ReplicationState.SENT, ReplicationEvent.DEQUEUED): ReplicationState.SAFE,
    (ReplicationState.DELAYED, ReplicationEvent.DEQUEUED): ReplicationState.SAFE,
    (ReplicationState.DELAYED, ReplicationEvent.DELIVER): ReplicationState.DELAYED_SENT,
    (ReplicationState.DELAYED_SENT, ReplicationEvent.ACKNOWLEDGED): ReplicationState.SAFE,
    (ReplicationState.DELAYED_SENT, ReplicationEvent.DEQUEUED): ReplicationState.SAFE,
}


def state_after(is_guarded: bool, is_sent: bool, is_acknowledged: bool) -> ReplicationState:
    """Of a message that is still in its queue."""
    state = ReplicationState.NEW
    if is_guarded:
        state = STATES[state, ReplicationEvent.ENQUEUE]
    if is_sent:
        state = STATES[state, ReplicationEvent.DELIVER]
    if is_acknowledged:
        state = STATES[state, ReplicationEvent.ACKNOWLEDGED]
    return state
