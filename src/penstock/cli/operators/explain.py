"""`penstock explain`: where would a message go, and why?"""

from typing import Annotated

import typer

from penstock.cli.administering.arguments import table_of
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Row, found, shown, visible


@operator(has_vhost=True)
def command(
    session: OperatorSession,
    exchange: Annotated[str, typer.Argument(help="Exchange; '' is the default one.")],
    routing_key: Annotated[str, typer.Argument(help="Routing key.")] = "",
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="A header as KEY=VALUE.", metavar="KEY=VALUE"),
    ] = None,
    of_user: Annotated[
        str | None,
        typer.Option("--as", help="Also tell whether this user may publish it.", metavar="USER"),
    ] = None,
    payload_bytes: Annotated[int | None, typer.Option(help="Size of the body.")] = None,
    all_bindings: Annotated[
        bool, typer.Option("--all", help="Show bindings that do not match, too.")
    ] = False,
) -> None:
    """Explain where a message would go, exchange by exchange. Nothing is published.

    Examples:
      penstock explain events order.new
      penstock explain events order.new --all --as ann
      penstock explain matches '' -H region=eu

    """
    given: Row = {"exchange": exchange, "routing_key": routing_key}
    if header:
        given["headers"] = table_of(header)
    if of_user is not None:
        given["user"] = of_user
    if payload_bytes is not None:
        given["payload_bytes"] = payload_bytes
    answer = session.api.post("explain", session.vhost, body=given)
    if session.is_json or not isinstance(answer, dict):
        session.show_json(answer)
        return
    session.show_lines(_lines(answer, all_bindings))


def _rows(answer: Row, key: str) -> list[Row]:
    rows = answer.get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _lines(answer: Row, all_bindings: bool) -> list[str]:
    reason = answer.get("reason")
    lines = [f"{answer.get('outcome')}{f': {visible(str(reason))}' if reason else ''}"]
    for queue in _rows(answer, "queues"):
        note = f" ({shown(queue['note'])})" if queue.get("note") else ""
        lines.append(f"  queue {shown(queue.get('name'))}{note}")
    permission = found(answer, "permission", "reason")
    if permission is not None:
        allowed = "may" if found(answer, "permission", "allowed") else "may NOT"
        user = found(answer, "permission", "user")
        lines.append(f"user {shown(user)} {allowed} publish it: {shown(permission)}")
    for step in _rows(answer, "steps"):
        lines += _step_lines(step, all_bindings)
    return lines


def _step_lines(step: Row, all_bindings: bool) -> list[str]:
    name = shown(step.get("exchange") or "(default)")
    origin = shown(step.get("reached_by"))
    if step.get("reached_from"):
        origin += f" from {shown(step['reached_from'])}"
    lines = [f"exchange {name} ({shown(step.get('type'))}), reached by {origin}"]
    if step.get("note"):
        lines.append(f"    {shown(step['note'])}")
    hidden = 0
    for binding in _rows(step, "bindings"):
        if not binding.get("matched") and not all_bindings:
            hidden += 1
            continue
        sign = "+" if binding.get("matched") else "-"
        lines.append(
            f"  {sign} {binding.get('destination_type')} {shown(binding.get('destination'))}: "
            f"{shown(binding.get('reason'))}"
        )
    if hidden:
        lines.append(f"  ({hidden} bindings do not match; --all shows them)")
    if step.get("bindings_left_out"):
        lines.append(f"  ({step['bindings_left_out']} further bindings are not in the answer)")
    return lines
