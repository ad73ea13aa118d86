"""`penstock serve`: run a broker until it is told to stop."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.server.log_settings import LogFormat, LogLevel

if TYPE_CHECKING:
    from penstock.server.http.settings import HttpConfiguration
    from penstock.server.server_configuration import ServerConfiguration
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
    configuration and the certificates. Variables (PENSTOCK_LISTEN_PORT is listen.port) override
    the file, options override both.
    """
    from penstock.broker.definitions.parsing import DefinitionsRefused
    from penstock.server.configuration_changes import CannotRead
    from penstock.server.data_directory import DataDirectoryError
    from penstock.server.launch import serve
    from penstock.server.listening import CannotListen
    from penstock.server.tls import BadCertificate
    from penstock.server.token_settings import TokensUnavailable
    from penstock.storage.errors import StorageError
    from penstock.world.disk import DiskError, DiskFull

    options = Options(
        tuple(host or ()),
        port,
        no_plain,
        tls_port,
        tls_cert,
        tls_key,
        tls_client_ca,
        http_port,
        no_http,
        data,
        memory,
        ledger,
        config,
        definitions,
        None if log_level is None else log_level.value,
        None if log_format is None else log_format.value,
    )
    try:
        configuration = configured(options)
    except CannotRead as error:
        typer.echo(f"penstock: {error}", err=True)
        raise typer.Exit(2) from error
    try:
        code = serve(configuration, read_again=lambda: configured(options))
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
    except (BadCertificate, TokensUnavailable) as error:
        typer.echo(f"penstock: {error}", err=True)
        raise typer.Exit(2) from error
    except DefinitionsRefused as error:
        typer.echo(f"penstock: {configuration.definitions}: {error}", err=True)
        raise typer.Exit(2) from error
    raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class Options:
    """The options as they were given: they override file and environment, also on SIGHUP."""

    hosts: tuple[str, ...]
    port: int | None
    no_plain: bool
    tls_port: int | None
    tls_cert: Path | None
    tls_key: Path | None
    tls_client_ca: Path | None
    http_port: int | None
    no_http: bool
    data: Path | None
    memory: bool
    ledger: bool
    config: Path | None
    definitions: Path | None
    log_level: str | None
    log_format: str | None


def configured(options: Options) -> "ServerConfiguration":
    """Options over the environment over the file. Raises `CannotRead`."""
    from penstock.server.configuration_changes import CannotRead

    configuration = _read(options.config)
    tls = _chosen_tls(configuration.tls, options)
    log = configuration.log
    configuration = replace(
        configuration,
        hosts=options.hosts or configuration.hosts,
        port=configuration.port if options.port is None else options.port,
        plain=configuration.plain and not options.no_plain,
        tls=tls,
        http=_chosen_http(configuration.http, options.http_port, options.no_http),
        definitions=options.definitions or configuration.definitions,
        ledger=configuration.ledger or options.ledger,
        log=replace(
            log, level=options.log_level or log.level, format=options.log_format or log.format
        ),
    )
    if not tls.is_enabled and not configuration.plain:
        raise CannotRead(
            "without the plain port clients need TLS. Name the certificate with --tls-cert FILE, "
            "or omit --no-plain (listen.plain)."
        )
    configuration = replace(configuration, data=_data(configuration, options))
    configuration = _as_member(configuration, options)
    if configuration.ledger and configuration.data is None:
        raise CannotRead(
            "--ledger needs a data directory. Name one with --data DIR, or omit --ledger."
        )
    return configuration


def _as_member(configuration: "ServerConfiguration", options: Options) -> "ServerConfiguration":
    """A data directory of a cluster member says where it listens. Raises `CannotRead`."""
    if configuration.data is None or not (configuration.data / "cluster").is_dir():
        return configuration
    from penstock.server.cluster_directory import NotFormatted, read_member
    from penstock.server.configuration_changes import CannotRead
    from penstock.server.joining import AddressContradicted, listening_as

    try:
        member = read_member(configuration.data)
        if member is None:
            return configuration
        return listening_as(configuration, member, options.port is not None)
    except (AddressContradicted, NotFormatted) as error:
        raise CannotRead(str(error)) from error


def _data(configuration: "ServerConfiguration", options: Options) -> Path | None:
    if options.memory:
        return None
    named = options.data or configuration.data
    if named is not None:
        return named
    port = configuration.port if configuration.plain else configuration.tls.port
    # By the port, unless any free one is taken.
    return default_data(port) if port else None


def _chosen_http(
    configured: "HttpConfiguration", port: int | None, is_off: bool
) -> "HttpConfiguration":
    if is_off:
        return replace(configured, enabled=False)
    if port is not None:
        return replace(configured, enabled=True, port=port, is_port_named=True)
    return configured


def _chosen_tls(configured: "TlsConfiguration", options: Options) -> "TlsConfiguration":
    if options.tls_cert is not None:
        # With its key: the one in the file belongs to another certificate.
        configured = replace(configured, certificate=options.tls_cert, key=options.tls_key)
    elif options.tls_key is not None:
        configured = replace(configured, key=options.tls_key)
    if options.tls_client_ca is not None:
        configured = replace(configured, client_authorities=options.tls_client_ca)
    if options.tls_port is not None:
        if not configured.is_enabled:
            raise typer.BadParameter("--tls-port needs --tls-cert FILE")
        configured = replace(configured, port=options.tls_port)
    return configured


def default_data(port: int) -> Path:
    """The default data directory of a broker on this port. Raises `CannotRead`."""
    from penstock.server.configuration_changes import CannotRead

    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        return Path(state).expanduser() / "penstock" / str(port)
    except RuntimeError as error:  # a user of a service may have none
        raise CannotRead(
            "there is no default data directory, because this user has no home directory. Name "
            "one with --data DIR."
        ) from error


def _read(path: Path | None) -> "ServerConfiguration":
    """The environment over the file."""
    from penstock.server.config_environment import variables_in
    from penstock.server.configuration_changes import CannotRead
    from penstock.server.server_configuration import ServerConfiguration

    if path is None and not variables_in(os.environ):
        return ServerConfiguration()
    # Imported only when needed: pydantic takes longer to import than a broker to start.
    from penstock.server.config_file import ConfigurationError, read_configuration

    try:
        return read_configuration(path, os.environ).configuration
    except ConfigurationError as error:
        raise CannotRead(str(error)) from error
