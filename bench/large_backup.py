"""Backups of long queues: `python -m bench.large_backup`.

    python -m bench.large_backup --json FILE                     # ten million messages, some minutes
    python -m bench.large_backup --messages 1000000 --parts away,empty
    python -m bench.large_backup --parts queues                  # one queue beside ten thousand

One cluster of three servers gets a queue of `--messages` messages of 100 bytes. Then, one after the other:

- `caught-up`: the memory of the backups.
- `away`: a backup is killed and started again at once, with its store. Until it is in sync: the peak of its
  memory, what it fetched beside what its store holds, and the time since it listens.
- `elected`: the root is killed. The time until the first confirm by another one.
- `empty`: a backup loses its data directory (`cluster replace`). The peak of its memory and the time
  until it is in sync, while publishers go on: their rate beside the one before, and the longest confirm
  of a client that publishes one message after the other.

`queues` is another run: what replication costs with one queue and with ten thousand, beside a server
without a cluster, in CPU time per message.

Times until a server is in sync begin when it listens, so they contain the time in which it dials, joins
and is taken into the in-sync set: they are upper bounds of the time from JOIN to SYNC-DONE.
"""

import argparse
import contextlib
import dataclasses
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

from bench import frames
from bench.backlog import LongQueue, ignore
from bench.clusters import ClusterServer, PenstockCluster
from bench.confirms import ConfirmLedger
from bench.cpu import tree_peak_resident_bytes, tree_resident_bytes
from bench.failover import PROBE_QUEUE, Probe
from bench.goals import Verdict, at_least, at_most
from bench.loader import WARM_UP_SECONDS, Load, LoadFailedError, between
from bench.machine import load_average, machine_facts
from bench.plan import LoadPlan, acknowledged, spread
from bench.replicated import SingleServer
from bench.replicated_loads import Measurable, readings
from bench.running import HOST
from bench.session import Session

MESSAGES: Final = 10_000_000
PARTS: Final = ("caught-up", "away", "elected", "empty")
QUEUES: Final = "queues"
QUEUE_NAME: Final = "bench.large"

# The goals; those of memory are for ten million messages.
CAUGHT_UP_BYTES_MAX: Final = 260_000_000
JOINING_BYTES_MAX: Final = 500_000_000
FETCHED_SHARE_MAX: Final = 0.01
NOTHING_MISSING_SECONDS_MAX: Final = 2.0
JOIN_SECONDS_MAX: Final = 20.0
JOIN_MESSAGES: Final = 1_000_000
ELECTED_SECONDS_MAX: Final = 5.0
RATE_SHARE_MIN: Final = 0.5
CONFIRM_SECONDS_MAX: Final = 2.0
COST_RATIOS_DIFFER_MAX: Final = 0.15

# Rates are measured for this long before a backup is lost, and the queues of `queues` in windows as long.
WINDOW_SECONDS: Final = 4.0
PAUSE_SECONDS: Final = 0.01
QUEUE_COUNTS: Final = (1, 10_000)
QUEUE_ROUNDS: Final = 3
BODY_BYTES: Final = 100
# As the case `queues` of the bench, whose bursts are short so that many queues have their turn.
BURST: Final = 16


@dataclasses.dataclass(slots=True)
class Part:
    """One part of the run: its figures, and the goals beside them."""

    name: str
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    verdicts: list[Verdict] = dataclasses.field(default_factory=list)

    def lines(self) -> Iterator[str]:
        shown = ", ".join(f"{name} {value:,.2f}" for name, value in self.figures.items())
        yield f"{self.name}: {shown}"
        for verdict in self.verdicts:
            yield f"    {verdict.goal}: {'met' if verdict.met else 'MISSED'}"


class LargeBackups:
    """A cluster with one long queue. Held by the command."""

    def __init__(self, cluster: PenstockCluster, messages: int) -> None:
        self._cluster = cluster
        self._messages = messages
        root = cluster.root()
        session = Session(HOST, root.port)
        session.declare_queues([PROBE_QUEUE], durable=True)
        session.close()
        with LongQueue(root, QUEUE_NAME, durable=True) as queue:
            self._filled, _ = queue.fill(messages, ignore)
        cluster.wait_until_whole()

    def measure(self, name: str) -> Part:
        if name == "caught-up":
            return self._caught_up()
        if name == "away":
            return self._away()
        if name == "elected":
            return self._elected()
        return self._empty()

    def _backup(self) -> ClusterServer:
        root = self._cluster.root()
        return next(server for server in self._cluster.servers if server is not root)

    def _caught_up(self) -> Part:
        root = self._cluster.root()
        sizes = [tree_resident_bytes(s.pid) for s in self._cluster.servers if s is not root]
        part = Part("caught-up", {"resident MB": max(sizes) / 1e6})
        part.verdicts.append(at_most("caught up <= 260 MB", max(sizes), CAUGHT_UP_BYTES_MAX))
        return part

    def _away(self) -> Part:
        backup = self._backup()
        backup.kill()
        self._cluster.restart(backup)
        seconds = self._until_whole()
        peak = tree_peak_resident_bytes(backup.pid)
        held = folder_bytes(self._cluster.data(backup))
        share = self._fetched(backup) / held
        part = Part("away", {"s": seconds, "peak MB": peak / 1e6, "fetched %": share * 100})
        part.verdicts.append(at_most("recovering <= 500 MB", peak, JOINING_BYTES_MAX))
        part.verdicts.append(at_most("fetched <= 1 %", share, FETCHED_SHARE_MAX))
        goal = at_most("nothing missing <= 2 s", seconds, NOTHING_MISSING_SECONDS_MAX)
        part.verdicts.append(goal)
        return part

    def _elected(self) -> Part:
        root = self._cluster.root()
        probe = Probe([server.port for server in self._cluster.servers])
        killed = time.perf_counter()
        root.kill()
        probe.start()
        seconds = probe.wait() - killed
        self._cluster.restart(root)
        joined = self._until_whole()
        part = Part("elected", {"s": seconds, "in sync again s": joined})
        part.verdicts.append(at_most("first confirm <= 5 s", seconds, ELECTED_SECONDS_MAX))
        return part

    def _empty(self) -> Part:
        backup = self._backup()
        with Publishing(self._cluster.root()) as publishing:
            before = publishing.rate_over(WINDOW_SECONDS)
            self._cluster.lose_data(backup)
            publishing.begin_window()
            seconds = self._until_whole()
            during, longest = publishing.window()
        peak = tree_peak_resident_bytes(backup.pid)
        figures = {
            "s": seconds,
            "peak MB": peak / 1e6,
            "fetched MB": self._fetched(backup) / 1e6,
            "rate before": before,
            "rate meanwhile": during,
            "longest confirm s": longest,
        }
        part = Part("empty", figures)
        part.verdicts.append(at_most("in SYNC <= 500 MB", peak, JOINING_BYTES_MAX))
        if self._filled <= 2 * JOIN_MESSAGES:
            part.verdicts.append(at_most("a million <= 20 s", seconds, JOIN_SECONDS_MAX))
        part.verdicts.append(at_least("half the rate", during / before, RATE_SHARE_MIN))
        part.verdicts.append(at_most("confirms <= 2 s", longest, CONFIRM_SECONDS_MAX))
        return part

    def _until_whole(self) -> float:
        started = time.perf_counter()
        self._cluster.wait_until_whole()
        return time.perf_counter() - started

    def _fetched(self, server: ClusterServer) -> float:
        return float(self._cluster.status(server).get("fetched_bytes", 0))


class Publishing:
    """Publishers at full speed, and one client that publishes message by message. A context manager."""

    def __init__(self, root: ClusterServer) -> None:
        self._plan: LoadPlan = acknowledged(
            spread(HOST, root.port, "bench.large.load", 1, BODY_BYTES, 1_000_000), durable=True
        )
        self._port = root.port
        self._load = Load(self._plan, "bench.publisher", "bench.consumer")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._confirm)
        self._since = 0.0
        self._count = 0
        self.longest = 0.0
        self.failure = ""

    def __enter__(self) -> Self:
        self._load.__enter__()
        self._load.begin()
        self._load.wait(WARM_UP_SECONDS)
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._thread.join()
        with contextlib.suppress(LoadFailedError):
            self._load.drain()
        self._load.__exit__(*failure)

    def rate_over(self, seconds: float) -> float:
        self.begin_window()
        self._load.wait(seconds)
        return self.window()[0]

    def begin_window(self) -> None:
        self._since = time.perf_counter()
        self._count = self._confirmed()
        self.longest = 0.0

    def window(self) -> tuple[float, float]:
        """Confirms per second since it began, and the longest confirm."""
        if self.failure:
            raise LoadFailedError(self.failure)
        passed = time.perf_counter() - self._since
        return (self._confirmed() - self._count) / passed, self.longest

    def _confirmed(self) -> int:
        return int(sum(self._load.board.confirmed))

    def _confirm(self) -> None:
        try:
            session = Session(HOST, self._port)
            session.call(frames.CONFIRM_SELECT, b"\0", frames.CONFIRM_SELECT_OK)
            publish = frames.publish_method("", PROBE_QUEUE)
            publish += frames.content(b"x" * BODY_BYTES, persistent=True)
            ledger = ConfirmLedger()
            ledger.feed(session.take_unread())
            count = 0
            while not self._over.wait(PAUSE_SECONDS):
                began = time.perf_counter()
                session.socket.sendall(publish)
                count += 1
                while ledger.count < count:
                    ledger.feed(session.socket.recv(1 << 16))
                self.longest = max(self.longest, time.perf_counter() - began)
            session.close()
        except OSError as error:
            self.failure = f"the client that waits for each confirm was disconnected: {error}"


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure_queues() -> Part:
    """CPU time per message of the whole cluster beside one server, for few and for many queues."""
    costs: dict[tuple[str, int], list[float]] = {}
    for index in range(QUEUE_ROUNDS):
        for make in (SingleServer, PenstockCluster):
            servers: Measurable = make()
            try:
                for count in QUEUE_COUNTS:
                    cost = queue_cost(servers, count, index)
                    costs.setdefault((servers.name, count), []).append(cost)
            finally:
                servers.stop()
    part = Part(QUEUES)
    ratios: list[float] = []
    for count in QUEUE_COUNTS:
        single = statistics.median(costs[SingleServer.name, count])
        cluster = statistics.median(costs[PenstockCluster.name, count])
        part.figures[f"{count} queues: one server us"] = single
        part.figures[f"{count} queues: cluster us"] = cluster
        ratios.append(cluster / single)
        part.figures[f"{count} queues: ratio"] = ratios[-1]
    differ = abs(ratios[1] / ratios[0] - 1)
    part.verdicts.append(at_most("ratios within 15 %", differ, COST_RATIOS_DIFFER_MAX))
    return part


def queue_cost(servers: Measurable, count: int, index: int) -> float:
    root = servers.root()
    prefix = f"bench.large.{count}.{index}"
    plan = acknowledged(
        spread(HOST, root.port, prefix, count, BODY_BYTES, BURST),
        durable=True,
    )
    with Load(plan, "bench.publisher", "bench.consumer") as load:
        load.begin()
        load.wait(WARM_UP_SECONDS)
        before = readings(load, servers.servers)
        load.wait(WINDOW_SECONDS)
        after = readings(load, servers.servers)
        load.drain()
    return between(before[0], after[0]).broker_microseconds


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.large_backup",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--parts", default=",".join((*PARTS, QUEUES)))
    parser.add_argument("--json", type=Path, help="file to write every figure to")
    options = parser.parse_args(arguments)
    wanted = options.parts.split(",")
    results: dict[str, Any] = {
        "machine": machine_facts(),
        "load_before": load_average(),
        "messages": options.messages,
        "parts": [],
    }
    is_good = True

    def told(part: Part) -> None:
        nonlocal is_good
        results["parts"].append(dataclasses.asdict(part))
        results["load_after"] = load_average()
        is_good = is_good and all(verdict.met for verdict in part.verdicts)
        sys.stdout.write("\n".join(part.lines()) + "\n")
        sys.stdout.flush()
        if options.json is not None:
            options.json.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")

    if any(part in wanted for part in PARTS):
        cluster = PenstockCluster()
        results["version"] = cluster.version
        try:
            backups = LargeBackups(cluster, options.messages)
            for name in PARTS:
                if name in wanted:
                    told(backups.measure(name))
        finally:
            cluster.stop()
    if QUEUES in wanted:
        told(measure_queues())
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
