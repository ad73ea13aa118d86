"""`penstock cluster`: make a cluster, run one to try it; look at it and change it."""

import asyncio
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.administering import exit_codes
from penstock.cli.operators.cluster import app

if TYPE_CHECKING:
    from penstock.cluster.member import Member

ClusterId = Annotated[
    str,
    typer.Option(
        help="Id of a cluster whose root was forced; `penstock cluster status --json` shows it. "
        "Default: made from the key.",
        metavar="HEX",
    ),
]
# As many as a cluster has members at most.
SERVERS_MAX: Final = 15


@app.command("format")
def format_member(
    data: Annotated[
        Path, typer.Option(help="Data directory to make; must be empty or new.", metavar="DIR")
    ],
    name: Annotated[str, typer.Option(help="Name of this server among the members.")],
    key_file: Annotated[
        Path,
        typer.Option(
            help="File with the cluster's key, the same for all members: openssl rand -hex 32.",
            metavar="FILE",
        ),
    ],
    member: Annotated[
        list[str] | None,
        typer.Option(
            help="A member, for each of them, this one included; the most senior first. With TLS: "
            "NAME=amqps://HOST:PORT.",
            metavar="NAME=HOST:PORT",
        ),
    ] = None,
    cluster_id: ClusterId = "",
) -> None:
    """Make the data directory of a cluster member; `penstock serve --data DIR` then joins.

    All members are formatted with the same members in the same order, and the same key. The key is
    copied into the directory, and its SHA-256 is printed.

    Example:
      penstock cluster format --data DIR --name b --key-file FILE --member a=10.0.0.1:5672
      --member b=10.0.0.2:5672 --member c=10.0.0.3:5672

    """
    from penstock.server.cluster_directory import (
        KeyRefused,
        MembersRefused,
        check_empty,
        parse_cluster_id,
        parse_members,
        read_key,
        warn_of_few,
    )
    from penstock.server.data_directory import DataDirectoryError
    from penstock.world.disk import DiskError

    try:
        members = parse_members(member or [], name)
        key, warning = read_key(key_file)
        check_empty(data)
        asyncio.run(_format(data, name, members, key, parse_cluster_id(cluster_id)))
    except (DataDirectoryError, DiskError, KeyRefused, MembersRefused) as error:
        typer.echo(f"penstock: {error}", err=True)
        raise typer.Exit(exit_codes.WRONG_USAGE) from error
    for text in (warning, warn_of_few(members)):
        if text:
            typer.echo(f"penstock: warning: {text}", err=True)
    typer.echo(
        f"formatted {data} for member {name!r}; key SHA-256 {hashlib.sha256(key).hexdigest()}"
    )


async def _format(
    data: Path, name: str, members: "list[Member]", key: bytes, cluster_id: bytes
) -> None:
    from penstock.server.cluster_directory import format_directory
    from penstock.server.world.clock import MachineClock
    from penstock.server.world.entropy import MachineEntropy

    loop = asyncio.get_running_loop()
    format_directory(data, name, members, key, MachineClock(), MachineEntropy(), loop, cluster_id)


@app.command("up")
def run_all(
    servers: Annotated[
        int, typer.Option(help="How many servers.", min=1, max=SERVERS_MAX, metavar="N")
    ] = 3,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Directory for their data, which is used again. Default: a temporary one.",
            metavar="DIR",
        ),
    ] = None,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Kill and restart a server from time to time.")
    ] = False,
    ledger: Annotated[
        bool,
        typer.Option(
            "--ledger",
            help="Record what happens to every message, in the data directory of each server, for "
            "`penstock pipeline`.",
        ),
    ] = False,
) -> None:
    """Run a whole cluster on this machine in the foreground, to see it work.

    Prints where each server listens; Ctrl-C stops all of them.

    Examples:
      penstock cluster up
      penstock cluster up --servers 5 --chaos
      penstock cluster up --data try --ledger

    """
    from penstock.cli.cluster_up import Chaos, ClusterUp

    trouble = Chaos() if chaos else None
    raise typer.Exit(ClusterUp(servers, data, trouble, typer.echo, ledger).run())
