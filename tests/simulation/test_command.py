"""`penstock simulate`: what it prints, and its exit code."""

import typer
from rich.console import Console
from typer.testing import CliRunner

from penstock.cli import simulate
from penstock.simulation.run import run_seed
from tests.simulation.planted import RouteLosingHost

app = typer.Typer()
app.command()(simulate.command)


def test_good_seeds_are_counted_and_end_with_zero() -> None:
    result = CliRunner().invoke(app, ["--seeds", "2", "--seconds", "2", "--verbose"])
    assert result.exit_code == 0, result.output
    assert "2 seeds passed." in result.output
    digest = run_seed(0, "plain", 2).digest
    assert f"0 plain passed {digest}" in result.output


def test_an_unknown_scenario_is_refused_and_the_known_ones_named() -> None:
    result = CliRunner().invoke(app, ["--scenario", "sunny"])
    assert result.exit_code == 2
    assert "two-nodes" in result.output


def test_a_failed_seed_is_explained_with_the_command_that_shows_it_again() -> None:
    verdict = run_seed(0, "plain", make_host=RouteLosingHost)
    show = typer.Typer()

    @show.command()
    def fail() -> None:
        simulate.explain(verdict, 8, verbose=False, console=Console(stderr=True))
        raise typer.Exit(1)

    result = CliRunner().invoke(show, [])
    assert result.exit_code == 1
    assert "never reached" in result.output
    assert "--scenario plain --start 0 --seeds 1 --seconds 8" in result.output
