"""Which message of a client is at which position of a queue.

The broker's ledger says of a run that was enqueued in which session it was published and under
which tags; the client's says which of its messages those were. So events of a position can be
attributed to a publisher and a sequence, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.formats import ledger_records as form
from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.runs import Runs, joined

if TYPE_CHECKING:
    import numpy.typing as npt

# Of a run of the kind ORIGIN, `time` is the client's number in the catalog and the sequence of the
# first message; so many bits for the latter are a million messages a second for twelve days.
SEQUENCE_BITS: Final = 40
# Where the fifteen numbers of a record of sequences are among its sixteen 16-bit words.
_HALVES: Final = np.array([place for place in range(16) if place != 4])
_TAG_LOW_BITS: Final = 32
# Below the number of any client.
_NO_PAIR: Final = -1


@dataclass(frozen=True, slots=True)
class Session:
    """A session in a client's ledger: from each tag on, which sequences its messages have."""

    publisher: str
    tags: tuple[int, ...]
    sequences: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FileOrigins:
    """Sessions by the publisher's number in a broker's file, with the high bits of its tags; and
    clients' numbers in the catalog by publisher and queue. Sent to executors.
    """

    sessions: dict[int, tuple[int, Session]]
    pairs: dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class _Told:
    """Runs of messages that were enqueued: session's number in the file, tags, positions."""

    publisher: npt.NDArray[np.int64]
    tag: npt.NDArray[np.int64]
    queue: npt.NDArray[np.int64]
    time: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]

    def where(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> _Told:
        return _Told(*(getattr(self, name)[chosen] for name in self.__slots__))


def origin_runs(
    records: npt.NDArray[np.void],
    at: npt.NDArray[np.int64],
    queue: npt.NDArray[np.int32],
    start: int,
    origins: FileOrigins,
) -> Runs | None:
    """Of the records at `at`, which enqueued: for each run one of ORIGIN, of the queue, and one of
    ARRIVED, of the client. `records` goes on far enough behind the last of them.
    """
    publisher = records["publisher"][at].astype(np.int64)
    is_known = np.isin(publisher, np.array(sorted(origins.sessions), dtype=np.int64))
    at, publisher, queue = at[is_known], publisher[is_known], queue[is_known]
    if not len(at):
        return None
    told = _Told(
        publisher,
        records["sequence"][at].astype(np.int64),
        queue.astype(np.int64),
        records["time"][at].astype(np.int64),
        records["first"][at].astype(np.int64),
        records["count"][at].astype(np.int64),
    )
    is_listed = (records["detail"][at] & form.HAS_SEQUENCES) > 0
    parts = [told.where(~is_listed)]
    if is_listed.any():
        parts.append(_listed(records, at[is_listed], told.where(is_listed)))
    return joined([_runs(part, start, origins) for part in parts])


def _listed(records: npt.NDArray[np.void], at: npt.NDArray[np.int64], told: _Told) -> _Told:
    """Each message by itself, from the following records."""
    rows = -(-told.count // form.SEQUENCES_PER_RECORD)
    # Sequences may be missing with a torn tail.
    is_whole = at + rows < len(records)
    at, told = at[is_whole], told.where(is_whole)
    halves = np.ascontiguousarray(records).view("<u2").reshape(-1, form.RECORD_SIZE // 2)
    source = np.repeat(np.arange(len(at)), told.count)
    into = np.arange(len(source)) - np.repeat(np.cumsum(told.count) - told.count, told.count)
    row = at[source] + 1 + into // form.SEQUENCES_PER_RECORD
    ahead = halves[row, _HALVES[into % form.SEQUENCES_PER_RECORD]].astype(np.int64)
    single = told.where(source)
    return _Told(
        single.publisher,
        single.tag + ahead,
        single.queue,
        single.time,
        single.first + into,
        np.ones(len(source), dtype=np.int64),
    )


def _runs(told: _Told, start: int, origins: FileOrigins) -> Runs:
    found: list[Runs] = []
    for number in np.unique(told.publisher).tolist():
        high, session = origins.sessions[number]
        part = told.where(told.publisher == number)
        for queue in np.unique(part.queue).tolist():
            pair = origins.pairs.get((session.publisher, queue), _NO_PAIR)
            if pair != _NO_PAIR:
                of_queue = part.where(part.queue == queue)
                found.append(_of_pair(of_queue, start, pair, high << _TAG_LOW_BITS, session))
    return joined(found)


def _of_pair(told: _Told, start: int, pair: int, high: int, session: Session) -> Runs:
    """Runs are cut where the client's sequences do not go on with its tags."""
    tags = np.array(session.tags, dtype=np.int64)
    tag = told.tag + high
    begin = np.searchsorted(tags, tag, "right") - 1
    end = np.searchsorted(tags, tag + told.count - 1, "right") - 1
    times = np.where(begin < 0, 0, end - begin + 1)
    source = np.repeat(np.arange(len(tag)), times)
    into = np.arange(len(source)) - np.repeat(np.cumsum(times) - times, times)
    piece = begin[source] + into
    from_tag = np.maximum(tag[source], tags[piece])
    to_tag = np.minimum(tag[source] + told.count[source], np.append(tags, 1 << 62)[piece + 1])
    sequence = np.array(session.sequences, dtype=np.int64)[piece] + from_tag - tags[piece]
    position = told.first[source] + from_tag - tag[source]
    at, count = neighbours(position, sequence, to_tag - from_tag)
    source, position, sequence = source[at], position[at], sequence[at]
    size = len(source)
    return Runs(
        queue=np.append(told.queue[source], np.full(size, pair)).astype(np.int32),
        start=np.append(np.full(size, start), np.zeros(size)).astype(np.int32),
        kind=np.append(np.full(size, k.ORIGIN), np.full(size, k.ARRIVED)).astype(np.int16),
        time=np.append((pair << SEQUENCE_BITS) + sequence, told.time[source]),
        first=np.append(position, sequence),
        count=np.append(count, count),
    )


def neighbours(
    position: npt.NDArray[np.int64], sequence: npt.NDArray[np.int64], count: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows that go on where the row before ends, in positions and in sequences, are one: which rows
    remain, and their counts. A queue that drops a message for each that enters has a record of each.
    """
    begins = np.ones(len(count), dtype=bool)
    begins[1:] = (position[1:] != position[:-1] + count[:-1]) | (
        sequence[1:] != sequence[:-1] + count[:-1]
    )
    at = np.flatnonzero(begins)
    return at, np.add.reduceat(count, at) if len(at) else count
