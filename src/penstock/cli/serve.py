"""`penstock serve`: run a broker until it is told to stop."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.server.launch import ServerConfiguration


def command(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="AMQP port; 0 takes a free one. [default: 5672]", min=0)
    ] = None,
    http_port: Annotated[
        int, typer.Option(help="HTTP port of the console; nothing listens there yet.", min=0)
    ] = 15672,
    data: Annotated[
        Path | None, typer.Option(help="Data directory; everything is kept in memory yet.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Configuration file (TOML); options win over it.")
    ] = None,
) -> None:
    """Run a broker.

    It needs no configuration. When it serves it prints one line, `penstock ready amqp=HOST:PORT
    pid=N`, and runs until SIGTERM or SIGINT.
    """
    del http_port
    from penstock.server.launch import serve

    configuration = _configuration(config)
    if host is not None:
        configuration = replace(configuration, host=host)
    if port is not None:
        configuration = replace(configuration, port=port)
    if data is not None:
        typer.echo(
            f"penstock: --data {data} is not used yet: this version keeps everything in memory.",
            err=True,
        )
    try:
        serve(configuration)
    except OSError as error:
        typer.echo(
            f"penstock: cannot listen on {configuration.host}:{configuration.port}: "
            f"{error.strerror or error}. Another port: --port N; any free one: --port 0.",
            err=True,
        )
        raise typer.Exit(1) from error


def _configuration(path: Path | None) -> "ServerConfiguration":
    from penstock.server.launch import ServerConfiguration

    if path is None:
        return ServerConfiguration()
    # Imported only for a file: pydantic takes longer to import than a broker to start.
    from penstock.server.config_file import ConfigurationError, read_configuration

    try:
        return read_configuration(path)
    except ConfigurationError as error:
        typer.echo(f"penstock: {error}", err=True)
        raise typer.Exit(2) from error
