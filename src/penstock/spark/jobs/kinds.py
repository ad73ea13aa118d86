"""The kinds of events of a message: an event and its detail as one small number.

The audit counts per kind, so kinds are columns of its arrays. Names are what people see in the
columns `event` and `detail` of a ledger's rows.
"""

from __future__ import annotations

from typing import Final

from penstock.formats import ledger_records as form

RESTORED: Final = 0
ENQUEUED_TRANSIENT: Final = 1
ENQUEUED_PERSISTENT: Final = 2
DELIVERED: Final = 3
REQUEUED: Final = 4
ACKNOWLEDGED: Final = 5
TAKEN: Final = 6
# As many as there are reasons.
DROPPED_FIRST: Final = 7
# Moved out of the queue into a lease, to be read by a Spark query.
LEASED: Final = 12
# The messages of this start that were there at the next start of the broker.
SURVIVED: Final = 13
PUBLISHED: Final = 14
CONFIRMED: Final = 15
REFUSED: Final = 16
RECEIVED: Final = 17
RECEIVED_AGAIN: Final = 18
# Of what a client published: the broker's ledger says that it entered the queue.
ARRIVED: Final = 19
# Enqueued at a root that ended before that was committed, so that nothing was promised.
UNCOMMITTED: Final = 20
ROUTED: Final = 21
# Which message of a client's a position is: `time` holds the client's number and the sequence.
ORIGIN: Final = 22
# Of what a client published: the broker's ledger says where it is, or why it is gone.
EXPLAINED: Final = 23
# Of what a client published: a ledger that would say where it is is missing.
DOUBTFUL: Final = 24
# There at a start after the next one; only where blocks are examined position by position.
LATER: Final = 25
KIND_COUNT: Final = 26

EXPIRED, MAXLEN, REJECTED, DELIVERY_LIMIT, PURGED = range(7, 12)
DROPPED: Final = tuple(range(DROPPED_FIRST, DROPPED_FIRST + len(form.REASONS)))
ENQUEUED: Final = (ENQUEUED_TRANSIENT, ENQUEUED_PERSISTENT, UNCOMMITTED)
ENTERED: Final = (RESTORED, *ENQUEUED)
LEFT: Final = (ACKNOWLEDGED, TAKEN, *DROPPED, LEASED)

# Ends that say why no consumer has received a message, though all that entered has left.
EXPLAINING: Final = (*DROPPED, LEASED)

# Event and detail of each kind, for people.
KIND_NAMES: Final[tuple[tuple[str, str], ...]] = (
    ("restored", ""),
    ("enqueued", "transient"),
    ("enqueued", "persistent"),
    ("delivered", ""),
    ("requeued", ""),
    ("acknowledged", ""),
    ("taken", ""),
    *(("dropped", reason) for reason in form.REASONS),
    ("leased", ""),
    ("survived", ""),
    ("published", ""),
    ("confirmed", ""),
    ("refused", ""),
    ("received", ""),
    ("received", "redelivered"),
    ("arrived", ""),
    ("enqueued", "uncommitted"),
    ("routed", ""),
    ("origin", ""),
    ("explained", ""),
    ("doubtful", ""),
    ("later", ""),
)

UNKNOWN: Final = 255


def kind_table() -> list[int]:
    """Kind by `event * 8 + detail`; UNKNOWN where there is none."""
    table = [UNKNOWN] * (256 * 8)

    def put(event: int, detail: int, kind: int) -> None:
        table[event * 8 + detail] = kind

    put(form.RESTORED, 0, RESTORED)
    for listed in (0, form.HAS_SEQUENCES):
        put(form.ENQUEUED, listed, ENQUEUED_TRANSIENT)
        put(form.ENQUEUED, listed | form.IS_PERSISTENT, ENQUEUED_PERSISTENT)
    put(form.DELIVERED, 0, DELIVERED)
    put(form.REQUEUED, 0, REQUEUED)
    put(form.ACKNOWLEDGED, 0, ACKNOWLEDGED)
    put(form.TAKEN, 0, TAKEN)
    for reason, kind in enumerate(DROPPED):
        put(form.DROPPED, reason, kind)
    put(form.LEASED, 0, LEASED)
    put(form.ROUTED, 0, ROUTED)
    put(form.PUBLISHED, 0, PUBLISHED)
    put(form.CONFIRMED, 0, CONFIRMED)
    put(form.REFUSED, 0, REFUSED)
    put(form.RECEIVED, 0, RECEIVED)
    put(form.RECEIVED, 1, RECEIVED_AGAIN)
    return table
