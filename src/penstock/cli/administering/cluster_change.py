"""A change to a cluster that takes its time: waits for it and says how far it is."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.cli.administering import exit_codes
from penstock.cli.administering.api_client import ApiClient, CannotConnect
from penstock.cli.administering.session import OperatorSession, fail
from penstock.cli.administering.tables import Row

# How often it is looked at.
LOOK_SECONDS: Final = 0.5
_UNDER_WAY: Final = "under way"
_DONE: Final = "done"


def finish_change(session: OperatorSession, row: object, what: str) -> None:
    """Wait for a change that takes long, and say how far it is."""
    change = row if isinstance(row, dict) else {}
    told = ""
    while change.get("state") == _UNDER_WAY:
        if change.get("text") != told:
            told = str(change.get("text"))
            sys.stderr.write(f"{told}\n")
            sys.stderr.flush()
        time.sleep(LOOK_SECONDS)
        change = _look(session.api, change)
    if change.get("state") != _DONE:
        fail(str(change.get("text")), "", exit_codes.REFUSED, session.is_json)
    session.done(what, **change)


def _look(api: ApiClient, change: Row) -> Row:
    try:
        found = api.row("cluster")
    except CannotConnect:
        # It may be busy.
        return change
    # Another command may have begun since, which only an addition outlives.
    for row in (found.get("change"), found.get("addition")):
        if isinstance(row, dict) and _is_same(row, change):
            return row
    if isinstance(found.get("change"), dict):
        return {"state": "", "text": "another change was begun; `penstock cluster status` shows it"}
    return {"state": "", "text": "the server was restarted"}


def _is_same(row: Row, change: Row) -> bool:
    return row.get("command") == change.get("command") and row.get("name") == change.get("name")


@contextmanager
def add_goes_on(name: str) -> Iterator[None]:
    """Whoever ends the command may think that this ended the addition, too."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(
            f"\nadding {name!r} goes on: `penstock cluster status` shows how far it is, and "
            f"`penstock cluster remove {name}` cancels it\n"
        )
        raise
