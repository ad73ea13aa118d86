"""`penstock peek`: look at messages without touching them."""

from enum import Enum
from typing import Annotated

import typer

from penstock.cli.administering.completing import QueueName
from penstock.cli.administering.messages import message_lines
from penstock.cli.administering.session import OperatorSession, operator


class ShownBody(Enum):
    TEXT = "text"
    JSON = "json"
    BASE64 = "base64"
    NONE = "none"


@operator(has_vhost=True)
def command(
    session: OperatorSession,
    queue: QueueName,
    count: Annotated[int, typer.Option("--count", "-n", help="Messages.", min=1, max=1000)] = 10,
    offset: Annotated[
        str, typer.Option(help="Where to begin; the answer before says where it ended.")
    ] = "0",
    selector: Annotated[
        str | None,
        typer.Option(help="Only messages that match, as region = 'eu' AND amount > 10."),
    ] = None,
    unacked: Annotated[
        bool, typer.Option("--unacked", help="Those that consumers hold, instead.")
    ] = False,
    body: Annotated[ShownBody, typer.Option(help="How bodies are shown.")] = ShownBody.TEXT,
    body_bytes: Annotated[int | None, typer.Option(help="At most so much of a body.")] = None,
) -> None:
    """Look at messages of a queue. Order, redelivered flags and expiry stay as they are.

    Examples:
      penstock peek jobs
      penstock peek jobs -n 100 --selector "region = 'eu'" --json
      penstock peek jobs --unacked
      penstock peek events --offset 4096 --body json

    """

    def show() -> None:
        answer = session.api.row(
            "queues",
            session.vhost,
            queue,
            "peek",
            count=count,
            offset=offset,
            selector=selector,
            state="unacked" if unacked else None,
            body=body.value,
            body_bytes=body_bytes,
        )
        if session.is_json:
            session.show_json(answer)
            return
        messages = answer.get("messages")
        for row in messages if isinstance(messages, list) else []:
            session.show_lines(message_lines(row, session.width))
        if not messages:
            session.show_lines(["(no messages)"])
        if not answer.get("end"):
            session.show_lines([f"(more: --offset {answer.get('next')})"])

    session.repeat(show)
