"""`penstock users`: list, add and delete users, set passwords and tags."""

from typing import Annotated

import typer

from penstock.cli.administering.arguments import Confirmed, PasswordFile, confirm, password_from
from penstock.cli.administering.completing import UserName
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Row, column

_COLUMNS = (
    column("name", "name"),
    column("tags", "tags"),
    column("limits", "limits"),
    column("hashing", "hashing_algorithm"),
)

Tags = Annotated[
    str,
    typer.Option(
        help="Tags, with commas: administrator, monitoring, policymaker, management.",
        metavar="TAGS",
    ),
]
# What an export would show; nobody needs to see it in passing.
_HASH_KEY = "password_hash"


def list_all(session: OperatorSession) -> None:
    """List users; with a verb, change them.

    Examples:
      penstock users
      penstock users add ann --tags administrator
      penstock users add job --password-file secret.txt
      penstock users password ann
      penstock users tags ann monitoring,policymaker
      penstock users delete ann

    """

    def read() -> list[Row]:
        rows = session.api.rows("users")
        return [{key: row[key] for key in row if key != _HASH_KEY} for row in rows]

    session.show_table(_COLUMNS, read)


app = listing_group(list_all)


@app.command("add")
@operator()
def add(
    session: OperatorSession,
    name: str,
    tags: Tags = "",
    password_file: PasswordFile = None,
    no_password: Annotated[
        bool,
        typer.Option(
            "--no-password", help="The user cannot log in with a password (but with a certificate)."
        ),
    ] = False,
) -> None:
    """Add a user. The password is asked for, or read from a file or from standard input.

    A new user has no permissions: see `penstock permissions set`.

    Examples:
      penstock users add ann --tags administrator
      penstock users add job --password-file secret.txt
      pass show job | penstock users add job
      penstock users add device-17 --no-password

    """
    body: Row = {"tags": tags}
    if no_password:
        body["password_hash"] = ""
    else:
        body["password"] = password_from(password_file)
    session.api.put("users", name, body=body)
    session.done(f"user {name!r} added", user=name)


@app.command("password")
@operator()
def set_password(
    session: OperatorSession, name: UserName, password_file: PasswordFile = None
) -> None:
    """Set a user's password. It is asked for, or read from a file or from standard input.

    Examples:
      penstock users password ann
      penstock users password ann --password-file secret.txt

    """
    known = session.api.row("users", name)
    session.api.put(
        "users",
        name,
        body={"tags": known.get("tags", ""), "password": password_from(password_file)},
    )
    session.done(f"password of user {name!r} set", user=name)


@app.command("tags")
@operator()
def set_tags(
    session: OperatorSession,
    name: UserName,
    tags: Annotated[str, typer.Argument(help="The new tags, with commas; '' for none.")],
) -> None:
    """Replace a user's tags. The password stays.

    Example:
      penstock users tags ann monitoring,policymaker

    """
    known = session.api.row("users", name)
    body: Row = {"tags": tags, _HASH_KEY: known.get(_HASH_KEY, "")}
    if known.get("hashing_algorithm"):
        body["hashing_algorithm"] = known["hashing_algorithm"]
    session.api.put("users", name, body=body)
    session.done(f"tags of user {name!r} set", user=name)


@app.command("delete")
@operator()
def delete(session: OperatorSession, name: UserName, yes: Confirmed = False) -> None:
    """Delete a user with the permissions, and close the user's connections.

    Example:
      penstock users delete ann

    """
    confirm(f"Delete the user {name!r}?", yes)
    session.api.delete("users", name)
    session.done(f"user {name!r} deleted", user=name)
