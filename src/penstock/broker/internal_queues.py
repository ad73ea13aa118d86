"""Internal queues, which the broker declares for itself: leases and stages.

For the journal they are durable queues like any other. An argument marks them, and neither policies
nor times to live apply to them: what a lease or a stage holds stays until it is asked for.
"""

from typing import Final

LEASE_PREFIX: Final = "amq.lease."
STAGE_PREFIX: Final = "amq.stage."
# Arguments that mark them; the value is the name of the queue or sink they belong to.
LEASE_OF: Final = "x-lease-of"
STAGE_OF: Final = "x-stage-of"


def is_internal(name: str, arguments: dict[str, object]) -> bool:
    """Both: nobody but the broker can declare a queue with a reserved name."""
    if name.startswith(LEASE_PREFIX):
        return LEASE_OF in arguments
    return name.startswith(STAGE_PREFIX) and STAGE_OF in arguments
