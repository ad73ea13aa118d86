"""How the cases `replicated*` load a cluster, and what is read of its servers meanwhile."""

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from bench.backlog import LongQueue, ignore
from bench.board import Board
from bench.clusters import ClusterServer, PenstockCluster
from bench.cpu import tree_cpu_seconds, tree_written_bytes
from bench.loader import WARM_UP_SECONDS, Load, LoadFailedError, Sample, between, reading
from bench.plan import LoadPlan, acknowledged, paired, prioritized, streamed
from bench.publisher import PublishingLane
from bench.replicated_modes import CATCHING_UP, MODES, PRIORITIES, PRIORITY, STREAM
from bench.replicated_results import BACKUPS, RABBITMQ, ROOT, ReplicatedSample
from bench.running import HOST
from bench.session import BrokerRefusedError, Session
from bench.stream import append
from bench.stream import reading as stream_reading

# What a backup that lost its data has to fetch while it is measured.
CATCH_UP_MESSAGES: Final = 1_000_000
CATCH_UP_SECONDS_MAX: Final = 120.0
POLL_SECONDS: Final = 0.05

# A reading of all servers together, and the CPU time of each.
Reading = tuple[Sample, list[float]]


class Measurable(Protocol):
    """What these cases need of a cluster; a single server is one of one server."""

    name: str
    version: str
    servers: list[ClusterServer]

    def root(self) -> ClusterServer: ...

    def epoch(self) -> int: ...

    def stop(self) -> None: ...


class EpochChangedError(Exception):
    """Another server became the root in the measured window, so that it says nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicatedLoad:
    """One load: its mode, the octets of a body, and the number of connection pairs (of a stream:
    publishers).
    """

    mode: str
    size: int
    pairs: int


def measure_cluster(
    cluster: Measurable, load: ReplicatedLoad, prefix: str, seconds: float
) -> ReplicatedSample:
    """Raises `EpochChangedError`."""
    epoch = cluster.epoch()
    root = cluster.root()
    servers = [root, *(server for server in cluster.servers if server is not root)]
    try:
        before, after = _measure(cluster, servers, load, prefix, seconds)
    except (LoadFailedError, BrokerRefusedError, OSError) as failure:
        if cluster.epoch() != epoch:
            raise EpochChangedError from failure
        raise
    if cluster.epoch() != epoch:
        raise EpochChangedError
    sample = between(before[0], after[0])
    roles = (ROOT, *BACKUPS)[: len(servers)]
    microseconds = {
        role: (late - early) * 1e6 / max(1, sample.delivered)
        for role, early, late in zip(roles, before[1], after[1], strict=True)
    }
    return ReplicatedSample(sample, microseconds)


def _measure(
    cluster: Measurable,
    servers: list[ClusterServer],
    load: ReplicatedLoad,
    prefix: str,
    seconds: float,
) -> tuple[Reading, Reading]:
    mode = MODES[load.mode]
    queue_type = mode.rabbitmq_queue_type if cluster.name == RABBITMQ else ""
    port = servers[0].port
    if load.mode == STREAM:
        return appended(streamed(HOST, port, prefix, load.pairs, load.size), servers, seconds)
    plan = load_plan(port, prefix, load.size, load.pairs, queue_type)
    if load.mode == PRIORITY:
        priorities_max = PRIORITIES if cluster.name != RABBITMQ else 0
        plan = prioritized(plan, PRIORITIES, priorities_max)
    if load.mode == CATCHING_UP and isinstance(cluster, PenstockCluster):
        return while_catching_up(plan, cluster, servers, prefix)
    with Load(plan, "bench.publisher", "bench.consumer") as running:
        running.begin()
        running.wait(WARM_UP_SECONDS)
        before = readings(running, servers)
        running.wait(seconds)
        after = readings(running, servers)
        running.drain()
    return before, after


def load_plan(port: int, prefix: str, size: int, pairs: int, queue_type: str) -> LoadPlan:
    plan = paired(HOST, port, prefix, pairs, size)
    return acknowledged(plan, durable=True, queue_type=queue_type)


def readings(load: Load, servers: list[ClusterServer]) -> Reading:
    each = [tree_cpu_seconds(server.pid) for server in servers]
    written = sum(tree_written_bytes(server.pid) for server in servers)
    return reading(load, sum(each), written), each


def while_catching_up(
    plan: LoadPlan, cluster: PenstockCluster, servers: list[ClusterServer], prefix: str
) -> tuple[Reading, Reading]:
    """The window in which a backup without any data fetches a long queue."""
    backup = servers[-1]
    with LongQueue(servers[0], f"{prefix}.long", durable=True) as queue:
        queue.fill(CATCH_UP_MESSAGES, ignore)
        cluster.wait_until_whole()
        with Load(plan, "bench.publisher", "bench.consumer") as load:
            load.begin()
            load.wait(WARM_UP_SECONDS)
            cluster.lose_data(backup)
            before = readings(load, servers)
            wait_until_whole(load, cluster)
            after = readings(load, servers)
            load.drain()
        queue.delete()
    return before, after


def wait_until_whole(load: Load, cluster: PenstockCluster) -> None:
    waited = 0.0
    while not cluster.is_whole():
        load.wait(POLL_SECONDS)
        waited += POLL_SECONDS
        if waited > CATCH_UP_SECONDS_MAX:
            raise LoadFailedError(f"a backup did not catch up in {CATCH_UP_SECONDS_MAX:.0f} s")


def appended(
    plan: LoadPlan, servers: list[ClusterServer], seconds: float
) -> tuple[Reading, Reading]:
    """Appends to one stream, without a reader."""
    admin = Session(plan.host, plan.port)
    try:
        admin.declare_queues(plan.queues, durable=True, queue_type=plan.queue_type)
        try:
            with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
                board = Board(Path(folder) / "board", len(plan.publishers), 1)
                return _append(plan, board, servers, seconds)
        finally:
            admin.delete_queues(plan.queues)
    finally:
        admin.close()


def _append(
    plan: LoadPlan, board: Board, servers: list[ClusterServer], seconds: float
) -> tuple[Reading, Reading]:
    found: list[Reading] = []
    lanes: list[PublishingLane] = []
    try:
        for index in range(len(plan.publishers)):
            lanes.append(PublishingLane(plan, index, board))
        times = [WARM_UP_SECONDS, WARM_UP_SECONDS + seconds]
        append(lanes, board, _taker(board, servers, found), times)
    finally:
        for lane in lanes:
            lane.session.close()
    return found[0], found[1]


def _taker(
    board: Board, servers: list[ClusterServer], found: list[Reading]
) -> Callable[[], Sample]:
    """Takes a reading, and keeps what it says of each server."""

    def take() -> Sample:
        each = [tree_cpu_seconds(server.pid) for server in servers]
        written = sum(tree_written_bytes(server.pid) for server in servers)
        found.append((stream_reading(board, sum(each), written), each))
        return found[-1][0]

    return take
