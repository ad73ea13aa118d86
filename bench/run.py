"""The command `python -m bench`: all brokers up, every case in rounds that alternate them.

Interleaving is essential: on a shared machine the other load changes by the minute, and only
figures taken in turn can be compared.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from bench import report
from bench.brokers import BROKERS, listening_with_tls
from bench.cases import MIXED_MODES, MIXED_SIZE, MODES, PAIRS, SIZES, TLS, Case
from bench.cluster_cases import CLUSTER_CASES, ClusterOptions, run_clusters
from bench.confirms import PublishRefusedError
from bench.consumer import MiscountedDeliveriesError
from bench.extras import EXTRAS
from bench.failover import DEFAULT_KILLS, QUEUED_MESSAGES
from bench.footprint import raise_descriptor_limit
from bench.goals import BACKLOG_MESSAGES
from bench.loader import LoadFailedError, Sample, measure
from bench.machine import load_average, machine_facts
from bench.plan import STREAM, streamed
from bench.replicated import DEFAULT_ROUNDS as REPLICATED_ROUNDS
from bench.results import Results, Throughput
from bench.running import HOST, BrokerUnavailableError, RunningBroker
from bench.session import BrokerRefusedError
from bench.spark import MESSAGES as SPARK_MESSAGES
from bench.spark import SPARK
from bench.spark_case import PARTS as SPARK_PARTS
from bench.spark_case import SparkOptions, run_spark
from bench.storage_cases import STORAGE_CASES, StorageOptions
from bench.stream import APPEND_MODE, PUBLISHERS, READ_MODE, measure_stream
from bench.targets import Target, needed, targets

DEFAULT_SECONDS = 3.0
DEFAULT_ROUNDS = 3
QUICK_SECONDS = 1.0

DEFAULT_BROKERS = ("rabbitmq", "penstock")
# RabbitMQ takes many minutes to fill a queue of ten million; it must be requested.
DEFAULT_STORING_BROKERS = ("penstock",)

RECOVERY_MESSAGES = 1_000_000
RECLAIM_MESSAGES = 5_000_000

ALL_CASES = (*MODES, *EXTRAS, STREAM, *STORAGE_CASES, *CLUSTER_CASES, SPARK)

# Errors of a broker, or of a load on it, that do not end the run.
FAILURES = (
    LoadFailedError,
    BrokerRefusedError,
    BrokerUnavailableError,
    MiscountedDeliveriesError,
    PublishRefusedError,
    OSError,
)

# Columns when the output is not a terminal; the widest table fits.
FILE_WIDTH = 130


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 bytes only, one short round")
    parser.add_argument("--seconds", type=float, help="length of each measured window")
    parser.add_argument("--rounds", type=int, help="samples of each broker in each case")
    parser.add_argument("--cases", help=f"of {', '.join(ALL_CASES)}")
    parser.add_argument("--brokers", help=f"of {', '.join(BROKERS)}")
    parser.add_argument("--pure", action="store_true", help="measure the pure build as well")
    parser.add_argument("--sizes", help="body sizes, default 100,1000")
    parser.add_argument("--pairs", help="connection pairs, default 1,8")
    parser.add_argument("--backlog-messages", type=int, default=BACKLOG_MESSAGES)
    parser.add_argument("--recovery-messages", type=int, default=RECOVERY_MESSAGES)
    parser.add_argument("--reclaim-messages", type=int, default=RECLAIM_MESSAGES)
    parser.add_argument("--kills", type=int, default=DEFAULT_KILLS, help="of the case failover")
    parser.add_argument("--queued", help=f"of the case failover, default 0,{QUEUED_MESSAGES}")
    parser.add_argument("--spark-messages", type=int, default=SPARK_MESSAGES)
    parser.add_argument("--spark-parts", default=",".join(SPARK_PARTS))
    parser.add_argument("--json", type=Path, help="output file, default bench/results/TIME.json")
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else DEFAULT_SECONDS)
    options.replicated_rounds = options.rounds or (1 if options.quick else REPLICATED_ROUNDS)
    options.rounds = options.rounds or (1 if options.quick else DEFAULT_ROUNDS)
    chosen = options.brokers.split(",") if options.brokers else None
    options.storing_brokers = chosen or list(DEFAULT_STORING_BROKERS)
    options.brokers = list(chosen or DEFAULT_BROKERS)
    if options.pure and "penstock-pure" not in options.brokers:
        options.brokers.append("penstock-pure")
    default_cases = MODES if options.quick else (*MODES, *EXTRAS, STREAM)
    options.cases = options.cases.split(",") if options.cases else list(default_cases)
    default_sizes = SIZES[:1] if options.quick else SIZES
    options.sizes = numbers(options.sizes) or list(default_sizes)
    options.pairs = numbers(options.pairs) or list(PAIRS)
    options.queued = numbers(options.queued) or [0, QUEUED_MESSAGES]
    options.spark_parts = options.spark_parts.split(",")
    for name, known in (
        (options.brokers, BROKERS),
        (options.cases, ALL_CASES),
        (options.spark_parts, SPARK_PARTS),
    ):
        if unknown := set(name) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return options


def numbers(text: str | None) -> list[int]:
    return [int(number) for number in text.split(",")] if text else []


def start(
    names: list[str], results: Results, console: Console, *, with_tls: bool = False
) -> dict[str, RunningBroker]:
    brokers = {}
    for name in names:
        try:
            kind = BROKERS[name]
            broker = listening_with_tls(kind)() if with_tls else kind()
        except BrokerUnavailableError as unavailable:
            results.skipped[name] = str(unavailable)
            console.print(f"[yellow]skipping {name}: {escape(str(unavailable))}[/]")
            continue
        results.versions[name] = broker.version
        console.print(f"{name} {broker.version} up in {broker.startup_seconds:.2f} s")
        brokers[name] = broker
    return brokers


def run_case(
    case: Case,
    aims: list[Target],
    options: argparse.Namespace,
    results: Results,
    console: Console,
) -> None:
    measured = {target.name: Throughput(case, target.name) for target in aims}
    for round_index, target in turns(options.rounds, aims):
        plan = target.plan(case, f"bench.{case.mode}.{round_index}")
        try:
            pid = target.broker.pid
            sample = measure(plan, pid, options.seconds, processes=case.processes)
        except FAILURES as failure:
            failed(f"{case.name} {target.name}", failure, results, console)
            continue
        add(sample, measured[target.name], console)
    results.throughput += measured.values()


def turns(rounds: int, aims: list[Target]) -> Iterator[tuple[int, Target]]:
    """The order rotates with the rounds, so that no broker always follows the same one."""
    for round_index in range(rounds):
        turn = round_index % len(aims)
        for target in aims[turn:] + aims[:turn]:
            yield round_index, target


def add(sample: Sample, measured: Throughput, console: Console) -> None:
    measured.samples.append(sample)
    console.print(
        f"{measured.case.name} {measured.broker}: {sample.rate:,.0f} msg/s,"
        f" {sample.broker_microseconds:.2f} us/msg"
        f" (loader {sample.loader_microseconds:.2f})"
    )


def failed(what: str, failure: Exception, results: Results, console: Console) -> None:
    results.failures.append(f"{what}: {failure}")
    console.print(f"[red]{what} failed: {escape(str(failure))}[/]")


def run_streams(
    aims: list[Target], options: argparse.Namespace, results: Results, console: Console
) -> None:
    for size, publishers in itertools.product(options.sizes, PUBLISHERS):
        appends, reads = (
            {target.name: Throughput(Case(mode, size, publishers), target.name) for target in aims}
            for mode in (APPEND_MODE, READ_MODE)
        )
        for round_index, target in turns(options.rounds, aims):
            queue = f"bench.stream.{round_index}.{target.name}"
            plan = streamed(HOST, target.broker.port, queue, publishers, size)
            try:
                sample = measure_stream(plan, target.broker.pid, options.seconds)
            except FAILURES as failure:
                failed(f"stream/{size}/{publishers} {target.name}", failure, results, console)
                continue
            add(sample.append, appends[target.name], console)
            add(sample.read, reads[target.name], console)
        results.throughput += [*appends.values(), *reads.values()]


def run_extra(
    name: str,
    brokers: list[RunningBroker],
    seconds: float,
    results: Results,
    console: Console,
) -> None:
    """One broker's failure ends neither the run nor the measurement of the others."""
    for broker in brokers:
        try:
            EXTRAS[name](broker, seconds, results, console)
        except FAILURES as failure:
            failed(f"{name} {broker.name}", failure, results, console)


def run_storage(options: argparse.Namespace, results: Results, console: Console) -> None:
    amounts = StorageOptions(
        options.backlog_messages,
        options.recovery_messages,
        options.reclaim_messages,
        options.seconds,
    )
    asked = [case for case in options.cases if case in STORAGE_CASES]
    for case, name in itertools.product(asked, options.storing_brokers):
        try:
            STORAGE_CASES[case](name, amounts, results, console)
        except FAILURES as failure:
            failed(f"{case} {name}", failure, results, console)


def throughput_cases(options: argparse.Namespace) -> list[Case]:
    cases = []
    for mode in options.cases:
        if mode in MODES:
            sizes = [MIXED_SIZE] if mode in MIXED_MODES else options.sizes
            cases += [Case(mode, *load) for load in itertools.product(sizes, options.pairs)]
    return cases


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
    raise_descriptor_limit()
    settings = {name: getattr(options, name) for name in ("seconds", "rounds", "cases")}
    results = Results(machine_facts(), settings)
    wanted = needed(options.cases, options.brokers)
    brokers = start(wanted, results, console, with_tls=TLS in options.cases)
    try:
        for case in throughput_cases(options):
            if aims := targets(case.mode, options.brokers, brokers):
                run_case(case, aims, options, results, console)
        if STREAM in options.cases and (aims := targets(STREAM, options.brokers, brokers)):
            run_streams(aims, options, results, console)
        plain = [brokers[name] for name in options.brokers if name in brokers]
        for name in options.cases:
            if name in EXTRAS:
                run_extra(name, plain, options.seconds, results, console)
    finally:
        for broker in brokers.values():
            broker.stop()
    # One at a time and alone: these measure a broker's memory, and leave none for others.
    run_storage(options, results, console)
    amounts = ClusterOptions(
        options.sizes,
        options.pairs,
        options.replicated_rounds,
        options.seconds,
        options.kills,
        options.queued,
    )
    run_clusters(options.cases, options.brokers, amounts, results, console)
    if SPARK in options.cases:
        wanted_rows = SparkOptions(options.spark_messages, options.rounds, options.spark_parts)
        try:
            run_spark(wanted_rows, results, console)
        except FAILURES as failure:
            failed(SPARK, failure, results, console)
    results.machine["load_average_after"] = load_average()
    report.show(results, console)
    if results.versions:
        console.print(f"written: {report.save(results, options.json)}")
    return 0 if results.versions and not results.failures else 1
