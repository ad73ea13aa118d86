"""What is measured beside throughput: latency, flatness, idle connections, start-up."""

import dataclasses
import json
import os
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
from bench.loader import Sample, measure
from bench.plan import LoadPlan, paired, spread
from bench.results import REFERENCE, Flatness, Latency, Results
from bench.session import Session

Extra = Callable[[list[RunningBroker], float, Results, Console], None]

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


def latency(
    brokers: list[RunningBroker], seconds: float, results: Results, console: Console
) -> None:
    for broker in brokers:
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


def flatness(
    axis: str,
    broker: RunningBroker,
    plans: dict[int, LoadPlan],
    seconds: float,
    results: Results,
    console: Console,
) -> None:
    samples: dict[int, Sample] = {}
    for count, plan in plans.items():
        samples[count] = measure(plan, broker.pid, seconds)
        cost = samples[count].broker_microseconds
        console.print(f"{axis} {broker.name} {count}: {cost:.2f} us/msg")
    results.flatness.append(Flatness(broker.name, axis, samples))


def queues(
    brokers: list[RunningBroker], seconds: float, results: Results, console: Console
) -> None:
    for broker in brokers:
        plans = {
            count: spread(HOST, broker.port, f"bench.queues.{count}", count, SMALL, SPREAD_BURST)
            for count in QUEUE_COUNTS
        }
        flatness("queues", broker, plans, seconds, results, console)


def connections(
    brokers: list[RunningBroker], seconds: float, results: Results, console: Console
) -> None:
    for broker in brokers:
        plans = {}
        for count in CONNECTION_COUNTS:
            plan = paired(HOST, broker.port, f"bench.connections.{count}", count // 2, SMALL)
            plans[count] = dataclasses.replace(plan, burst_max=SPREAD_BURST)
        flatness("connections, all active", broker, plans, seconds, results, console)


def bystanders(
    brokers: list[RunningBroker], seconds: float, results: Results, console: Console
) -> None:
    """One busy pair beside many connections that do nothing."""
    for broker in brokers:
        samples: dict[int, Sample] = {}
        sessions: list[Session] = []
        for count in BYSTANDER_COUNTS:
            while len(sessions) < count:
                sessions.append(Session(HOST, broker.port))
            plan = paired(HOST, broker.port, f"bench.bystanders.{count}", 1, SMALL)
            samples[count] = measure(plan, broker.pid, seconds)
            cost = samples[count].broker_microseconds
            console.print(f"bystanders {broker.name} {count}: {cost:.2f} us/msg")
        for session in sessions:
            session.close()
        results.flatness.append(Flatness(broker.name, "connections, idle beside one pair", samples))


def idle(brokers: list[RunningBroker], _: float, results: Results, console: Console) -> None:
    for name in [broker.name for broker in brokers]:
        fresh = BROKERS[name]()
        try:
            count = IDLE_CONNECTIONS_OF_REFERENCE if name == REFERENCE else IDLE_CONNECTIONS
            sample = measure_idle_connections(fresh, count)
        finally:
            fresh.stop()
        results.idle[name] = sample
        console.print(f"idle {name}: {sample.bytes_each / 1000:.1f} kB each")


def startup(brokers: list[RunningBroker], _: float, results: Results, console: Console) -> None:
    for name in [broker.name for broker in brokers]:
        results.startup[name] = measure_startup(BROKERS[name])
        console.print(f"start-up {name}: {min(results.startup[name]):.2f} s")
    if "penstock" in results.startup:
        if in_process := measure_in_process_startup(pure=False):
            results.startup["Broker()"] = in_process
        else:
            console.print("[yellow]start-up Broker(): not importable here[/]")


def codec(brokers: list[RunningBroker], _: float, results: Results, console: Console) -> None:
    """In an interpreter of its own: this one imports nothing of any broker."""
    pure = all(broker.name != "penstock" for broker in brokers)
    done = subprocess.run(
        [sys.executable, "-m", "bench.codec", "--json"],
        cwd=PROJECT_ROOT,
        env={**os.environ, "PENSTOCK_PURE": "1" if pure else "0"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        console.print("[yellow]codec: not importable here[/]")
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
