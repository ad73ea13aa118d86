"""`penstock publish`: publish a message."""

import base64
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.administering.arguments import DEFAULT_EXCHANGE, table_of
from penstock.cli.administering.exit_codes import REFUSED
from penstock.cli.administering.session import OperatorSession, fail, operator
from penstock.cli.administering.tables import Row


@operator(has_vhost=True)
def command(
    session: OperatorSession,
    exchange: Annotated[str, typer.Argument(help="Exchange; '' is the default one.")],
    routing_key: Annotated[str, typer.Argument(help="Routing key, or the name of a queue.")],
    payload: Annotated[str | None, typer.Argument(help="The body.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="File with the body; - is standard input.", metavar="FILE")
    ] = None,
    prop: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "-p",
            help="A property as KEY=VALUE: delivery_mode=2, content_type=text/plain, ...",
            metavar="KEY=VALUE",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="A header as KEY=VALUE.", metavar="KEY=VALUE"),
    ] = None,
) -> None:
    """Publish a message and wait until it is safe. The exit code is 1 if no queue took it.

    Examples:
      penstock publish '' jobs 'hello'
      penstock publish events order.new '{"id": 7}' -p content_type=application/json -p delivery_mode=2
      penstock publish events order.new --file order.json -H region=eu

    """
    properties: Row = table_of(prop)
    if header:
        properties["headers"] = table_of(header)
    text, encoding = _payload(payload, file)
    body = {
        "properties": properties,
        "routing_key": routing_key,
        "payload": text,
        "payload_encoding": encoding,
    }
    answer = session.api.post(
        "exchanges", session.vhost, exchange or DEFAULT_EXCHANGE, "publish", body=body
    )
    if not isinstance(answer, dict) or not answer.get("routed"):
        fail(
            "the message was published and no queue took it",
            f"Ask why with: penstock explain {exchange!r} {routing_key!r}",
            REFUSED,
            session.is_json,
        )
    session.done("published", routed=True)


def _payload(payload: str | None, file: Path | None) -> tuple[str, str]:
    """The body and its encoding."""
    if payload is not None and file is not None:
        raise typer.BadParameter("the body is an argument or in a file, not both")
    if payload is not None:
        return payload, "string"
    if file is None and sys.stdin.isatty():
        raise typer.BadParameter("name the body, or a file with --file FILE")
    try:
        octets = sys.stdin.buffer.read() if file is None or str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"cannot read {file}: {error}") from error
    try:
        return octets.decode("utf-8"), "string"
    except UnicodeDecodeError:
        return base64.b64encode(octets).decode("ascii"), "base64"
