"""A message's place in one queue, and who has it.

Invariant: an entry that is out has exactly one holder, the only one that can settle it or give it
back. The queue sets the holder when it delivers and clears it when it takes the entry back or
forgets it (`Queue`, settlement); a holder that ends without settling hands over (`hand_over`). A
settlement by anybody else, or a later one by the holder, is ignored.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.message import Message

# Ready, or gone.
NO_HOLDER: Final = 0
# The broker's own steps, which take messages and settle them themselves: leases and stages. Channels
# and links have numbers from 1 on.
BROKER_ITSELF: Final = -1


@mypyc_attr(acyclic=True)
class QueueEntry:
    """What one queue knows about one message. Ready, or delivered and unacknowledged."""

    # Defaults stand on the class, which spares the interpreted build some stores per entry.
    # How often it was delivered and came back.
    delivery_count: int = 0
    # Whether a client may have seen it: it was requeued, or was there before the last start.
    is_redelivered: bool = False
    # It was dequeued before it was ever written to the journal, so it need not be.
    is_gone: bool = False
    # `now` at which it is dead; 0 for never.
    expires_at: int = 0
    # The number of the channel or link that it is out with.
    holder: int = NO_HOLDER

    def __init__(self, message: Message, position: int) -> None:
        self.message: Message = message
        # Order of enqueueing; a requeued entry goes back to where its position belongs.
        self.position: int = position


def take_back(entries: list[QueueEntry], holder: int) -> list[QueueEntry]:
    """End a holder's claim on entries; returns those that it had a claim on, nearly always all."""
    for index, entry in enumerate(entries):
        if entry.holder != holder:
            return entries[:index] + _take_back_some(entries[index:], holder)
        entry.holder = NO_HOLDER
    return entries


def _take_back_some(entries: list[QueueEntry], holder: int) -> list[QueueEntry]:
    taken: list[QueueEntry] = []
    for entry in entries:
        if entry.holder == holder:
            entry.holder = NO_HOLDER
            taken.append(entry)
    return taken


def hand_over(entries: list[QueueEntry], holder: int, successor: int) -> None:
    """Entries stay delivered, but with another holder: `holder` can no longer settle them."""
    for entry in entries:
        assert entry.holder == holder, "only the holder of an entry can hand it over"
        entry.holder = successor


def flag_returned(
    entries: list[QueueEntry], failed: bool, limit: int, exhausted: list[QueueEntry]
) -> list[QueueEntry]:
    """Entries were requeued: each is flagged, and counted when its delivery `failed`. Those that
    have reached the `limit` of deliveries (none when negative) are moved to `exhausted`, in order.
    """
    returned: list[QueueEntry] = []
    for entry in entries:
        if failed:
            entry.delivery_count += 1
        entry.is_redelivered = True
        if 0 <= limit < entry.delivery_count:
            exhausted.append(entry)
        else:
            returned.append(entry)
    return returned
