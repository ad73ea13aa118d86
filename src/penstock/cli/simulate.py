"""`penstock simulate`: run seeds in the simulator until one fails or all are done."""

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
        str, typer.Option(help="Run only this scenario. Default: all in turn.")
    ] = "",
    verbose: Annotated[
        bool, typer.Option(help="Print a line per seed, and the full history of a failure.")
    ] = False,
) -> None:
    """Run real nodes and clients on a simulated network and simulated disks, with faults.

    Time is virtual and all faults are drawn from the seed: the same seed always gives the same
    history. Every confirmed message must be delivered or still queued, none twice without the
    redelivered flag, and nodes must release everything that disconnected clients held. In the
    durable scenarios nodes are killed and lose power at any moment, and must recover exactly what
    was durable. The first failing seed ends the command with exit code 1, and the command that
    reproduces it is printed.
    """
    from rich.console import Console
    from rich.progress import track

    from penstock.simulation.run import run_seed, scenario_of
    from penstock.simulation.scenarios import SCENARIOS

    if scenario and scenario not in SCENARIOS:
        raise typer.BadParameter(f"must be one of {', '.join(SCENARIOS)}", param_hint="--scenario")
    console = Console(stderr=True)
    sightings: dict[str, int] = {}
    played = range(start, start + seeds)
    for seed in track(played, "Running seeds", console=console, transient=True):
        verdict = run_seed(seed, scenario or scenario_of(seed), seconds)
        if verbose:
            state = "passed" if verdict.is_good else "FAILED"
            typer.echo(f"{seed} {verdict.scenario} {state} {verdict.digest}")
        if not verdict.is_good:
            explain(verdict, seconds, verbose, console)
            raise typer.Exit(1)
        for what, count in verdict.sightings.items():
            sightings[what] = sightings.get(what, 0) + count
    show_sightings(sightings)
    typer.echo(f"{seeds} seeds passed.")


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


def show_sightings(sightings: dict[str, int]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("event", "count", box=None)
    table.columns[1].justify = "right"
    for what in sorted(sightings):
        table.add_row(what, f"{sightings[what]:,}")
    Console().print(table)
