"""One long queue: filled without a consumer, then drained without a publisher.

All in this process: publisher and consumer never run at the same time, so they need no processes of
their own, and between two writes there is time to measure the broker's memory.
"""

import dataclasses
import select
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self

from bench.board import Board
from bench.consumer import READ_BYTES, ConsumingLane
from bench.cpu import tree_cpu_seconds, tree_peak_resident_bytes, tree_resident_bytes
from bench.loader import LoadFailedError, LoadProcesses, measure
from bench.numbered_consumer import NumberedConsumingLane
from bench.numbered_publisher import NumberedPublishingLane
from bench.plan import LoadPlan, acknowledged, paired
from bench.running import HOST, RunningBroker
from bench.session import Session

NUMBERED: LoadProcesses = ("bench.numbered_publisher", "bench.numbered_consumer")

BODY_BYTES = 100

# How often the broker's memory is measured, in messages.
WEIGH_EVERY = 1_000_000

# A queue that is not paged out: what draining costs by itself. It takes some milliseconds, which on
# a shared machine is too little for a single figure.
SHORT_MESSAGES = 16_000
SHORT_DRAINS = 40

# A broker that confirms or delivers nothing for this long has stopped: an alarm, or a defect.
STALL_SECONDS_MAX = 60.0
WAIT_MILLISECONDS = 1

Watch = Callable[[int], None]


@dataclasses.dataclass(frozen=True, slots=True)
class BacklogSample:
    """The costs of a long queue, compared with the same broker without one.

    `passing_rate`: publisher and consumer run together, with a nearly empty queue.
    `short_drain_rate`: draining a queue that is short enough to stay in memory.
    """

    broker: str
    durable: bool
    messages: int
    passing_rate: float
    short_drain_rate: float
    fill_seconds: float
    fill_cpu_seconds: float
    drain_seconds: float
    drain_cpu_seconds: float
    resident_before: int
    resident_peak: int
    resident_filling: list[tuple[int, int]]
    resident_draining: list[tuple[int, int]]
    data_bytes_full: int
    data_bytes_drained: int

    @property
    def fill_rate(self) -> float:
        return self.messages / self.fill_seconds

    @property
    def drain_rate(self) -> float:
        return self.messages / self.drain_seconds


class Stopwatch:
    """A context manager; afterwards it holds seconds of the clock and of a broker's CPU."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    def __enter__(self) -> Self:
        self.cpu_seconds = -tree_cpu_seconds(self._pid)
        self.seconds = -time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()
        self.cpu_seconds += tree_cpu_seconds(self._pid)


class Serving(Protocol):
    """A broker, or one server of a cluster."""

    port: int
    pid: int


class LongQueue:
    """One queue of one broker and the board that its lanes need. A context manager."""

    def __init__(self, broker: Serving, name: str, *, durable: bool) -> None:
        self._broker = broker
        plan = acknowledged(paired(HOST, broker.port, name, 1, BODY_BYTES), durable=durable)
        # Only the confirms bound the publisher: there are no consumers yet.
        self._plan = dataclasses.replace(plan, in_flight_max=1 << 62)
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-bench-")
        session = Session(HOST, broker.port)
        session.declare_queues(self._plan.queues, durable=durable)
        session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    @property
    def name(self) -> str:
        return self._plan.queues[0]

    def delete(self) -> None:
        session = Session(HOST, self._broker.port)
        session.delete_queues(self._plan.queues)
        session.close()

    def ready_count(self) -> int:
        session = Session(HOST, self._broker.port)
        try:
            return session.ready_count(self.name)
        finally:
            session.close()

    def fill(self, messages: int, watch: Watch) -> tuple[int, Stopwatch]:
        """Returns once all are confirmed; returns how many there were, which is a number of whole
        writes.
        """
        board = Board(Path(self._folder.name) / "filling", 1, 1)
        lane = NumberedPublishingLane(self._current(), 0, board)
        with Stopwatch(self._broker.pid) as stopwatch:
            return fill(lane, board, messages, watch), stopwatch

    def drain(self, messages: int, watch: Watch) -> Stopwatch:
        """The clock runs from the first delivery: a login takes longer than many a short queue."""
        board = Board(Path(self._folder.name) / "draining", 1, 1)
        lane = NumberedConsumingLane(self._current(), 0, board)
        with Stopwatch(self._broker.pid) as stopwatch:
            drain(lane, board, messages, watch)
        return stopwatch

    def _current(self) -> LoadPlan:
        """A broker that was started again may listen elsewhere."""
        return dataclasses.replace(self._plan, port=self._broker.port)


class Patience:
    """Raises when a count has not changed for too long."""

    def __init__(self, what: str, seconds_max: float = STALL_SECONDS_MAX) -> None:
        self._what = what
        self._seconds_max = seconds_max
        self._count = -1
        self._since = time.monotonic()

    def seen(self, count: int) -> None:
        now = time.monotonic()
        if count != self._count:
            self._count, self._since = count, now
        elif now - self._since > self._seconds_max:
            raise LoadFailedError(f"the broker stopped after {self._what} {count:,} messages")


def fill(lane: NumberedPublishingLane, board: Board, messages: int, watch: Watch) -> int:
    patience = Patience("confirming")
    poll = select.poll()
    poll.register(lane.socket, select.POLLIN)
    try:
        while board.confirmed[0] < max(messages, board.published[0]):
            wanted = board.published[0] < messages
            moved = lane.step() if wanted else lane.sending and lane.send()
            if poll.poll(0 if moved else WAIT_MILLISECONDS):
                lane.heard()
            patience.seen(board.confirmed[0])
            watch(board.confirmed[0])
        return int(board.published[0])
    finally:
        lane.session.close()


def drain(lane: ConsumingLane, board: Board, messages: int, watch: Watch) -> None:
    patience = Patience("delivering")
    poll = select.poll()
    poll.register(lane.socket, select.POLLIN)
    buffer = memoryview(bytearray(READ_BYTES))
    try:
        lane.begin(buffer)
        while board.delivered[0] < messages:
            if poll.poll(WAIT_MILLISECONDS):
                lane.read(buffer)
            patience.seen(board.delivered[0])
            watch(board.delivered[0])
        lane.acknowledge()
    finally:
        lane.session.close()


class Scales:
    """Measures a broker's memory whenever another million messages have passed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._next = WEIGH_EVERY
        self.readings: list[tuple[int, int]] = []

    def watch(self, count: int) -> None:
        if count >= self._next:
            self._next += WEIGH_EVERY
            self.readings.append((count, tree_resident_bytes(self._pid)))


def ignore(_: int) -> None:
    """Nobody weighs."""


def measure_backlog(
    broker: RunningBroker, messages: int, seconds: float, *, durable: bool
) -> BacklogSample:
    """`broker` should be fresh: its peak is the one since its start."""
    resident_before = tree_resident_bytes(broker.pid)
    plan = acknowledged(paired(HOST, broker.port, "bench.pass", 1, BODY_BYTES), durable=durable)
    passing_rate = measure(plan, broker.pid, seconds, processes=NUMBERED).rate
    short_rate = statistics.median(
        short_drain_rate(broker, durable=durable) for _ in range(SHORT_DRAINS)
    )
    filling, draining = Scales(broker.pid), Scales(broker.pid)
    with LongQueue(broker, "bench.backlog", durable=durable) as queue:
        filled, fill_watch = queue.fill(messages, filling.watch)
        data_bytes_full = broker.data_bytes()
        drain_watch = queue.drain(filled, draining.watch)
        if left := queue.ready_count():
            raise LoadFailedError(f"{left:,} messages were left when all had been delivered")
        queue.delete()
    return BacklogSample(
        broker=broker.name,
        durable=durable,
        messages=filled,
        passing_rate=passing_rate,
        short_drain_rate=short_rate,
        fill_seconds=fill_watch.seconds,
        fill_cpu_seconds=fill_watch.cpu_seconds,
        drain_seconds=drain_watch.seconds,
        drain_cpu_seconds=drain_watch.cpu_seconds,
        resident_before=resident_before,
        resident_peak=tree_peak_resident_bytes(broker.pid),
        resident_filling=filling.readings,
        resident_draining=draining.readings,
        data_bytes_full=data_bytes_full,
        data_bytes_drained=broker.data_bytes(),
    )


def short_drain_rate(broker: RunningBroker, *, durable: bool) -> float:
    with LongQueue(broker, "bench.short", durable=durable) as queue:
        count, _ = queue.fill(SHORT_MESSAGES, ignore)
        stopwatch = queue.drain(count, ignore)
        queue.delete()
    return count / stopwatch.seconds
