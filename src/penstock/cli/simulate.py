"""`penstock simulate`: play seeds on the simulated stage until one fails or all are done."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.simulation.run import Verdict


def command(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to play.")] = 100,
    start: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seconds: Annotated[
        int, typer.Option(min=1, help="Virtual seconds of trouble in each run.")
    ] = 8,
    scenario: Annotated[str, typer.Option(help="One scenario; all in turn when left out.")] = "",
    verbose: Annotated[
        bool, typer.Option(help="A line for each seed, and all of a failed run's history.")
    ] = False,
) -> None:
    """Play seeded runs of real nodes and clients over a network and on disks that break.

    Virtual time, simulated lines, faults drawn from the seed; the same seed always gives the same
    history. Every confirmed message must be delivered or still queued, none twice without the
    redelivered flag, and nodes must forget clients that left. In the durable scenarios nodes are
    killed and lose power at any moment, and must come back with exactly what was safe. The first
    failing seed ends the command with exit code 1 and says how to see it again.
    """
    from rich.console import Console
    from rich.progress import track

    from penstock.simulation.run import run_seed, scenario_of
    from penstock.simulation.scenarios import SCENARIOS

    if scenario and scenario not in SCENARIOS:
        raise typer.BadParameter(f"there are {', '.join(SCENARIOS)}", param_hint="--scenario")
    console = Console(stderr=True)
    sightings: dict[str, int] = {}
    played = range(start, start + seeds)
    for seed in track(played, "Playing seeds", console=console, transient=True):
        verdict = run_seed(seed, scenario or scenario_of(seed), seconds)
        if verbose:
            state = "good" if verdict.is_good else "FAILED"
            typer.echo(f"{seed} {verdict.scenario} {state} {verdict.digest}")
        if not verdict.is_good:
            explain(verdict, seconds, verbose, console)
            raise typer.Exit(1)
        for what, count in verdict.sightings.items():
            sightings[what] = sightings.get(what, 0) + count
    show_sightings(sightings)
    typer.echo(f"{seeds} seeds are good.")


def explain(verdict: "Verdict", seconds: int, verbose: bool, console: "Console") -> None:
    lines = verdict.lines if verbose else verdict.tail
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    typer.echo(f"Seed {verdict.seed} of scenario {verdict.scenario} failed:")
    for violation in verdict.violations:
        typer.echo(f"  {violation}")
    typer.echo(
        f"Again: penstock simulate --scenario {verdict.scenario} --start {verdict.seed} --seeds 1 "
        f"--seconds {seconds} --verbose"
    )


def show_sightings(sightings: dict[str, int]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what happened", "times", box=None)
    table.columns[1].justify = "right"
    for what in sorted(sightings):
        table.add_row(what, f"{sightings[what]:,}")
    Console().print(table)
