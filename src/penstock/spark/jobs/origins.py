"""Findings about positions of a queue, told as publishers and sequences.

A message that was restored at a start of the broker keeps its origin, from one start to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.formats.replication_id import COUNT_BITS, EPOCH_BITS
from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.ledger_origins import SEQUENCE_BITS, neighbours
from penstock.spark.jobs.runs import BLOCK_BITS

if TYPE_CHECKING:
    import numpy.typing as npt

    from penstock.spark.jobs.runs import Pieces
    from penstock.spark.jobs.sweep import Stretches

    Numbers = npt.NDArray[np.int64] | npt.NDArray[np.int32]
    Keys = npt.NDArray[np.int64]

# Positions in one number with the queue, the start and the epoch of a cluster, which are numbered
# together: 2^40 positions in each of four million.
_POSITION_BITS: Final = COUNT_BITS
_POSITION_MASK: Final = (1 << COUNT_BITS) - 1
_START_BITS: Final = 20


@dataclass(frozen=True, slots=True)
class Origins:
    """Positions of queues, and the publishers of their messages."""

    queue: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    pair: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.queue)

    def where(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Origins:
        return Origins(*(getattr(self, name)[chosen] for name in self.__slots__))


class PositionKeys:
    """Puts positions of queues and starts in one row of numbers. Held while blocks are swept."""

    def __init__(self, found: Stretches) -> None:
        self._lives = np.unique(_life(found.queue, found.start))
        self._epochs = np.unique(self._epoch(found.queue, found.start, found.first))

    def key(self, queue: Numbers, start: Numbers, position: npt.NDArray[np.int64]) -> Keys:
        number = _number(self._epochs, self._epoch(queue, start, position))
        return np.asarray((number << _POSITION_BITS) + (position & _POSITION_MASK), dtype=np.int64)

    def _epoch(self, queue: Numbers, start: Numbers, position: npt.NDArray[np.int64]) -> Keys:
        """Of a life: positions of one epoch are neighbours, those of two are far apart."""
        life = _number(self._lives, _life(queue, start))
        return np.asarray((life << EPOCH_BITS) + (position >> COUNT_BITS), dtype=np.int64)

    def sorted(self, parts: list[Origins]) -> Origins:
        whole = Origins(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in Origins.__slots__)
        )
        return whole.where(np.argsort(self.key(whole.queue, whole.start, whole.first)))


def origins_of(pieces: Pieces, found: Stretches, places: PositionKeys) -> Origins:
    """From runs of the kind ORIGIN, carried on over every start that a message survived."""
    runs = pieces.runs
    place = pieces.block << BLOCK_BITS
    first = place + pieces.begin
    present = Origins(
        runs.queue.astype(np.int64),
        runs.start.astype(np.int64),
        first,
        place + pieces.end,
        runs.time >> SEQUENCE_BITS,
        (runs.time & ((1 << SEQUENCE_BITS) - 1)) + first - runs.first,
    )
    survived = found.counts[:, k.SURVIVED] > 0
    parts = [present]
    while len(present):
        present = within(present, found, survived, places)
        present.start[:] += 1
        parts.append(present)
    return places.sorted(parts)


def within(
    origins: Origins, found: Stretches, chosen: npt.NDArray[np.bool_], places: PositionKeys
) -> Origins:
    """The parts of origins within the chosen stretches."""
    begins = places.key(found.queue[chosen], found.start[chosen], found.first[chosen])
    ends = begins + found.length[chosen]
    from_key = places.key(origins.queue, origins.start, origins.first)
    to_key = from_key + origins.end - origins.first
    low = np.searchsorted(ends, from_key, "right")
    times = np.maximum(np.searchsorted(begins, to_key, "left") - low, 0)
    source = np.repeat(np.arange(len(origins)), times)
    into = np.arange(len(source)) - np.repeat(np.cumsum(times) - times, times)
    stretch = low[source] + into
    part = origins.where(source)
    skipped = np.maximum(begins[stretch] - from_key[source], 0)
    cut_off = np.maximum(to_key[source] - ends[stretch], 0)
    return Origins(
        part.queue,
        part.start,
        part.first + skipped,
        part.end - cut_off,
        part.pair,
        part.sequence + skipped,
    )


def joined_origins(origins: Origins) -> Origins:
    """Neighbouring messages of a client as one row, where they are neighbours in the queue too."""
    ordered = origins.where(np.lexsort((origins.first, origins.start, origins.queue, origins.pair)))
    # Positions of another queue, start, epoch or client are far away from each other.
    apart = np.zeros(len(ordered), dtype=np.int64)
    epoch = ordered.first >> COUNT_BITS
    for part in (ordered.pair, ordered.queue, ordered.start, epoch):
        apart[1:] += part[1:] != part[:-1]
    place = (ordered.first & _POSITION_MASK) + (np.cumsum(apart) << _POSITION_BITS)
    at, count = neighbours(place, ordered.sequence, ordered.end - ordered.first)
    kept = ordered.where(at)
    return Origins(kept.queue, kept.start, kept.first, kept.first + count, kept.pair, kept.sequence)


def named_at(
    origins: Origins,
    places: PositionKeys,
    queue: Numbers,
    start: Numbers,
    first: npt.NDArray[np.int64],
    count: npt.NDArray[np.int64],
) -> tuple[Keys, Keys]:
    """Client and sequence of the first message of each stretch; -1 where they are not one run."""
    nobody = np.full(len(first), -1, dtype=np.int64)
    if not len(origins):
        return nobody, nobody
    keys = places.key(origins.queue, origins.start, origins.first)
    key = places.key(queue, start, first)
    at = np.maximum(np.searchsorted(keys, key, "right") - 1, 0)
    ahead = key - keys[at]
    is_in = (ahead >= 0) & (ahead + count <= (origins.end - origins.first)[at])
    return (
        np.where(is_in, origins.pair[at], nobody),
        np.where(is_in, origins.sequence[at] + ahead, nobody),
    )


def _number(ordered: Keys, wanted: Keys) -> Keys:
    """Odd for one that is there; one that is not gets an even number, which nothing else has."""
    places = np.searchsorted(ordered, wanted) + np.searchsorted(ordered, wanted, "right")
    return np.asarray(places, dtype=np.int64)


def _life(queue: Numbers, start: Numbers) -> Keys:
    return np.asarray((queue.astype(np.int64) << _START_BITS) + start, dtype=np.int64)
