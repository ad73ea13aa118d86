"""Synthetic ledgers for tests and benches, with faults planted in known places.

A message is enqueued, delivered in the next tick and acknowledged in the one after, in runs of a
chosen length, in every queue. A fault changes what is written of one position and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.formats import ledger_records as form
from penstock.spark.jobs.ledger_survey import RECORD_TYPE

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

BEGINNING_MS: Final = 1_700_000_000_000
TICK_MS: Final = 10
EXPIRED: Final = form.REASONS.index("expired")


class Fault(Enum):
    """What is written of a position instead of enqueued, delivered, acknowledged."""

    NEVER_DELIVERED = auto()  # still in the queue at the end
    NEVER_ACKNOWLEDGED = auto()  # still unacknowledged
    EXPIRED = auto()
    GIVEN_BACK = auto()  # requeued and delivered once more
    DELIVERED_TWICE = auto()  # without having been requeued
    ACKNOWLEDGED_TWICE = auto()
    NEVER_ENQUEUED = auto()


_WITHOUT: Final = {
    Fault.NEVER_DELIVERED: {form.DELIVERED, form.ACKNOWLEDGED},
    Fault.NEVER_ACKNOWLEDGED: {form.ACKNOWLEDGED},
    Fault.EXPIRED: {form.DELIVERED, form.ACKNOWLEDGED},
    Fault.NEVER_ENQUEUED: {form.ENQUEUED},
}
_BESIDES: Final = {
    Fault.EXPIRED: [(form.DROPPED, EXPIRED)],
    Fault.GIVEN_BACK: [(form.REQUEUED, 0), (form.DELIVERED, 0)],
    Fault.DELIVERED_TWICE: [(form.DELIVERED, 0)],
    Fault.ACKNOWLEDGED_TWICE: [(form.ACKNOWLEDGED, 0)],
}


@dataclass(frozen=True, slots=True)
class Traffic:
    """How much of it; `faults` by queue number and position."""

    queues: int = 1
    messages: int = 100_000
    run: int = 100
    persistent: bool = True
    faults: dict[tuple[int, int], Fault] = field(default_factory=dict)
    # The process dies with these positions of every queue in it, and starts again.
    left: int = 0
    # Of those, positions that are not there after the restart.
    lost: frozenset[int] = frozenset()


def write_server(data: Path, traffic: Traffic, records_per_file: int = 2_000_000) -> int:
    """Write a data directory with a ledger; returns how many events it records."""
    folder = data / "ledger"
    folder.mkdir(parents=True, exist_ok=True)
    records = _traffic(traffic)
    number = 0
    for begin in range(0, max(1, len(records)), records_per_file):
        number += 1
        _write(
            folder, number, traffic.queues, records[begin : begin + records_per_file], begin == 0
        )
    if traffic.left:
        restored = _restored(traffic)
        _write(folder, number + 1, traffic.queues, restored, True)
        records = np.concatenate([records, restored])
    return int(records["count"].sum())


def _write(
    folder: Path, number: int, queues: int, records: npt.NDArray[np.void], is_start: bool
) -> None:
    time = int(records["time"][0]) if len(records) else BEGINNING_MS
    with (folder / f"{number:012d}{form.SUFFIX}").open("wb") as file:
        file.write(form.head(form.BROKER_MAGIC))
        if is_start:
            file.write(form.record(time, form.STARTED, 0, 0, 0, 0))
        for queue in range(queues):
            file.write(form.name_record(time, queue, form.broker_name("/", f"q{queue}")))
        file.write(records.tobytes())


def _traffic(traffic: Traffic) -> npt.NDArray[np.void]:
    """Ticks in order; in each, every queue's enqueued, delivered, acknowledged."""
    ticks = -(-traffic.messages // traffic.run)
    table = np.zeros((ticks + 2, traffic.queues, 3), dtype=RECORD_TYPE)
    table["time"] = BEGINNING_MS + TICK_MS * np.arange(ticks + 2)[:, None, None]
    table["name"] = np.arange(traffic.queues)[None, :, None]
    first = 1 + traffic.run * np.arange(ticks)
    count = np.minimum(traffic.run, traffic.messages + 1 - first)
    for delay, event in enumerate((form.ENQUEUED, form.DELIVERED, form.ACKNOWLEDGED)):
        cells = table[delay : ticks + delay, :, delay]
        cells["event"] = event
        cells["first"] = first[:, None]
        kept = count
        if event != form.ENQUEUED:
            kept = np.clip(traffic.messages - traffic.left + 1 - first, 0, count)
        cells["count"] = kept[:, None]
    table[:, :, 0]["detail"] = 1 if traffic.persistent else 0
    records = table.reshape(-1)
    records = records[records["count"] > 0]
    return _with_faults(records, traffic) if traffic.faults else records


def _with_faults(records: npt.NDArray[np.void], traffic: Traffic) -> npt.NDArray[np.void]:
    times = np.ascontiguousarray(records["time"])
    removed: dict[int, list[int]] = {}
    added: list[tuple[int, int, int, int, int]] = []
    for (queue, position), fault in traffic.faults.items():
        without = _WITHOUT.get(fault, set())
        # From its enqueueing to its acknowledgement, two ticks later.
        tick = BEGINNING_MS + TICK_MS * ((position - 1) // traffic.run)
        begin, end = np.searchsorted(times, [tick, tick + 3 * TICK_MS])
        near = records[begin:end]
        mine = begin + np.flatnonzero(
            (near["name"] == queue)
            & (near["first"] <= position)
            & (near["first"] + near["count"] > position)
        )
        for at in mine.tolist():
            if int(records["event"][at]) in without:
                removed.setdefault(at, []).append(position)
        last = int(records["time"][mine[-1]])
        for event, detail in _BESIDES.get(fault, []):
            added.append((last, event, detail, queue, position))
    parts: list[npt.NDArray[np.void]] = []
    begin = 0
    for at in sorted(removed):
        parts.extend((records[begin:at], _without(records[at], removed[at])))
        begin = at + 1
    extra = np.zeros(len(added), dtype=RECORD_TYPE)
    for index, (time, event, detail, queue, position) in enumerate(added):
        extra[index] = (time, event, detail, 0, queue, position, 1, 0)
    return np.concatenate([*parts, records[begin:], extra])


def _without(record: np.void, positions: list[int]) -> npt.NDArray[np.void]:
    """A run without some of its positions: the pieces that are left."""
    edges = [int(record["first"]) - 1, *sorted(positions)]
    edges.append(int(record["first"]) + int(record["count"]))
    pieces = [(a + 1, b - a - 1) for a, b in pairwise(edges) if b - a > 1]
    found = np.repeat(np.array([record], dtype=RECORD_TYPE), len(pieces))
    for index, (first, count) in enumerate(pieces):
        found[index]["first"] = first
        found[index]["count"] = count
    return found


def _restored(traffic: Traffic) -> npt.NDArray[np.void]:
    """The next start: what is there, and all of it delivered and acknowledged."""
    time = BEGINNING_MS + TICK_MS * (traffic.messages // traffic.run + 100)
    first = traffic.messages - traffic.left + 1
    whole = np.zeros(1, dtype=RECORD_TYPE)
    parts: list[npt.NDArray[np.void]] = []
    for delay, event in enumerate((form.RESTORED, form.DELIVERED, form.ACKNOWLEDGED)):
        for queue in range(traffic.queues):
            whole[0] = (time + TICK_MS * delay, event, 0, 0, queue, first, traffic.left, 0)
            parts.append(_without(whole[0], sorted(traffic.lost)))
    return np.concatenate(parts)
