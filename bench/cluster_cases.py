"""The cases about clusters, as the run calls them. One cluster runs at a time, alone."""

import dataclasses
from typing import Final

from rich.console import Console
from rich.markup import escape

from bench.failover import FAILOVER, run_failover
from bench.replicated import (
    FAILURES,
    PENSTOCK,
    RABBITMQ,
    REPLICATED,
    SINGLE,
    ReplicatedOptions,
    ReplicatedRun,
)
from bench.results import Results

CLUSTER_CASES: Final = (REPLICATED, FAILOVER)


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
    if REPLICATED in cases:
        kinds = replicated_kinds(brokers)
        amounts = ReplicatedOptions(
            options.sizes, options.pairs, options.rounds, options.seconds, kinds
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
