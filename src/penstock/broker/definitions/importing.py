"""Imports definitions: what a document says becomes part of a broker's state, entirely or not at all.

`parsing` has made commands of the document, `rehearsal` says which of them are to be applied to this
state. This module applies them; it needs no file and no node.
"""

from penstock.broker.definitions.parsing import Step, VhostStep
from penstock.broker.state import BrokerState


def import_steps(state: BrokerState, steps: list[Step], now: int) -> None:
    """Apply the steps that a rehearsal on this state has returned."""
    for step in steps:
        if isinstance(step, VhostStep):
            state.vhost(step.vhost).apply(step.command, now)
        else:
            state.apply(step.command, now)
