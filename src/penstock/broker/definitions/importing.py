"""Imports definitions: what a document says becomes part of a broker's state, entirely or not at all.

`parsing` has made commands of the document, `rehearsal` says which of them are to be applied to this
state. This module applies them; it needs no file and no node.
"""

from penstock.broker.definitions.parsing import Definitions, VhostStep
from penstock.broker.definitions.rehearsal import rehearse
from penstock.broker.state import BrokerState


def import_definitions(state: BrokerState, definitions: Definitions, now: int) -> int:
    """Apply all of it, or raise `DefinitionsRefused` with nothing changed. Returns how many commands
    were applied; the warnings of the definitions may have become more.
    """
    steps = rehearse(definitions, state, now)
    for step in steps:
        if isinstance(step, VhostStep):
            state.vhost(step.vhost).apply(step.command, now)
        else:
            state.apply(step.command, now)
    return len(steps)
