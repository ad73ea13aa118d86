"""`penstock chaos`: a cluster of real servers under trouble, with a check of every promise."""

import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from penstock.cli.chaos_steps.run import ChaosRun
    from penstock.cli.chaos_steps.verdict import Check

SERVERS_MIN: Final = 3
SERVERS_MAX: Final = 7
SEED_MAX: Final = 1 << 31
VIOLATED: Final = 1
NOT_PLAYED: Final = 2


def command(
    minutes: Annotated[
        float, typer.Option(help="How long trouble is made.", min=0.1, metavar="N")
    ] = 1.0,
    servers: Annotated[
        int,
        typer.Option(help="How many servers.", min=SERVERS_MIN, max=SERVERS_MAX, metavar="N"),
    ] = 3,
    seed: Annotated[
        int | None, typer.Option(help="Chooses troubles and victims.", metavar="N")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Directory for their data and logs, which stays.", metavar="DIR"),
    ] = None,
) -> None:
    """Kill, pause, stop and restart servers of a cluster on this machine, and check its promises.

    Senders with confirms and receivers in transactions work all the time. At the end everything is
    delivered, and each server becomes the root once and tells what it has. The exit code is 1 when a
    promise was not kept, and then the data and the logs stay.

    Examples:
      penstock chaos --minutes 10
      penstock chaos --minutes 1 --seed 7

    """
    from penstock.cli.chaos_steps.run import ChaosRun
    from penstock.cli.local_servers import ServersFailed
    from penstock.server.data_directory import DataDirectoryError

    chosen = random.randrange(SEED_MAX) if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="penstock-chaos-")) if data is None else data
    run = ChaosRun(folder, servers, chosen, typer.echo)

    def stop(number: int, frame: object) -> None:
        del number, frame
        run.cluster.is_stopping = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    typer.echo(f"penstock chaos: seed {chosen}, {servers} servers in {folder}")
    began = time.monotonic()
    code = NOT_PLAYED
    try:
        checks = run.play(minutes)
        code = show(run, checks, time.monotonic() - began)
    except (ServersFailed, DataDirectoryError) as error:
        typer.echo(f"penstock: {error}", err=True)
    finally:
        run.cluster.end()
    if data is None and code == 0:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        typer.echo(f"data and logs: {folder}")
    raise typer.Exit(code)


def show(run: "ChaosRun", checks: "list[Check]", seconds: float) -> int:
    """The figures and the verdict; returns the exit code."""
    ledger, trouble = run.ledger, run.trouble
    kinds = ", ".join(f"{count} {kind.value}" for kind, count in trouble.counts.items())
    typer.echo(
        f"{seconds:.0f} s; {kinds}, {trouble.root_count} of them of the root; "
        f"{len(ledger.confirmed)} confirmed, {len(ledger.in_doubt)} in doubt, "
        f"{len(ledger.completed)} completed, {ledger.redelivered_count} redelivered; longest time "
        f"without a confirm {ledger.longest_silence:.1f} s"
    )
    for check in checks:
        typer.echo(f"{'FAILED' if check.fault else 'ok':6}  {check.what}  {check.fault}".rstrip())
    return VIOLATED if any(check.fault for check in checks) else 0
