"""What is measured beside throughput: latency, flatness, idle connections, start-up."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench.brokers import BROKERS, PROJECT_ROOT
from bench.cases import Case
from bench.footprint import (
    measure_idle_connections,
    measure_in_process_startup,
    measure_startup,
)
from bench.latency import EQUAL_RATE, measure_latency
from bench.loader import measure
from bench.plan import LoadPlan, paired, spread
from bench.results import REFERENCE, Flatness, Latency, Results
from bench.running import HOST, BrokerUnavailableError, RunningBroker
from bench.session import Session
from bench.storage_cases import storing

Extra = Callable[[RunningBroker, float, Results, Console], None]

SMALL = 100
HALF_LOAD_CASE = Case("confirm", SMALL, 1)

# From one to two the routing key begins to change with every message; from there on only the number
# of queues grows.
QUEUE_COUNTS = (1, 2, 100, 10_000)
CONNECTION_COUNTS = (2, 100, 1_000)
BYSTANDER_COUNTS = (0, 100, 1_000)

# Messages of one write where counts grow. With five hundred lanes no more fits into the bound on
# messages in flight, and a single lane must not use larger writes than they do.
SPREAD_BURST = 16

IDLE_CONNECTIONS = 10_000
# RabbitMQ takes minutes and a gigabyte for ten thousand, and the figure is the same.
IDLE_CONNECTIONS_OF_REFERENCE = 1_000


def latency(broker: RunningBroker, seconds: float, results: Results, console: Console) -> None:
    # Measured now and not taken from an earlier case: half of the broker's rate of ten minutes ago,
    # on a machine that was then idle, may exceed its present maximum.
    full = measure(HALF_LOAD_CASE.plan(HOST, broker.port, "bench.full"), broker.pid, seconds).rate
    for load, rate in (("half", full / 2), ("equal", EQUAL_RATE)):
        prefix = f"bench.latency.{load}"
        sample = measure_latency(HOST, broker.port, prefix, SMALL, rate, seconds)
        results.latency.append(Latency(broker.name, load, sample))
        median = sample.percentiles["p50"]
        console.print(f"latency {broker.name} {load}: {rate:,.0f} msg/s, p50 {median:.0f} us")


def measure_count(
    flatness: Flatness, count: int, plan: LoadPlan, broker: RunningBroker, seconds: float
) -> str:
    sample = measure(plan, broker.pid, seconds)
    flatness.samples[count] = sample
    return f"{flatness.axis} {broker.name} {count}: {sample.broker_microseconds:.2f} us/msg"


def queues(broker: RunningBroker, seconds: float, results: Results, console: Console) -> None:
    flatness = Flatness(broker.name, "queues", QUEUE_COUNTS)
    results.flatness.append(flatness)
    for count in QUEUE_COUNTS:
        plan = spread(HOST, broker.port, f"bench.queues.{count}", count, SMALL, SPREAD_BURST)
        console.print(measure_count(flatness, count, plan, broker, seconds))


def connections(broker: RunningBroker, seconds: float, results: Results, console: Console) -> None:
    flatness = Flatness(broker.name, "connections, all active", CONNECTION_COUNTS)
    results.flatness.append(flatness)
    for count in CONNECTION_COUNTS:
        plan = paired(HOST, broker.port, f"bench.connections.{count}", count // 2, SMALL)
        plan = dataclasses.replace(plan, burst_max=SPREAD_BURST)
        console.print(measure_count(flatness, count, plan, broker, seconds))


def bystanders(broker: RunningBroker, seconds: float, results: Results, console: Console) -> None:
    flatness = Flatness(broker.name, "connections, idle beside one pair", BYSTANDER_COUNTS)
    results.flatness.append(flatness)
    with contextlib.ExitStack() as sessions:
        opened = 0
        for count in BYSTANDER_COUNTS:
            for _ in range(count - opened):
                sessions.callback(Session(HOST, broker.port).close)
            opened = count
            plan = paired(HOST, broker.port, f"bench.bystanders.{count}", 1, SMALL)
            console.print(measure_count(flatness, count, plan, broker, seconds))


def idle(broker: RunningBroker, _: float, results: Results, console: Console) -> None:
    fresh = BROKERS[broker.name]()
    try:
        count = IDLE_CONNECTIONS_OF_REFERENCE if broker.name == REFERENCE else IDLE_CONNECTIONS
        sample = measure_idle_connections(fresh, count)
    finally:
        fresh.stop()
    results.idle[broker.name] = sample
    console.print(f"idle {broker.name}: {sample.bytes_each / 1000:.1f} kB each")


def startup(broker: RunningBroker, _: float, results: Results, console: Console) -> None:
    # The command as people use it has a data directory.
    for name in dict.fromkeys((broker.name, storing(broker.name))):
        try:
            results.startup[name] = measure_startup(BROKERS[name])
        except BrokerUnavailableError as unavailable:
            results.skipped[name] = str(unavailable)
            continue
        best = min(start.login for start in results.startup[name])
        console.print(f"start-up {name}: {best:.2f} s at best")
    if broker.name != "penstock":
        return
    if in_process := measure_in_process_startup():
        results.startup["Broker()"] = in_process
    else:
        console.print("[yellow]start-up Broker(): penstock is not importable here[/]")


def codec(broker: RunningBroker, _: float, results: Results, console: Console) -> None:
    """In an interpreter of its own, with the same build that the broker runs."""
    if broker.name != "penstock":
        return
    path = os.pathsep.join((python_path(broker.pid), str(PROJECT_ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", "bench.codec", "--json"],
        cwd=PROJECT_ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        console.print("[yellow]codec: penstock or pamqp is not importable here[/]")
        return
    document = json.loads(done.stdout)
    results.codec = document["nanoseconds"]
    console.print(f"codec: {document['build']} build measured")


def python_path(pid: int) -> str:
    """The launcher puts the compiled copy there."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    found = (entry[11:].decode() for entry in variables if entry.startswith(b"PYTHONPATH="))
    return next(found, "")


EXTRAS: dict[str, Extra] = {
    "latency": latency,
    "queues": queues,
    "connections": connections,
    "bystanders": bystanders,
    "idle": idle,
    "startup": startup,
    "codec": codec,
}
