"""`penstock move`: move or copy messages to another queue, or to an exchange."""

import time
from typing import Annotated, Final

import typer

from penstock.cli.administering.completing import OptionalQueueName, QueueName
from penstock.cli.administering.exit_codes import REFUSED
from penstock.cli.administering.progress import Progress
from penstock.cli.administering.session import OperatorSession, fail, operator
from penstock.cli.administering.tables import Row

# How long one request waits, so that a person sees how far the move is.
_WAIT_MS: Final = 500
_RUNNING: Final = "running"
_DONE: Final = "done"


@operator(has_vhost=True)
def command(
    session: OperatorSession,
    source: QueueName,
    destination: OptionalQueueName = None,
    exchange: Annotated[
        str | None, typer.Option(help="Publish them to this exchange instead.")
    ] = None,
    routing_key: Annotated[
        str | None, typer.Option(help="With this routing key. Default: each its own.")
    ] = None,
    selector: Annotated[str | None, typer.Option(help="Only messages that match.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", help="At most so many.")] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Leave them where they are, too.")] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Do not wait; see `penstock queues moves QUEUE`.")
    ] = False,
) -> None:
    """Move messages to another queue. None is lost or doubled in between, even by a crash.

    Ctrl-C ends the waiting, not the move; `penstock queues cancel-move` does.

    Examples:
      penstock move jobs.dead jobs
      penstock move jobs.dead jobs --selector "attempts < 3" -n 100
      penstock move jobs archive --copy
      penstock move jobs --exchange events --routing-key retry

    """
    if (destination is None) == (exchange is None):
        raise typer.BadParameter("name either the destination queue, or --exchange NAME")
    given = {
        "destination": destination,
        "exchange": exchange,
        "routing_key": routing_key,
        "selector": selector,
        "count": count,
    }
    body: Row = {key: value for key, value in given.items() if value is not None}
    body.update(copy=copy, wait_ms=0 if background else _WAIT_MS)
    path = ("queues", session.vhost, source)
    move = _answer(session.api.post(*path, "move", body=body))
    if not background:
        move = _waited(session, path, move)
    _tell(session, move, copy)


def _answer(answer: object) -> Row:
    return answer if isinstance(answer, dict) else {}


def _waited(session: OperatorSession, path: tuple[str, ...], move: Row) -> Row:
    progress = Progress(not session.is_json)
    try:
        while move.get("state") == _RUNNING:
            progress.tell(f"{move.get('messages')} messages, {move.get('looked_at')} looked at ...")
            time.sleep(_WAIT_MS / 1000)
            move = session.api.row(*path, "moves", str(move["number"]))
    except KeyboardInterrupt:
        pass
    finally:
        progress.end()
    return move


def _tell(session: OperatorSession, move: Row, is_copy: bool) -> None:
    verb = "copied" if is_copy else "moved"
    state = move.get("state")
    if state == _RUNNING:
        session.done(f"move {move.get('number')} goes on; {move.get('messages')} {verb}", **move)
    elif state != _DONE:
        fail(
            f"{move.get('messages')} messages {verb}, then the move ended ({state}): "
            f"{move.get('reason')}",
            "The others are still in their queue.",
            REFUSED,
            session.is_json,
        )
    else:
        session.done(f"{move.get('messages')} messages {verb}", **move)
