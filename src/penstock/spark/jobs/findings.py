"""What an audit can find, and how a stretch of positions is judged.

The broker's ledger is judged start by start: what entered a queue has left it, or was there when
the next start began, or is there still. Of a cluster, starts are the terms of its roots.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.sweep import ENTERED, LEFT, Stretches

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt


# By how much the clocks of a client and a server may differ. Within this time after the oldest file
# of a server was begun nothing is called lost; such files hold hours.
CLOCK_SKEW_MS: Final = 60_000


class Finding(IntEnum):
    """What is counted beside the plain numbers of events."""

    # Of the broker's ledger.
    READY = 0  # still in the queue
    UNACKNOWLEDGED = 1  # still out with a consumer
    MISSING_AFTER_RESTART = 2  # persistent, in a queue that was recovered, and missing
    GONE_WITH_PROCESS = 3  # transient, or of a queue that was not kept
    CAME_BACK = 4  # settled before a restart, or not there at the next one, and there after it
    RETURNED_BY_RESTART = 5  # unacknowledged at the restart, and in the queue after it
    SETTLED_TWICE = 6
    ENTERED_TWICE = 7
    PHANTOM = 8  # dequeued, delivered or restored, and never enqueued
    EARLIER = 9  # enqueued before the ledger begins: not judged
    REDELIVERED_FLAGGED = 10
    REDELIVERED_UNFLAGGED = 11  # delivered again without having been requeued
    # Of clients' ledgers.
    LOST = 12  # confirmed, never received, and the broker's ledger does not say why
    UNCONFIRMED = 13  # published, never answered
    UNPROMISED_MISSING = 14  # not confirmed, and not received: not a loss
    DUPLICATE_FLAGGED = 15
    DUPLICATE_UNFLAGGED = 16
    NEVER_PUBLISHED = 17  # received, and its publisher has no record of it
    REFUSED_YET_RECEIVED = 18
    # Milliseconds in the queue, as a histogram.
    TIME_IN_QUEUE = 19
    # Of both: the broker's ledger says which messages are whose.
    ACCOUNTED_FOR = 20  # confirmed, never received, and still there, or dropped for a reason
    EXPLAINED = 21  # still there, or gone for a reason, received or not
    BEFORE_LEDGER = 22  # confirmed, never received, and a ledger that would say more is not there
    # Of the ledgers of a cluster.
    UNCOMMITTED_GONE = 23  # not committed when the root failed, and not at the next one
    UNKNOWN_AFTER = 24  # queued when a root ended whose successor's ledger is missing


# Findings whose messages are worth naming.
NAMED: Final = frozenset(
    {
        Finding.MISSING_AFTER_RESTART,
        Finding.SETTLED_TWICE,
        Finding.ENTERED_TWICE,
        Finding.PHANTOM,
        Finding.REDELIVERED_UNFLAGGED,
        Finding.LOST,
        Finding.DUPLICATE_UNFLAGGED,
        Finding.DUPLICATE_FLAGGED,
        Finding.NEVER_PUBLISHED,
        Finding.REFUSED_YET_RECEIVED,
    }
)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a ledger's records alone do not contain; arrays by queue. Sent to executors."""

    # The last start of the queue's broker.
    last_start: npt.NDArray[np.int32]
    # By queue and start: whether the queue was there when the next start began.
    kept: npt.NDArray[np.bool_]
    # By queue and start: whether the ledger lacks its beginning; whether what followed is not known.
    truncated: npt.NDArray[np.bool_]
    unknown_after: npt.NDArray[np.bool_]
    # Whether other servers of a cluster have all of its messages, whether persistent or not.
    replicated: npt.NDArray[np.bool_]
    stream: npt.NDArray[np.bool_]
    client: npt.NDArray[np.bool_]
    # Whether a client's messages went to a stream, where they stay.
    kept_by_stream: npt.NDArray[np.bool_]
    # Of what a client sent: the time in milliseconds from which on the broker's ledger is there;
    # 0 when it is whole.
    known_since: npt.NDArray[np.int64]
    # Of what a client sent: whether it may be in a ledger that is missing.
    may_be_elsewhere: npt.NDArray[np.bool_]


Judged = tuple[Finding, "npt.NDArray[np.int64]"]


def judge(found: Stretches, known: Circumstances) -> Iterator[Judged]:
    """Findings with how often they were for each position of each stretch."""
    of_client = known.client[found.queue]
    of_queue = ~of_client & ~known.stream[found.queue]
    for finding, times in _judge_queue(found, known):
        yield finding, np.where(of_queue, times, 0)
    for finding, times in _judge_client(found, known):
        yield finding, np.where(of_client, times, 0)


def _judge_queue(found: Stretches, known: Circumstances) -> Iterator[Judged]:
    entered, left = found.total(*k.ENTERED), found.total(*k.LEFT)
    survived = found.counts[:, k.SURVIVED]
    requeued = found.counts[:, k.REQUEUED]
    given = found.total(k.DELIVERED, k.TAKEN)
    is_known = entered > 0
    # What only a later start had is not about this one.
    is_unknown = ~is_known & (found.counts.sum(axis=1) > found.counts[:, k.LATER])
    is_earlier = is_unknown & known.truncated[found.queue, found.start]
    # The journal is written before the ledger; a kill between the two leaves messages that are
    # there after the restart and that are missing in the ledger otherwise.
    is_earlier |= is_unknown & (survived > 0) & (left == 0) & (given == 0)
    yield Finding.EARLIER, _flag(is_earlier)
    never_given = is_known & (found.counts[:, k.ACKNOWLEDGED] > found.counts[:, k.DELIVERED])
    yield Finding.PHANTOM, _flag((is_unknown & ~is_earlier) | never_given)
    yield Finding.ENTERED_TWICE, _flag(entered > 1) * (entered - 1)
    yield Finding.SETTLED_TWICE, _flag(is_known & (left > entered)) * (left - entered)
    again = np.maximum(given - np.maximum(entered, 1), 0) * is_known
    flagged = np.minimum(again, requeued)
    yield Finding.REDELIVERED_FLAGGED, flagged
    yield Finding.REDELIVERED_UNFLAGGED, again - flagged
    is_there = is_known & (left < entered)
    is_out = found.counts[:, k.DELIVERED] > requeued
    is_last = found.start >= known.last_start[found.queue]
    yield Finding.READY, _flag(is_there & is_last & ~is_out)
    yield Finding.UNACKNOWLEDGED, _flag(is_there & is_last & is_out)
    for finding, is_gone in _judge_gone(found, known):
        yield finding, _flag(is_gone)
    yield Finding.CAME_BACK, _flag(is_known & (survived > 0) & (left > 0))
    yield Finding.RETURNED_BY_RESTART, _flag(is_there & (survived > 0) & is_out)


def _judge_gone(
    found: Stretches, known: Circumstances
) -> Iterator[tuple[Finding, npt.NDArray[np.bool_]]]:
    """Which positions were there at the end of a start, and not at the beginning of the next one."""
    is_gone = _is_there(found) & (found.counts[:, k.SURVIVED] == 0)
    is_gone &= found.start < known.last_start[found.queue]
    is_later = found.counts[:, k.LATER] > 0
    yield Finding.CAME_BACK, is_gone & is_later
    is_gone &= ~is_later
    is_unknown = known.unknown_after[found.queue, found.start]
    yield Finding.UNKNOWN_AFTER, is_gone & is_unknown
    is_gone &= ~is_unknown
    is_uncommitted = found.counts[:, k.UNCOMMITTED] > 0
    yield Finding.UNCOMMITTED_GONE, is_gone & is_uncommitted
    is_gone &= ~is_uncommitted
    persistent = (found.counts[:, k.ENQUEUED_TRANSIENT] == 0) | known.replicated[found.queue]
    is_promised = known.kept[found.queue, found.start] & persistent
    yield Finding.MISSING_AFTER_RESTART, is_gone & is_promised
    yield Finding.GONE_WITH_PROCESS, is_gone & ~is_promised


def _is_there(found: Stretches) -> npt.NDArray[np.bool_]:
    """Which positions have entered and not left."""
    entered = found.total(*k.ENTERED)
    return np.asarray((entered > 0) & (found.total(*k.LEFT) < entered), dtype=bool)


def explained(found: Stretches, known: Circumstances) -> npt.NDArray[np.bool_]:
    """Which positions of queues are still there, or are gone for a reason that is not a loss. What
    was not committed is none: a client that has a confirm of it was deceived.
    """
    gone = dict(_judge_gone(found, known))
    is_gone = gone[Finding.GONE_WITH_PROCESS] | gone[Finding.CAME_BACK]
    is_last = found.start >= known.last_start[found.queue]
    is_dropped = found.total(*k.EXPLAINING) > 0
    return np.asarray((_is_there(found) & is_last) | is_gone | is_dropped, dtype=bool)


def doubtful(found: Stretches, known: Circumstances) -> npt.NDArray[np.bool_]:
    """Of which positions of queues the end cannot be known."""
    return dict(_judge_gone(found, known))[Finding.UNKNOWN_AFTER]


def _judge_client(found: Stretches, known: Circumstances) -> Iterator[Judged]:
    published, confirmed = found.counts[:, k.PUBLISHED], found.counts[:, k.CONFIRMED]
    refused = found.counts[:, k.REFUSED]
    flagged = found.counts[:, k.RECEIVED_AGAIN]
    received = found.total(k.RECEIVED, k.RECEIVED_AGAIN)
    is_promised = confirmed > 0
    is_unanswered = (published > 0) & ~is_promised & (refused == 0)
    arrived = found.counts[:, k.ARRIVED]
    is_explained = (found.counts[:, k.EXPLAINED] > 0) | (
        known.kept_by_stream[found.queue] & (arrived > 0)
    )
    is_missing = is_promised & (received == 0)
    is_elsewhere = _is_early(found, known) | known.may_be_elsewhere[found.queue]
    is_early = (arrived == 0) & is_elsewhere
    is_early |= found.counts[:, k.DOUBTFUL] > 0
    is_early &= is_missing & ~is_explained
    yield Finding.LOST, _flag(is_missing & ~is_explained & ~is_early)
    yield Finding.ACCOUNTED_FOR, _flag(is_missing & is_explained)
    yield Finding.BEFORE_LEDGER, _flag(is_early)
    yield Finding.UNCONFIRMED, _flag(is_unanswered)
    missing = (published > 0) & ~is_promised & (received == 0)
    yield Finding.UNPROMISED_MISSING, _flag(missing)
    again = np.maximum(received - 1, 0)
    yield Finding.DUPLICATE_FLAGGED, np.minimum(again, flagged)
    yield Finding.DUPLICATE_UNFLAGGED, again - np.minimum(again, flagged)
    yield Finding.NEVER_PUBLISHED, _flag((received + arrived > 0) & (published == 0))
    yield Finding.REFUSED_YET_RECEIVED, _flag((received > 0) & (refused > 0) & ~is_promised)


def _is_early(found: Stretches, known: Circumstances) -> npt.NDArray[np.bool_]:
    """Published before the oldest file of the broker's ledger was begun."""
    entered = found.total(*ENTERED)
    published_at = found.origin + found.entered_at // np.maximum(entered, 1)
    since = known.known_since[found.queue]
    return np.asarray((since > 0) & (published_at < since + CLOCK_SKEW_MS), dtype=bool)


def _flag(which: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    return which.astype(np.int64)


def times_in_queue(found: Stretches) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Milliseconds from enqueueing to dequeueing, and for which stretches they are known."""
    is_known = (
        (found.total(*ENTERED) == 1)
        & (found.counts[:, k.RESTORED] == 0)
        & (found.total(*LEFT) == 1)
    )
    return np.maximum(found.left_at - found.entered_at, 0), is_known
