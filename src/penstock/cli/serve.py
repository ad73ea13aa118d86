"""`penstock serve`: run a broker until it is told to stop."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="AMQP port; 0 takes a free one.")] = 5672,
    http_port: Annotated[
        int, typer.Option(help="HTTP port; kept for the console, nothing listens yet.")
    ] = 15672,
    data: Annotated[
        Path | None, typer.Option(help="Data directory; the broker keeps everything in memory now.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration file (TOML).")] = None,
) -> None:
    """Run a broker.

    It needs no configuration. When it serves it prints one line, `penstock ready amqp=HOST:PORT
    pid=N`, and runs until SIGTERM or SIGINT.
    """
    del http_port, data, config
    from penstock.server.launch import ServerConfiguration, serve  # noqa: PLC0415

    serve(ServerConfiguration(host=host, port=port))
