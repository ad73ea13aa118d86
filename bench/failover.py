"""The case `failover`: from the SIGKILL of the root to the first new confirm.

Every kill begins with three servers in sync and a root that serves. The probe then asks every address,
again every 100 ms, with a connection of its own each time, until one message is confirmed. A server
without a root holds the connection until it knows one, so asking all of them at once matters. Then the
killed server is started again, and the next kill waits until it is in sync.
"""

import dataclasses
import math
import statistics
import threading
import time
from typing import Final

from rich.console import Console

from bench import frames
from bench.backlog import LongQueue, ignore
from bench.clusters import ClusterServer, PenstockCluster
from bench.confirms import ConfirmLedger, PublishRefusedError
from bench.goals import Verdict, at_most
from bench.loader import LoadFailedError
from bench.running import HOST
from bench.session import BrokerRefusedError, Session

FAILOVER: Final = "failover"

DEFAULT_KILLS: Final = 30
# The case runs with an empty queue, and then again with this many messages in it.
QUEUED_MESSAGES: Final = 1_000_000

RETRY_SECONDS: Final = 0.1
# A probe that hears nothing for this long has found a defect.
CONFIRM_SECONDS_MAX: Final = 60.0

P50_SECONDS_MAX: Final = 3.5
SECONDS_MAX: Final = 5.0

PROBE_QUEUE: Final = "bench.failover.probe"
QUEUE_NAME: Final = "bench.failover"
BODY: Final = b"x" * 100


@dataclasses.dataclass(slots=True)
class Failover:
    """The kills with one number of messages queued."""

    queued: int
    # From the kill to the first confirm, kill by kill.
    seconds: list[float] = dataclasses.field(default_factory=list)
    # From the start of the killed server until all three are in sync again.
    joining_seconds: list[float] = dataclasses.field(default_factory=list)
    # Messages of the queue, and confirmed messages of the probe, that were gone at the end.
    lost: int = 0

    @property
    def p50(self) -> float:
        return statistics.median(self.seconds) if self.seconds else math.nan

    @property
    def longest(self) -> float:
        return max(self.seconds, default=math.nan)

    def verdicts(self) -> list[Verdict]:
        p50, longest = (self.p50, self.longest) if self.seconds else (None, None)
        return [
            at_most(f"p50 <= {P50_SECONDS_MAX:g} s", p50, P50_SECONDS_MAX),
            at_most(f"max <= {SECONDS_MAX:g} s", longest, SECONDS_MAX),
            at_most("nothing lost", self.lost, 0),
        ]

    def as_json(self) -> dict[str, object]:
        goals = [dataclasses.asdict(verdict) for verdict in self.verdicts()]
        measured = {"p50": self.p50, "max": self.longest} if self.seconds else {}
        return {**dataclasses.asdict(self), **measured, "goals": goals}


class Probe:
    """Asks all addresses at once, until one of them confirms a message. Held for one kill."""

    def __init__(self, ports: list[int]) -> None:
        self._confirmed = threading.Event()
        self._lock = threading.Lock()
        self._at = math.nan
        self.confirms = 0
        self._threads = [
            threading.Thread(target=self._ask, args=(port,), daemon=True) for port in ports
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait(self) -> float:
        """The moment of the first confirm, by `time.perf_counter`."""
        if not self._confirmed.wait(CONFIRM_SECONDS_MAX):
            self._confirmed.set()
            raise LoadFailedError(f"nothing was confirmed within {CONFIRM_SECONDS_MAX:g} s")
        for thread in self._threads:
            # One that is still held by a server is not waited for.
            thread.join(RETRY_SECONDS * 10)
        return self._at

    def _ask(self, port: int) -> None:
        while not self._confirmed.is_set():
            started = time.perf_counter()
            try:
                publish_one(port)
            except (OSError, BrokerRefusedError, PublishRefusedError):
                left = RETRY_SECONDS - (time.perf_counter() - started)
                time.sleep(max(0.0, left))
                continue
            with self._lock:
                self.confirms += 1
                if not self._confirmed.is_set():
                    self._at = time.perf_counter()
                    self._confirmed.set()


def publish_one(port: int, seconds_max: float = CONFIRM_SECONDS_MAX) -> None:
    """One persistent message to the probe's queue; returns once it is confirmed."""
    session = Session(HOST, port, seconds_max=seconds_max)
    try:
        session.call(frames.CONFIRM_SELECT, b"\0", frames.CONFIRM_SELECT_OK)
        content = frames.content(BODY, persistent=True)
        session.socket.sendall(frames.publish_method("", PROBE_QUEUE) + content)
        ledger = ConfirmLedger()
        ledger.feed(session.take_unread())
        while not ledger.count:
            data = session.socket.recv(1 << 16)
            if not data:
                raise PublishRefusedError("the connection was closed before the confirm")
            ledger.feed(data)
    finally:
        session.close()


def kill_root(cluster: PenstockCluster, failover: Failover) -> int:
    """One kill; returns how many messages of the probe were confirmed."""
    cluster.wait_until_whole()
    root = cluster.root()
    probe = Probe([server.port for server in cluster.servers])
    killed = time.perf_counter()
    root.kill()
    probe.start()
    failover.seconds.append(probe.wait() - killed)
    started = time.perf_counter()
    cluster.restart(root)
    cluster.wait_until_whole()
    failover.joining_seconds.append(time.perf_counter() - started)
    return probe.confirms


def ready_count(server: ClusterServer, queue: str) -> int:
    session = Session(HOST, server.port)
    try:
        return session.ready_count(queue)
    finally:
        session.close()


class FailoverRun:
    """A cluster that loses its root again and again. Held by the run for one number of messages."""

    def __init__(self, queued: int, kills: int, console: Console) -> None:
        self.failover = Failover(queued)
        self._kills = kills
        self._console = console
        self._confirms = 0

    def run(self, cluster: PenstockCluster) -> None:
        root = cluster.root()
        session = Session(HOST, root.port)
        session.declare_queues([PROBE_QUEUE], durable=True)
        session.close()
        expected: dict[str, int] = {}
        if self.failover.queued:
            with LongQueue(root, QUEUE_NAME, durable=True) as queue:
                expected[queue.name], _ = queue.fill(self.failover.queued, ignore)
        for index in range(self._kills):
            self._confirms += kill_root(cluster, self.failover)
            self._console.print(self._line(index))
        # The probe may have published more than was confirmed, never less.
        expected[PROBE_QUEUE] = self._confirms
        root = cluster.root()
        for name, count in expected.items():
            self.failover.lost += max(0, count - ready_count(root, name))

    def _line(self, index: int) -> str:
        return (
            f"{FAILOVER}, {self.failover.queued:,} queued, kill {index + 1}: confirmed after"
            f" {self.failover.seconds[-1]:.2f} s, all in sync"
            f" {self.failover.joining_seconds[-1]:.2f} s after the restart"
        )


def run_failover(queued: int, kills: int, console: Console, versions: dict[str, str]) -> Failover:
    run = FailoverRun(queued, kills, console)
    cluster = PenstockCluster()
    versions[cluster.name] = cluster.version
    try:
        run.run(cluster)
    finally:
        cluster.stop()
    return run.failover
