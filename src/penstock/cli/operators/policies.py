"""`penstock policies`: list, set and clear policies, the operators' too."""

from typing import Annotated

import typer

from penstock.cli.administering.arguments import object_or_pairs
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import column, number

_COLUMNS = (
    column("name", "name"),
    column("pattern", "pattern"),
    column("applies to", "apply-to"),
    number("priority", "priority"),
    column("definition", "definition"),
    column("vhost", "vhost"),
)

Operator = Annotated[
    bool, typer.Option("--operator", help="An operator policy, which bounds those of users.")
]


def _kind(is_operator: bool) -> str:
    return "operator-policies" if is_operator else "policies"


def list_all(session: OperatorSession, is_operator: Operator = False) -> None:
    """List policies; with a verb, change them.

    Examples:
      penstock policies
      penstock policies set short '^tmp-' max-length=1000 message-ttl=60000
      penstock policies set bound '.*' '{"max-length": 100000}' --operator
      penstock policies clear short

    """
    session.show_table(_COLUMNS, lambda: session.listed(_kind(is_operator)))


app = listing_group(list_all, has_vhost=True)


@app.command("set")
@operator(has_vhost=True)
def set_policy(
    session: OperatorSession,
    name: str,
    pattern: Annotated[str, typer.Argument(help="Regular expression for names.")],
    definition: Annotated[
        list[str], typer.Argument(help="KEY=VALUE..., or one JSON object.", metavar="DEFINITION")
    ],
    apply_to: Annotated[
        str | None,
        typer.Option(help="queues, exchanges or all; classic_queues, ... Default: all."),
    ] = None,
    priority: Annotated[int, typer.Option(help="The highest that matches applies.")] = 0,
    is_operator: Operator = False,
) -> None:
    """Set a policy; one of the same name is replaced.

    Examples:
      penstock policies set short '^tmp-' max-length=1000 message-ttl=60000
      penstock policies set dead '.*' dead-letter-exchange=dead --apply-to queues
      penstock policies set bound '.*' '{"max-length": 100000}' --operator

    """
    body = {
        "pattern": pattern,
        "definition": object_or_pairs(definition),
        "priority": priority,
        "apply-to": apply_to or ("queues" if is_operator else "all"),
    }
    session.api.put(_kind(is_operator), session.vhost, name, body=body)
    session.done(f"policy {name!r} set in {session.vhost!r}", policy=name, vhost=session.vhost)


@app.command("clear")
@operator(has_vhost=True)
def clear(session: OperatorSession, name: str, is_operator: Operator = False) -> None:
    """Clear a policy.

    Examples:
      penstock policies clear short
      penstock policies clear bound --operator

    """
    session.api.delete(_kind(is_operator), session.vhost, name)
    session.done(f"policy {name!r} cleared", policy=name, vhost=session.vhost)
