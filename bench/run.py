"""The command `python -m bench`: all brokers up, every case in rounds that alternate them.

Interleaving is the point: on a shared machine the neighbours' load changes by the minute, and
only figures taken in turn can be compared.
"""

import argparse
import itertools
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from bench import report
from bench.brokers import BROKERS, HOST, BrokerUnavailableError, RunningBroker
from bench.cases import DEFAULT_MODES, MODES, PAIRS, SIZES, Case
from bench.extras import EXTRAS
from bench.footprint import raise_descriptor_limit
from bench.loader import LoadFailedError, measure
from bench.machine import machine_facts
from bench.results import Results, Throughput
from bench.session import BrokerRefusedError

DEFAULT_SECONDS = 3.0
DEFAULT_ROUNDS = 3
QUICK_SECONDS = 1.0

# What a broker, or a load on it, may do wrong without ending the run.
FAILURES = (LoadFailedError, BrokerRefusedError, BrokerUnavailableError, OSError)

# Columns when the output is not a terminal; the widest table fits.
FILE_WIDTH = 130


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 bytes only, one short round")
    parser.add_argument("--seconds", type=float, help="length of each measured window")
    parser.add_argument("--rounds", type=int, help="samples of each broker in each case")
    parser.add_argument("--cases", help=f"of {', '.join((*MODES, *EXTRAS))}")
    parser.add_argument("--brokers", default="rabbitmq,penstock", help=f"of {', '.join(BROKERS)}")
    parser.add_argument("--pure", action="store_true", help="measure the pure build as well")
    parser.add_argument("--sizes", help="body sizes, default 100,1000")
    parser.add_argument("--pairs", help="connection pairs, default 1,8")
    parser.add_argument("--json", type=Path, help="where to write, default bench/results/TIME.json")
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else DEFAULT_SECONDS)
    options.rounds = options.rounds or (1 if options.quick else DEFAULT_ROUNDS)
    options.brokers = options.brokers.split(",")
    if options.pure and "penstock-pure" not in options.brokers:
        options.brokers.append("penstock-pure")
    default_cases = DEFAULT_MODES if options.quick else (*DEFAULT_MODES, *EXTRAS)
    options.cases = options.cases.split(",") if options.cases else list(default_cases)
    default_sizes = SIZES[:1] if options.quick else SIZES
    options.sizes = numbers(options.sizes) or list(default_sizes)
    options.pairs = numbers(options.pairs) or list(PAIRS)
    for name, known in ((options.brokers, BROKERS), (options.cases, (*MODES, *EXTRAS))):
        if unknown := set(name) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return options


def numbers(text: str | None) -> list[int]:
    return [int(number) for number in text.split(",")] if text else []


def start(names: list[str], results: Results, console: Console) -> list[RunningBroker]:
    brokers = []
    for name in names:
        try:
            broker = BROKERS[name]()
        except BrokerUnavailableError as unavailable:
            results.skipped[name] = str(unavailable)
            console.print(f"[yellow]skipping {name}: {escape(str(unavailable))}[/]")
            continue
        results.versions[name] = broker.version
        console.print(f"{name} {broker.version} up in {broker.startup_seconds:.2f} s")
        brokers.append(broker)
    return brokers


def run_case(
    case: Case,
    brokers: list[RunningBroker],
    options: argparse.Namespace,
    results: Results,
    console: Console,
) -> None:
    measured = {broker.name: Throughput(case, broker.name) for broker in brokers}
    for round_index in range(options.rounds):
        # The order turns with the rounds, so that nobody always follows the same neighbour.
        turn = round_index % len(brokers)
        for broker in brokers[turn:] + brokers[:turn]:
            prefix = f"bench.{case.mode}.{round_index}"
            try:
                sample = measure(case.plan(HOST, broker.port, prefix), broker.pid, options.seconds)
            except FAILURES as failure:
                results.failures.append(f"{case.name} {broker.name}: {failure}")
                console.print(f"[red]{case.name} {broker.name} failed: {escape(str(failure))}[/]")
                continue
            measured[broker.name].samples.append(sample)
            console.print(
                f"{case.name} {broker.name}: {sample.rate:,.0f} msg/s,"
                f" {sample.broker_microseconds:.2f} us/msg"
                f" (loader {sample.loader_microseconds:.2f})"
            )
    results.throughput += measured.values()


def run_extra(
    name: str,
    brokers: list[RunningBroker],
    seconds: float,
    results: Results,
    console: Console,
) -> None:
    """One broker's failure ends neither the run nor what the others have to show."""
    for broker in brokers:
        try:
            EXTRAS[name](broker, seconds, results, console)
        except FAILURES as failure:
            results.failures.append(f"{name} {broker.name}: {failure}")
            console.print(f"[red]{name} {broker.name} failed: {escape(str(failure))}[/]")


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
    raise_descriptor_limit()
    settings = {name: getattr(options, name) for name in ("seconds", "rounds", "cases")}
    results = Results(machine_facts(), settings)
    brokers = start(options.brokers, results, console)
    try:
        if brokers:
            modes = [mode for mode in options.cases if mode in MODES]
            for mode, size, pairs in itertools.product(modes, options.sizes, options.pairs):
                run_case(Case(mode, size, pairs), brokers, options, results, console)
            for name in options.cases:
                if name in EXTRAS:
                    run_extra(name, brokers, options.seconds, results, console)
    finally:
        for broker in brokers:
            broker.stop()
        report.show(results, console)
        if brokers:
            console.print(f"written: {report.save(results, options.json)}")
    return 0 if brokers and not results.failures else 1
