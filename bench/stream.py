"""One stream: appended to without a reader, then read from its beginning without a publisher.

All in this process, as with long queues: the two sides never run at the same time.
"""

import dataclasses
import select
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.backlog import Patience, Stopwatch, drain, ignore
from bench.board import Board
from bench.consumer import ConsumingLane, MiscountedDeliveriesError
from bench.cpu import tree_cpu_seconds, tree_written_bytes
from bench.loader import WARM_UP_SECONDS, Sample, between
from bench.plan import LoadPlan
from bench.publisher import PAUSE_SECONDS, PublishingLane
from bench.session import Session

APPEND_MODE = "stream-append"
READ_MODE = "stream-read"

PUBLISHERS = (1, 4)

# The header's name as it stands in a field table, with the type of a 64-bit number behind it.
OFFSET_FIELD = b"\x0fx-stream-offsetl"


@dataclasses.dataclass(frozen=True, slots=True)
class StreamSample:
    """Both halves. Of appends those count that were confirmed, in place of deliveries."""

    append: Sample
    read: Sample


class StreamReadingLane(ConsumingLane):
    """One connection. Checks that each offset is the count of messages before it."""

    def check(self, last: memoryview) -> None:
        super().check(last)
        found = bytes(last[: -len(self._body)]).find(OFFSET_FIELD)
        if found < 0:
            raise MiscountedDeliveriesError(f"delivery {self._count} has no offset")
        (offset,) = struct.unpack_from(">q", last, found + len(OFFSET_FIELD))
        if offset != self._count - 1:
            raise MiscountedDeliveriesError(f"delivery {self._count} has the offset {offset}")


def measure_stream(
    plan: LoadPlan, broker_pid: int, seconds: float, warm_up: float = WARM_UP_SECONDS
) -> StreamSample:
    admin = Session(plan.host, plan.port)
    try:
        admin.declare_queues(plan.queues, durable=plan.durable, queue_type=plan.queue_type)
        try:
            with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
                board = Board(Path(folder) / "board", len(plan.publishers), 1)
                appended = measure_append(plan, board, broker_pid, seconds, warm_up)
                return StreamSample(appended, measure_read(plan, board, broker_pid))
        finally:
            admin.delete_queues(plan.queues)
    finally:
        admin.close()


def measure_append(
    plan: LoadPlan, board: Board, broker_pid: int, seconds: float, warm_up: float
) -> Sample:
    lanes: list[PublishingLane] = []
    try:
        for index in range(len(plan.publishers)):
            lanes.append(PublishingLane(plan, index, board))

        def take() -> Sample:
            return reading(board, tree_cpu_seconds(broker_pid), tree_written_bytes(broker_pid))

        before, after = append(lanes, board, take, [warm_up, warm_up + seconds])
        return between(before, after)
    finally:
        for lane in lanes:
            lane.session.close()


def reading(board: Board, cpu_seconds: float, written_bytes: int) -> Sample:
    """All counts of this moment, with what the caller has read of the broker's processes."""
    confirmed = sum(board.confirmed)
    return Sample(
        time.perf_counter(),
        sum(board.published),
        confirmed,
        confirmed,
        cpu_seconds,
        time.process_time(),
        written_bytes,
    )


def append(
    lanes: list[PublishingLane],
    board: Board,
    take: Callable[[], Sample],
    times: list[float],
    clock: Callable[[], float] = time.monotonic,
) -> list[Sample]:
    """Publishes until the last of `times`, takes a reading at each; returns with all confirmed."""
    patience = Patience("confirming")
    poll = select.poll()
    by_descriptor = {lane.socket.fileno(): lane for lane in lanes}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    readings: list[Sample] = []
    started = clock()
    while len(readings) < len(times) or list(board.confirmed) != list(board.published):
        running = len(readings) < len(times)
        if running and clock() - started >= times[len(readings)]:
            readings.append(take())
        moved = False
        for lane in lanes:
            if running:
                moved |= lane.step()
            elif lane.sending:
                moved |= lane.send()
        if not moved:
            time.sleep(PAUSE_SECONDS)
        for descriptor, _ in poll.poll(0):
            by_descriptor[descriptor].heard()
        patience.seen(sum(board.confirmed))
    return readings


def measure_read(plan: LoadPlan, board: Board, broker_pid: int) -> Sample:
    """The clock runs from the answer to basic.consume until the last delivery is there."""
    messages = sum(board.published)
    lane = StreamReadingLane(plan, 0, board)
    written = -tree_written_bytes(broker_pid)
    loader_cpu_seconds = -time.process_time()
    with Stopwatch(broker_pid) as stopwatch:
        drain(lane, board, messages, ignore)
    return Sample(
        seconds=stopwatch.seconds,
        published=0,
        confirmed=0,
        delivered=messages,
        broker_cpu_seconds=stopwatch.cpu_seconds,
        loader_cpu_seconds=loader_cpu_seconds + time.process_time(),
        disk_bytes=written + tree_written_bytes(broker_pid),
    )
