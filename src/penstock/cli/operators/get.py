"""`penstock get`: take messages from a queue."""

from typing import Annotated

import typer

from penstock.cli.administering.completing import QueueName
from penstock.cli.administering.messages import message_lines
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Row

_REMOVES = "ack_requeue_false"
_REQUEUES = "ack_requeue_true"
_REJECTS = "reject_requeue_false"


@operator(has_vhost=True)
def command(
    session: OperatorSession,
    queue: QueueName,
    count: Annotated[int, typer.Option("--count", "-n", help="Messages.", min=1, max=1000)] = 1,
    requeue: Annotated[
        bool, typer.Option("--requeue", help="Put them back, flagged as redelivered.")
    ] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="Reject them: they are dead-lettered or dropped.")
    ] = False,
    base64: Annotated[bool, typer.Option("--base64", help="All bodies as base64.")] = False,
) -> None:
    """Take messages out of a queue. `penstock peek` only looks at them.

    Examples:
      penstock get jobs
      penstock get jobs -n 10 --json
      penstock get jobs --reject

    """
    if requeue and reject:
        raise typer.BadParameter("choose one of --requeue and --reject")
    body: Row = {
        "count": count,
        "ackmode": _REQUEUES if requeue else _REJECTS if reject else _REMOVES,
        "encoding": "base64" if base64 else "auto",
    }
    found = session.api.post("queues", session.vhost, queue, "get", body=body)
    if session.is_json:
        session.show_json(found)
        return
    rows = found if isinstance(found, list) else []
    for row in rows:
        session.show_lines(message_lines(row, 0))
    if not rows:
        session.show_lines(["(no messages)"])
