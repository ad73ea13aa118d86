"""`penstock serve`: run a broker until it is told to stop."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.server.log_settings import LogFormat, LogLevel

if TYPE_CHECKING:
    from penstock.server.http.settings import HttpConfiguration
    from penstock.server.launch import ServerConfiguration
    from penstock.server.tls_settings import TlsConfiguration

# Exit code when the data directory is locked, damaged, of another version or not ours.
STORE_REFUSED = 3


def command(
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Address to listen on; can be repeated. localhost means IPv4 and IPv6. "
            "Default: localhost."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="AMQP port; 0 chooses a free one. Default: 5672.", min=0)
    ] = None,
    no_plain: Annotated[
        bool, typer.Option("--no-plain", help="Listen only with TLS, not on --port.")
    ] = False,
    tls_port: Annotated[
        int | None,
        typer.Option(help="Port for AMQP over TLS; 0 chooses a free one. Default: 5671.", min=0),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(help="PEM file with the broker's certificate; enables TLS for AMQP."),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(help="PEM file with its private key. Default: in the file of --tls-cert."),
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            help="PEM file with the authorities that sign client certificates; clients must then "
            "show one."
        ),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(
            help="HTTP port; 0 chooses a free one. Default: 15672 if the AMQP port is 5672, else "
            "a free one.",
            min=0,
        ),
    ] = None,
    no_http: Annotated[
        bool,
        typer.Option("--no-http", help="Disable HTTP: health, metrics, bulk reads and WebSockets."),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Data directory. Default: ~/.local/state/penstock/PORT; none with --port 0."
        ),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep everything in memory; write nothing to disk.")
    ] = False,
    ledger: Annotated[
        bool,
        typer.Option(
            "--ledger", help="Record what happens to every message, for `penstock pipeline`."
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration file (TOML); command line options override it."),
    ] = None,
    definitions: Annotated[
        Path | None,
        typer.Option(help="Definitions file (RabbitMQ's JSON format) to import at startup."),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(help="Lowest level that is logged. Default: info."),
    ] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help="Log format. Default: text.")] = None,
) -> None:
    """Run a broker.

    No configuration is needed. When the broker is ready it prints one line, `penstock ready
    amqp=HOST:PORT amqps=HOST:PORT http=HOST:PORT pid=N`, and runs until SIGTERM or SIGINT.
    Further addresses follow as `amqp_also=`, `amqps_also=` and `http_also=`. SIGHUP reloads the
    certificates.
    """
    from penstock.broker.definitions.parsing import DefinitionsRefused
    from penstock.server.data_directory import DataDirectoryError
    from penstock.server.launch import serve
    from penstock.server.listening import CannotListen
    from penstock.server.tls import BadCertificate
    from penstock.storage.errors import StorageError
    from penstock.world.disk import DiskError, DiskFull

    configuration = _configuration(config)
    if host:
        configuration = replace(configuration, hosts=tuple(host))
    if port is not None:
        configuration = replace(configuration, port=port)
    if no_plain:
        configuration = replace(configuration, plain=False)
    tls = chosen_tls(configuration.tls, tls_port, tls_cert, tls_key, tls_client_ca)
    configuration = replace(configuration, tls=tls)
    if not tls.is_enabled and not configuration.plain:
        typer.echo(
            "penstock: without the plain port clients need TLS. Name the certificate with "
            "--tls-cert FILE, or omit --no-plain (listen.plain).",
            err=True,
        )
        raise typer.Exit(2)
    log = configuration.log
    log = replace(
        log,
        level=log.level if log_level is None else log_level.value,
        format=log.format if log_format is None else log_format.value,
    )
    configuration = replace(configuration, log=log)
    http = chosen_http(configuration.http, http_port, no_http)
    configuration = replace(configuration, http=http)
    if definitions is not None:
        configuration = replace(configuration, definitions=definitions)
    if data is not None:
        configuration = replace(configuration, data=data)
    elif configuration.data is None and (amqp_port := _amqp_port(configuration)):
        configuration = replace(configuration, data=default_data(amqp_port))
    if memory:
        configuration = replace(configuration, data=None)
    if ledger:
        configuration = replace(configuration, ledger=True)
    if configuration.ledger and configuration.data is None:
        typer.echo(
            "penstock: --ledger needs a data directory. Name one with --data DIR, or omit "
            "--ledger.",
            err=True,
        )
        raise typer.Exit(2)
    try:
        code = serve(configuration)
    except DiskFull as error:
        typer.echo(
            f"penstock: no space left for the data directory: {error}. Free some space and start "
            "again; no data was lost",
            err=True,
        )
        raise typer.Exit(STORE_REFUSED) from error
    except (StorageError, DataDirectoryError, DiskError) as error:
        typer.echo(f"penstock: cannot use the data directory: {error}", err=True)
        raise typer.Exit(STORE_REFUSED) from error
    except CannotListen as error:
        typer.echo(f"penstock: {error}", err=True)
        raise typer.Exit(1) from error
    except BadCertificate as error:
        typer.echo(f"penstock: {error}", err=True)
        raise typer.Exit(2) from error
    except DefinitionsRefused as error:
        typer.echo(f"penstock: {configuration.definitions}: {error}", err=True)
        raise typer.Exit(2) from error
    raise typer.Exit(code)


def chosen_http(
    configured: "HttpConfiguration", port: int | None, is_off: bool
) -> "HttpConfiguration":
    """Options override the file."""
    if is_off:
        return replace(configured, enabled=False)
    if port is not None:
        return replace(configured, enabled=True, port=port, is_port_named=True)
    return configured


def chosen_tls(
    configured: "TlsConfiguration",
    port: int | None,
    certificate: Path | None,
    key: Path | None,
    client_authorities: Path | None,
) -> "TlsConfiguration":
    """Options override the file."""
    if certificate is not None:
        # With its key: the one in the file belongs to another certificate.
        configured = replace(configured, certificate=certificate, key=key)
    elif key is not None:
        configured = replace(configured, key=key)
    if client_authorities is not None:
        configured = replace(configured, client_authorities=client_authorities)
    if port is not None:
        if not configured.is_enabled:
            raise typer.BadParameter("--tls-port needs --tls-cert FILE")
        configured = replace(configured, port=port)
    return configured


def _amqp_port(configuration: "ServerConfiguration") -> int:
    """By which the default data directory is named; 0 for any free one."""
    return configuration.port if configuration.plain else configuration.tls.port


def default_data(port: int) -> Path:
    """Where a broker on this port keeps its data unless told otherwise."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "penstock" / str(port)


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
