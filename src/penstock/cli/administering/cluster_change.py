"""A change to a cluster that takes its time: waits for it and says how far it is."""

import sys
import time
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
        found = api.row("cluster").get("change")
    except CannotConnect:
        # It may be busy.
        return change
    return found if isinstance(found, dict) else {"state": "", "text": "the server was restarted"}
