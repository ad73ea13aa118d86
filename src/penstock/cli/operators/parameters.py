"""`penstock parameters`: runtime parameters, of components and of the whole broker."""

from typing import Annotated

import typer

from penstock.cli.administering.arguments import value_of
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import column

_COLUMNS = (
    column("component", "component"),
    column("name", "name"),
    column("vhost", "vhost"),
    column("value", "value"),
)
_GLOBAL_COLUMNS = (column("name", "name"), column("value", "value"))

Value = Annotated[str, typer.Argument(help="JSON, or else a string.")]


def list_all(
    session: OperatorSession,
    component: Annotated[
        str | None, typer.Option(help="Only those of this component.", metavar="NAME")
    ] = None,
    is_global: Annotated[
        bool, typer.Option("--global", help="Those of the whole broker instead.")
    ] = False,
) -> None:
    """List parameters; with a verb, change them.

    Examples:
      penstock parameters
      penstock parameters set shovel nightly '{"src-queue": "a"}'
      penstock parameters clear shovel nightly
      penstock parameters --global
      penstock parameters set-global motd '"hello"'

    """
    if is_global:
        session.show_table(_GLOBAL_COLUMNS, lambda: session.api.rows("global-parameters"))
    elif component is not None:
        session.show_table(_COLUMNS, lambda: session.listed("parameters", component))
    else:
        session.show_table(
            _COLUMNS,
            lambda: [
                row
                for row in session.api.rows("parameters")
                if session.asked_vhost in {"", row.get("vhost")}
            ],
        )


app = listing_group(list_all, has_vhost=True)


@app.command("set")
@operator(has_vhost=True)
def set_parameter(session: OperatorSession, component: str, name: str, value: Value) -> None:
    """Set a parameter of a component in a virtual host.

    Example:
      penstock parameters set shovel nightly '{"src-queue": "a"}'

    """
    session.api.put("parameters", component, session.vhost, name, body={"value": value_of(value)})
    session.done(f"parameter {name!r} of {component!r} set", component=component, name=name)


@app.command("clear")
@operator(has_vhost=True)
def clear(session: OperatorSession, component: str, name: str) -> None:
    """Clear a parameter of a component.

    Example:
      penstock parameters clear shovel nightly

    """
    session.api.delete("parameters", component, session.vhost, name)
    session.done(f"parameter {name!r} of {component!r} cleared", component=component, name=name)


@app.command("set-global")
@operator()
def set_global(session: OperatorSession, name: str, value: Value) -> None:
    """Set a parameter of the whole broker.

    Example:
      penstock parameters set-global motd '"hello"'

    """
    session.api.put("global-parameters", name, body={"value": value_of(value)})
    session.done(f"global parameter {name!r} set", name=name)


@app.command("clear-global")
@operator()
def clear_global(session: OperatorSession, name: str) -> None:
    """Clear a parameter of the whole broker.

    Example:
      penstock parameters clear-global motd

    """
    session.api.delete("global-parameters", name)
    session.done(f"global parameter {name!r} cleared", name=name)
