"""One call of an operator's command: who asks which broker, and how the answer is shown.

`operator` gives a command the options that all of them have (--server, --json, --watch, ...), opens
the session, and turns what goes wrong into a message, advice and an exit code.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, TextIO, get_type_hints

import typer

from penstock.cli.administering import exit_codes
from penstock.cli.administering.api_client import (
    FORBIDDEN,
    NOT_FOUND,
    UNAUTHORIZED,
    ApiClient,
    ApiRefused,
    CannotConnect,
    WrongAddress,
)
from penstock.cli.administering.profiles import Profile, ProfileError, chosen_profile
from penstock.cli.administering.tables import Row, fact_lines, table_lines, visible
from penstock.cli.examples import shows_examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.administering.tables import Column

# --watch without a number.
WATCH_SECONDS: Final = 2.0
# Faster than this shows nothing new, and costs the broker.
WATCH_SECONDS_MIN: Final = 0.2
_DEFAULT_VHOST: Final = "/"
_PANEL: Final = "Options of all operators' commands"
_CLEAR: Final = "\033[H\033[J"
_EXIT_CODES: Final = {
    UNAUTHORIZED: exit_codes.LOGIN_REFUSED,
    FORBIDDEN: exit_codes.NOT_ALLOWED,
    NOT_FOUND: exit_codes.DOES_NOT_EXIST,
}


def _shared_options(
    server: Annotated[
        str | None,
        typer.Option(
            help="HTTP address of the broker. Default: http://127.0.0.1:15672.",
            rich_help_panel=_PANEL,
            metavar="URL",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            help="User; the password comes from PENSTOCK_PASSWORD or the profile. Default: guest.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Profile in ~/.config/penstock/profile.toml.",
            rich_help_panel=_PANEL,
            metavar="NAME",
        ),
    ] = None,
    ca: Annotated[
        str | None,
        typer.Option(
            help="PEM file with the authority that signed the broker's certificate.",
            rich_help_panel=_PANEL,
            metavar="FILE",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON.", rich_help_panel=_PANEL)
    ] = False,
    watch: Annotated[
        float | None,
        typer.Option(
            help=f"Repeat every SECONDS ({WATCH_SECONDS:g} if no number is given).",
            rich_help_panel=_PANEL,
            metavar="[SECONDS]",
            min=WATCH_SECONDS_MIN,
        ),
    ] = None,
) -> None:
    """Its parameters are those of every operator's command."""


def _vhost_option(
    vhost: Annotated[
        str | None,
        typer.Option(
            "--vhost", "-V", help="Virtual host. Default: /; for lists: all.", metavar="NAME"
        ),
    ] = None,
) -> None:
    """Its parameter is that of commands about things in a virtual host."""


@dataclass(frozen=True, slots=True)
class Given:
    """The shared options as they were given; None where nothing was."""

    server: str | None
    user: str | None
    profile: str | None
    ca: str | None
    as_json: bool
    watch: float | None
    vhost: str | None

    def over(self, other: Given) -> Given:
        """Options may stand before and behind a verb: `queues --server X delete q`."""
        return Given(
            self.server or other.server,
            self.user or other.user,
            self.profile or other.profile,
            self.ca or other.ca,
            self.as_json or other.as_json,
            other.watch if self.watch is None else self.watch,
            self.vhost or other.vhost,
        )


class OperatorSession:
    """Held by one call of a command."""

    def __init__(self, given: Given, out: TextIO | None = None) -> None:
        """Raises `ProfileError` or `WrongAddress`."""
        self._out = out or sys.stdout
        self.is_json = given.as_json
        self.watch_seconds = given.watch
        profile = chosen_profile(
            Profile(given.server or "", given.user or "", "", given.vhost or "", given.ca or ""),
            given.profile or "",
            os.environ,
        )
        self.api = ApiClient(profile)
        # Empty for lists, which then show all virtual hosts.
        self.asked_vhost = profile.vhost
        self.vhost = profile.vhost or _DEFAULT_VHOST
        self.is_terminal = self._out.isatty()
        self.width = shutil.get_terminal_size().columns if self.is_terminal else 0
        self._is_bold = self.is_terminal and not os.environ.get("NO_COLOR")

    def listed(self, *path: str, **query: object) -> list[Row]:
        """A list of all virtual hosts, or of the one that was asked for."""
        if self.asked_vhost:
            path = (*path, self.asked_vhost)
        return self.api.rows(*path, **query)

    def vhosts(self) -> list[str]:
        """The virtual host that was asked for, or all that the user can see."""
        if self.asked_vhost:
            return [self.asked_vhost]
        return [str(row["name"]) for row in self.api.rows("vhosts", columns="name")]

    # Answers.

    def show_table(self, columns: Sequence[Column], read: Callable[[], list[Row]]) -> None:
        """Repeats it if --watch was given."""
        self.repeat(partial(self._table_once, columns, read))

    def show_row(
        self, read: Callable[[], Row], facts: Callable[[Row], Sequence[tuple[str, object]]]
    ) -> None:
        """One thing, fact by fact."""
        self.repeat(partial(self._row_once, read, facts))

    def show_json(self, value: object) -> None:
        self._out.write(json.dumps(value, indent=2) + "\n")

    def show_lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._out.write(f"{line}\n")

    def done(self, what: str, **facts: object) -> None:
        """A change was made. `what` is the sentence that a person reads."""
        if self.is_json:
            self.show_json({"done": what, **facts})
        else:
            self.show_lines([visible(what)])

    def repeat(self, show: Callable[[], None]) -> None:
        if self.watch_seconds is None:
            show()
            return
        try:
            while True:
                self._begin_round()
                try:
                    show()
                except CannotConnect as error:
                    # It may be restarting.
                    self.show_lines([f"{error}; trying again"])
                self._out.flush()
                # The broker closes connections that are idle.
                self.api.close()
                time.sleep(self.watch_seconds)
        except KeyboardInterrupt:
            pass

    def _begin_round(self) -> None:
        if self.is_json:
            return
        if self.is_terminal:
            self._out.write(_CLEAR)
        now = time.strftime("%H:%M:%S")
        self.show_lines([f"{now}  {self.api.server}  every {self.watch_seconds:g} s", ""])

    def _table_once(self, columns: Sequence[Column], read: Callable[[], list[Row]]) -> None:
        rows = read()
        if self.is_json:
            self.show_json(rows)
        elif not rows:
            self.show_lines(["(none)"])
        else:
            self.show_lines(table_lines(columns, rows, self.width, self._is_bold))

    def _row_once(
        self, read: Callable[[], Row], facts: Callable[[Row], Sequence[tuple[str, object]]]
    ) -> None:
        row = read()
        if self.is_json:
            self.show_json(row)
        else:
            self.show_lines(fact_lines(facts(row), self.width))


def operator(has_vhost: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a command of a function whose first parameter is the session."""
    return partial(_command_of, has_vhost=has_vhost)


def _command_of(function: Callable[..., None], has_vhost: bool) -> Callable[..., None]:
    shared = [*inspect.signature(_shared_options).parameters]
    if has_vhost:
        shared = [*inspect.signature(_vhost_option).parameters, *shared]

    def command(context: typer.Context, **values: object) -> None:
        given = _given({name: values.pop(name) for name in shared})
        if isinstance(context.obj, Given):
            given = given.over(context.obj)
        context.obj = given
        if context.invoked_subcommand is None:
            _run(function, given, values)

    _sign(command, function, has_vhost)
    return command


def _sign(command: Callable[..., None], function: Callable[..., None], has_vhost: bool) -> None:
    """Typer reads a command's options from its signature."""
    own = list(inspect.signature(function).parameters.values())[1:]
    hints = get_type_hints(function, include_extras=True)
    sources: list[Callable[..., None]] = [_shared_options]
    if has_vhost:
        sources.insert(0, _vhost_option)
    parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
    for source in sources:
        of_source = get_type_hints(source, include_extras=True)
        parameters += [
            parameter.replace(annotation=of_source[parameter.name])
            for parameter in inspect.signature(source).parameters.values()
        ]
    context = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    parameters = [
        context,
        *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters),
    ]
    command.__doc__ = function.__doc__
    command.__name__ = function.__name__
    shows_examples(command)
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


def _given(values: dict[str, object]) -> Given:
    values.setdefault("vhost", None)
    return Given(**values)  # type: ignore[arg-type]


def _run(function: Callable[..., None], given: Given, values: dict[str, object]) -> None:
    try:
        session = OperatorSession(given)
        try:
            function(session, **values)
        finally:
            session.api.close()
    except (ProfileError, WrongAddress) as error:
        fail(str(error), "", exit_codes.WRONG_USAGE, given.as_json)
    except CannotConnect as error:
        fail(str(error), error.what_to_do, exit_codes.CANNOT_CONNECT, given.as_json)
    except ApiRefused as error:
        code = _EXIT_CODES.get(error.status, exit_codes.REFUSED)
        fail(str(error), error.what_to_do, code, given.as_json)
    except BrokenPipeError:
        # `penstock queues | head`: nobody reads any more. Python would complain at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(reason: str, what_to_do: str, code: int, as_json: bool = False) -> NoReturn:
    if as_json:
        problem = {"error": reason, "what_to_do": what_to_do, "exit_code": code}
        sys.stderr.write(json.dumps(problem) + "\n")
    else:
        sys.stderr.write(f"penstock: {visible(reason)}\n")
        if what_to_do:
            sys.stderr.write(f"{visible(what_to_do)}\n")
    raise typer.Exit(code)
