"""Names that the shell completes: the broker is asked, and has a second to answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.administering.api_client import (
    ApiClient,
    ApiRefused,
    CannotConnect,
    WrongAddress,
)
from penstock.cli.administering.profiles import Profile, ProfileError, chosen_profile

if TYPE_CHECKING:
    from collections.abc import Callable

# Somebody waits at the keyboard.
_SECONDS: Final = 1.0
# A shell shows no more than a screen of them.
_NAMES_MAX: Final = 100


def names_of(kind: str, in_vhost: bool) -> Callable[[typer.Context, str], list[str]]:
    """What Typer calls to complete the name of an object of this kind."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        values = context.params

        def given(option: str) -> str:
            return str(values.get(option) or "")

        try:
            profile = chosen_profile(
                Profile(given("server"), given("user"), "", given("vhost"), given("ca")),
                given("profile"),
                os.environ,
            )
            path = (kind, profile.vhost or "/") if in_vhost else (kind,)
            rows = ApiClient(profile, _SECONDS).rows(*path, columns="name")
        except (ProfileError, WrongAddress, CannotConnect, ApiRefused):
            return []
        names = [str(row.get("name", "")) for row in rows]
        return [name for name in names if name.startswith(incomplete)][:_NAMES_MAX]

    return complete


QueueName = Annotated[
    str, typer.Argument(metavar="QUEUE", autocompletion=names_of("queues", in_vhost=True))
]
OptionalQueueName = Annotated[
    str | None,
    typer.Argument(
        help="Queue that gets them.",
        metavar="[QUEUE]",
        autocompletion=names_of("queues", in_vhost=True),
    ),
]
ExchangeName = Annotated[
    str, typer.Argument(metavar="EXCHANGE", autocompletion=names_of("exchanges", in_vhost=True))
]
UserName = Annotated[
    str, typer.Argument(metavar="USER", autocompletion=names_of("users", in_vhost=False))
]
VhostName = Annotated[
    str, typer.Argument(metavar="VHOST", autocompletion=names_of("vhosts", in_vhost=False))
]
OptionalConnectionName = Annotated[
    str | None,
    typer.Argument(
        help="Name of the connection, see `penstock connections`.",
        metavar="[CONNECTION]",
        autocompletion=names_of("connections", in_vhost=False),
    ),
]
