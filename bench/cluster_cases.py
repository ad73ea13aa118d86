"""The cases about clusters, as the run calls them. One cluster runs at a time, alone."""

import dataclasses
from typing import Final

from rich.console import Console
from rich.markup import escape

from bench.failover import FAILOVER, run_failover
from bench.replicated import FAILURES, ReplicatedOptions, ReplicatedRun
from bench.replicated_modes import MODES
from bench.replicated_results import PENSTOCK, RABBITMQ, SINGLE
from bench.results import Results

CLUSTER_CASES: Final = (*MODES, FAILOVER)


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How much; the defaults of the command are in `run.py`."""

    sizes: list[int]
    pairs: list[int]
    rounds: int
    seconds: float
    kills: int
    queued: list[int]


def run_clusters(
    cases: list[str],
    brokers: list[str],
    options: ClusterOptions,
    results: Results,
    console: Console,
) -> None:
    modes = tuple(case for case in cases if case in MODES)
    if modes:
        kinds = replicated_kinds(brokers)
        amounts = ReplicatedOptions(
            options.sizes, options.pairs, options.rounds, options.seconds, kinds, modes
        )
        run = ReplicatedRun(amounts, console, results.failures, results.versions)
        results.replicated = run.results
        run.run()
    if FAILOVER in cases:
        for queued in options.queued:
            try:
                failover = run_failover(queued, options.kills, console, results.versions)
                results.failover.append(failover)
            except FAILURES as failure:
                results.failures.append(f"{FAILOVER}, {queued:,} queued: {failure}")
                console.print(f"[red]{FAILOVER} failed: {escape(str(failure))}[/]")


def replicated_kinds(brokers: list[str]) -> tuple[str, ...]:
    """Penstock's cluster is always compared with a single server of its own."""
    kinds: list[str] = []
    for name in brokers:
        kinds += {"penstock": [PENSTOCK, SINGLE], "rabbitmq": [RABBITMQ]}.get(name, [])
    return tuple(kinds)
