"""`penstock config`: check a configuration, or show what would be in force."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.administering.tables import Row, column, table_lines
from penstock.cli.examples import shows_examples

if TYPE_CHECKING:
    from penstock.server.config_file import ReadConfiguration

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

_COLUMNS = (column("key", "key"), column("value", "value"), column("from", "source"))

File = Annotated[Path | None, typer.Argument(help="Configuration file (TOML).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
@shows_examples
def config() -> None:
    """Check a configuration file, or show what would be in force with it.

    Environment variables (PENSTOCK_LISTEN_PORT is listen.port) override the file. Options of
    `penstock serve` override both.

    Examples:
      penstock config check penstock.toml
      penstock config show penstock.toml
      PENSTOCK_LOG_LEVEL=debug penstock config show

    """


@app.command("check")
@shows_examples
def check(file: File = None, as_json: AsJson = False) -> None:
    """List every error of a configuration, or what it changes. The exit code is 1 if it has errors.

    Certificates, keys and definitions that it names are read as well; nothing is changed.

    Example:
      penstock config check penstock.toml

    """
    read, errors = _read(file)
    if read is not None:
        errors += _file_errors(read)
    if as_json:
        rows = [] if read is None else _rows(read, False)
        typer.echo(json.dumps({"valid": not errors, "errors": errors, "changed": rows}, indent=2))
    elif errors:
        typer.echo("\n".join(errors), err=True)
    else:
        assert read is not None, "it has no errors"
        rows = _rows(read, False)
        typer.echo("\n".join(table_lines(_COLUMNS, rows) if rows else ["all defaults"]))
        typer.echo("the configuration is valid")
    if errors:
        raise typer.Exit(1)


@app.command("show")
@shows_examples
def show(file: File = None, as_json: AsJson = False) -> None:
    """Show every key with its value and where that comes from: file, variable or default.

    Examples:
      penstock config show
      PENSTOCK_LISTEN_PORT=5673 penstock config show penstock.toml --json

    """
    read, errors = _read(file)
    if read is None:
        typer.echo("\n".join(errors), err=True)
        raise typer.Exit(1)
    rows = _rows(read, True)
    typer.echo(json.dumps(rows, indent=2) if as_json else "\n".join(table_lines(_COLUMNS, rows)))


def _read(file: Path | None) -> "tuple[ReadConfiguration | None, list[str]]":
    from penstock.server.config_file import ConfigurationError, read_configuration

    try:
        return read_configuration(file, os.environ), []
    except ConfigurationError as error:
        return None, str(error).splitlines()


def _rows(read: "ReadConfiguration", all_keys: bool) -> list[Row]:
    rows: list[Row] = []
    for table, keys in read.tables.model_dump().items():
        for key, value in keys.items():
            source = read.sources.get(f"{table}.{key}")
            if source is None and not all_keys:
                continue
            rows.append({"key": f"{table}.{key}", "value": value, "source": source or "default"})
    return rows


def _file_errors(read: "ReadConfiguration") -> list[str]:
    """Of the files that the configuration names."""
    from penstock.broker.definitions.parsing import DefinitionsRefused
    from penstock.server.definition_files import prepare, read_file
    from penstock.server.tls import BadCertificate, check_tls, make_context
    from penstock.server.token_loading import token_verifier
    from penstock.server.token_settings import TokensUnavailable

    configuration = read.configuration
    errors: list[str] = []
    for files, key, purpose in (
        (configuration.tls, "tls.certificate", "AMQP"),
        (configuration.http.files(), "http.tls_certificate", "HTTP"),
    ):
        try:
            check_tls(files, key)
            if files.is_enabled:
                make_context(files, purpose)
        except BadCertificate as error:
            errors.append(str(error))
    try:
        token_verifier(configuration.tokens)
    except TokensUnavailable as error:
        errors.append(str(error))
    if not configuration.plain and not configuration.tls.is_enabled:
        errors.append("listen.plain is false and tls.certificate is not set: nobody could connect")
    if configuration.definitions is not None:
        try:
            mistakes = prepare(read_file(configuration.definitions)).mistakes
        except DefinitionsRefused as error:
            mistakes = error.mistakes
        errors += [f"{configuration.definitions}: {mistake}" for mistake in mistakes]
    return errors
