"""`penstock definitions`: export and import, in RabbitMQ's JSON format."""

import json
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.administering.arguments import text_of_file
from penstock.cli.administering.progress import Progress
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.examples import shows_examples

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
# An export holds the hashes of passwords.
_OWNER_ONLY = 0o600


@app.callback()
@shows_examples
def definitions() -> None:
    """Export and import users, virtual hosts, queues, exchanges, bindings, policies and so on.

    Examples:
      penstock definitions export broker.json
      penstock definitions export orders.json --vhost orders
      penstock definitions import broker.json

    """


@app.command("export")
@operator(has_vhost=True)
def export(
    session: OperatorSession,
    file: Annotated[
        Path, typer.Argument(help="File to write, readable by its owner; - is standard output.")
    ] = Path("-"),
) -> None:
    """Export definitions; those of one virtual host with --vhost.

    Examples:
      penstock definitions export broker.json
      penstock definitions export --vhost orders | jq .queues

    """
    path = ("definitions", session.asked_vhost) if session.asked_vhost else ("definitions",)
    found = session.api.get(*path)
    if str(file) == "-":
        session.show_json(found)
        return
    try:
        file.touch(mode=_OWNER_ONLY)
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {file}: {error}") from error
    session.done(f"definitions exported to {file}", file=str(file), **_counts(found))


@app.command("import")
@operator(has_vhost=True)
def import_file(
    session: OperatorSession,
    file: Annotated[Path, typer.Argument(help="File to read; - is standard input.")],
) -> None:
    """Import definitions: all of them, or none if one is refused.

    Examples:
      penstock definitions import broker.json
      rabbitmqctl export_definitions - | penstock definitions import -

    """
    text = text_of_file(file)
    try:
        read = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{file} is not valid JSON: {error}") from error
    if not isinstance(read, dict):
        raise typer.BadParameter(f"{file} does not hold a JSON object")
    path = ("definitions", session.asked_vhost) if session.asked_vhost else ("definitions",)
    counts = _counts(read)
    progress = Progress(not session.is_json)
    progress.tell(f"importing {', '.join(f'{count} {kind}' for kind, count in counts.items())} ...")
    try:
        session.api.post(*path, body=read)
    finally:
        progress.end()
    session.done(
        f"definitions imported: {', '.join(f'{count} {kind}' for kind, count in counts.items())}",
        file=str(file),
        **counts,
    )


def _counts(found: object) -> dict[str, object]:
    """How many there are of each kind."""
    table = found if isinstance(found, dict) else {}
    return {kind: len(rows) for kind, rows in table.items() if isinstance(rows, list) and rows}
