"""`penstock simulate`: run seeds in the simulator until one fails or all are done."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.simulation.run import Verdict


def command(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds to run.")] = 100,
    start: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seconds: Annotated[
        int, typer.Option(min=1, help="Virtual seconds with faults in each run.")
    ] = 8,
    scenario: Annotated[
        str, typer.Option(help="Run only this scenario. Default: all of single nodes in turn.")
    ] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes that run seeds.")] = 1,
    shrink: Annotated[
        bool,
        typer.Option(help="Leave out faults of a failed seed as long as it still fails."),
    ] = False,
    verbose: Annotated[
        bool, typer.Option(help="Print a line per seed, and the full history of a failure.")
    ] = False,
) -> None:
    """Run real nodes and clients on a simulated network and simulated disks, with faults.

    Time is virtual and all faults are drawn from the seed: the same seed always gives the same
    history. Every confirmed message must be delivered or still queued, none twice without the
    redelivered flag, and nodes must release everything that disconnected clients held. In the
    durable scenarios nodes are killed and lose power at any moment, and must recover exactly what
    was durable. In the scenarios of a cluster, which run only if they are named, servers elect a
    root, and the network between them is divided, processes are paused, and disks are lost; the
    scenario protocol plays the same election and replication over a toy state. The first failing
    seed ends the command with exit code 1, and the command that reproduces it is printed.
    """
    from rich.console import Console
    from rich.progress import track

    from penstock.simulation.cluster_scenarios import CLUSTER_SCENARIOS
    from penstock.simulation.run import PROTOCOL, scenario_of
    from penstock.simulation.scenarios import SCENARIOS

    names = [*SCENARIOS, *CLUSTER_SCENARIOS, PROTOCOL]
    if scenario and scenario not in names:
        raise typer.BadParameter(f"must be one of {', '.join(names)}", param_hint="--scenario")
    console = Console(stderr=True)
    sightings: dict[str, int] = {}
    played = [
        (seed, scenario or scenario_of(seed), seconds) for seed in range(start, start + seeds)
    ]
    for verdict in track(
        verdicts(played, jobs), "Running seeds", seeds, console=console, transient=True
    ):
        if verbose:
            state = "passed" if verdict.is_good else "FAILED"
            typer.echo(f"{verdict.seed} {verdict.scenario} {state} {verdict.digest}")
        if not verdict.is_good:
            explain(verdict, seconds, verbose, console)
            if shrink:
                tell_short_story(verdict, seconds)
            raise typer.Exit(1)
        for what, count in verdict.sightings.items():
            sightings[what] = sightings.get(what, 0) + count
    show_sightings(sightings)
    typer.echo(f"{seeds} seeds passed.")


def verdicts(played: list[tuple[int, str, int]], jobs: int) -> Iterator["Verdict"]:
    """In order of the seeds, whichever process finishes first."""
    if jobs == 1:
        yield from map(run_one, played)
        return
    import multiprocessing

    # A fresh interpreter: the terminal of this one has threads.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(run_one, played)


def run_one(played: tuple[int, str, int]) -> "Verdict":
    from penstock.simulation.run import PROTOCOL, run_protocol_seed, run_seed

    seed, scenario, seconds = played
    if scenario == PROTOCOL:
        return run_protocol_seed(seed, seconds * 1000)
    return run_seed(seed, scenario, seconds)


def explain(verdict: "Verdict", seconds: int, verbose: bool, console: "Console") -> None:
    lines = verdict.lines if verbose else verdict.tail
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    typer.echo(f"Seed {verdict.seed} of scenario {verdict.scenario} failed:")
    for violation in verdict.violations:
        typer.echo(f"  {violation}")
    typer.echo(
        f"To reproduce: penstock simulate --scenario {verdict.scenario} --start {verdict.seed} "
        "--seeds 1 "
        f"--seconds {seconds} --verbose"
    )


def tell_short_story(failed: "Verdict", seconds: int) -> None:
    from penstock.simulation.shrink import shrunk

    verdict, skipped = shrunk(failed, seconds)
    left = failed.fault_count - len(skipped)
    typer.echo(f"It fails with {left} of {failed.fault_count} faults:")
    for line in verdict.lines:
        if line.split(" ", 1)[1].startswith(("fault", "healed", "VIOLATION")):
            typer.echo(f"  {line}")
    for violation in verdict.violations:
        typer.echo(f"  {violation}")


def show_sightings(sightings: dict[str, int]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("event", "count", box=None)
    table.columns[1].justify = "right"
    for what in sorted(sightings):
        table.add_row(what, f"{sightings[what]:,}")
    Console().print(table)
