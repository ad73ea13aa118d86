"""Queues that the broker makes for itself to set messages apart: leases and stages.

They are durable queues like any other for the journal. They are told by an argument, and neither
policies nor times to live apply to them: what was set apart stays until it is asked for.
"""

from typing import Final

LEASE_PREFIX: Final = "amq.lease."
STAGE_PREFIX: Final = "amq.stage."
# Arguments that tell them; the value is whose it is.
LEASE_OF: Final = "x-lease-of"
STAGE_OF: Final = "x-stage-of"


def is_set_apart(name: str, arguments: dict[str, object]) -> bool:
    """Both: nobody but the broker can declare a queue with a reserved name."""
    if name.startswith(LEASE_PREFIX):
        return LEASE_OF in arguments
    return name.startswith(STAGE_PREFIX) and STAGE_OF in arguments
