"""`penstock demo`: a broker, 200,000 messages through it, and an honest account of them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from penstock.cli.load import BROKEN_PROMISE, COULD_NOT_RUN, explained, run_shown
from penstock.cli.loading.crew import RunFailed
from penstock.cli.loading.display import outcome_table
from penstock.cli.loading.outcome import Outcome
from penstock.cli.loading.plan import Plan, make_plan
from penstock.client.errors import ClientError

READY: Final = "penstock ready "

# A broker told to stop closes its connections first; then it is ended.
STOP_SECONDS_MAX: Final = 10.0


class BrokerDidNotStart(Exception):
    """The child said something else than that it is ready."""


def command(
    messages: Annotated[int, typer.Option(help="How many messages to put through.")] = 200_000,
    size: Annotated[int, typer.Option(help="Octets of each body.")] = 100,
) -> None:
    """Start a broker, put messages through it with confirms and acks, and say what came of it.

    Ends with code 1 when anything was lost. Everything stays on this machine's loopback.
    """
    console = Console()
    try:
        with child_broker() as (pid, address):
            console.print(f"A broker serves at {address} (process {pid}); messages are on the way.")
            plan = make_plan(
                uri=f"amqp://{address}",
                run=int.from_bytes(os.urandom(4), "big"),
                size=size,
                messages=messages,
            )
            before = cpu_seconds_of(pid)
            outcome = run_shown(plan, console, live=True)
            after = cpu_seconds_of(pid)
    except (BrokerDidNotStart, ClientError, RunFailed) as error:
        console.print(explained(error), style="red", highlight=False)
        raise typer.Exit(COULD_NOT_RUN) from error
    spent = None if before is None or after is None else (after - before) * 1e6 / messages
    console.print(verdict(plan, outcome, spent))
    if outcome.account.lost or outcome.faults or outcome.delivered != messages:
        console.print("Not everything arrived.", style="red")
        raise typer.Exit(BROKEN_PROMISE)
    console.print("Every message was confirmed and delivered.", style="green")


def verdict(plan: Plan, outcome: Outcome, broker_microseconds: float | None) -> Table:
    table = outcome_table(plan, outcome, "penstock demo")
    spent = "n/a" if broker_microseconds is None else f"{broker_microseconds:.2f} µs"
    table.add_row("broker CPU per message", spent)
    return table


@contextmanager
def child_broker() -> Iterator[tuple[int, str]]:
    """A broker of our own on a free port: its process id and HOST:PORT."""
    child = subprocess.Popen(
        [sys.executable, "-m", "penstock", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    reader = threading.Thread(target=child.stdout.read, daemon=True)
    try:
        facts = _facts_of_ready(child.stdout)
        # Whatever it says from now on must be read, or a full pipe would stop it.
        reader.start()
        yield child.pid, facts["amqp"]
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        try:
            child.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if reader.ident is not None:
            reader.join()
        child.stdout.close()


def _facts_of_ready(said: IO[str]) -> dict[str, str]:
    """What `penstock ready amqp=HOST:PORT pid=N` tells; lines before it are the broker's log."""
    heard = ""
    for line in said:
        if line.startswith(READY):
            return dict(fact.split("=", 1) for fact in line.removeprefix(READY).split())
        heard = line
    raise BrokerDidNotStart(f"the broker did not start; its last words were {heard.strip()!r}")


def cpu_seconds_of(pid: int) -> float | None:
    """User and system time so far; None where there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The program's name may hold spaces; what follows it is counted from its last parenthesis.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
