"""What is measured beside throughput: latency, flatness, idle connections, start-up."""

import contextlib
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable

from rich.console import Console

from bench.brokers import BROKERS, HOST, PROJECT_ROOT, RunningBroker
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
from bench.session import Session

Extra = Callable[[RunningBroker, float, Results, Console], None]

SMALL = 100
HALF_LOAD_CASE = Case("confirm", SMALL, 1)

QUEUE_COUNTS = (1, 100, 10_000)
CONNECTION_COUNTS = (2, 100, 1_000)
BYSTANDER_COUNTS = (0, 100, 1_000)

# Messages of one write where counts grow. With five hundred lanes no more fits into the bound on
# what is in flight, and one lane must not be allowed larger writes than five hundred are.
SPREAD_BURST = 16

IDLE_CONNECTIONS = 10_000
# RabbitMQ takes minutes and a gigabyte for ten thousand, and the figure is the same.
IDLE_CONNECTIONS_OF_REFERENCE = 1_000


def latency(broker: RunningBroker, seconds: float, results: Results, console: Console) -> None:
    full = rate_with_confirms(broker, seconds, results)
    for load, rate in (("half", full / 2), ("equal", EQUAL_RATE)):
        prefix = f"bench.latency.{load}"
        sample = measure_latency(HOST, broker.port, prefix, SMALL, rate, seconds)
        results.latency.append(Latency(broker.name, load, sample))
        median = sample.percentiles["p50"]
        console.print(f"latency {broker.name} {load}: {rate:,.0f} msg/s, p50 {median:.0f} us")


def rate_with_confirms(broker: RunningBroker, seconds: float, results: Results) -> float:
    for measured in results.throughput:
        known = measured.broker == broker.name and measured.case == HALF_LOAD_CASE
        if known and measured.samples:
            return measured.rate
    plan = HALF_LOAD_CASE.plan(HOST, broker.port, "bench.full")
    return measure(plan, broker.pid, seconds).rate


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
    results.startup[broker.name] = measure_startup(BROKERS[broker.name])
    console.print(f"start-up {broker.name}: {min(results.startup[broker.name]):.2f} s at best")
    if broker.name != "penstock":
        return
    if in_process := measure_in_process_startup():
        results.startup["Broker()"] = in_process
    else:
        console.print("[yellow]start-up Broker(): penstock is not importable here[/]")


def codec(broker: RunningBroker, _: float, results: Results, console: Console) -> None:
    """In an interpreter of its own: this one imports nothing of any broker."""
    if broker.name != "penstock":
        return
    done = subprocess.run(
        [sys.executable, "-m", "bench.codec", "--json"],
        cwd=PROJECT_ROOT,
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


EXTRAS: dict[str, Extra] = {
    "latency": latency,
    "queues": queues,
    "connections": connections,
    "bystanders": bystanders,
    "idle": idle,
    "startup": startup,
    "codec": codec,
}
