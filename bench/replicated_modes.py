"""The cases `replicated*`: what each loads a cluster with, and how much faster than RabbitMQ's it must be."""

import dataclasses
from typing import Final

REPLICATED: Final = "replicated"
PRIORITY: Final = "replicated-priority"
STREAM: Final = "replicated-stream"
CATCHING_UP: Final = "replicated-catching-up"

# Of queues with priorities; the messages have them in turn, so that no two in a row are alike.
PRIORITIES: Final = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Mode:
    """One case. Rates are those of RabbitMQ's cluster, by size of the body."""

    name: str
    rate_ratios_min: dict[int, float]
    # Whether CPU times have goals, too.
    has_cost_goals: bool = True
    # What RabbitMQ's three nodes have in place of our replicated queue.
    rabbitmq_queue_type: str = "quorum"
    # Whether one server without a cluster is measured as well.
    has_single: bool = True


MODES: Final = {
    mode.name: mode
    for mode in (
        Mode(REPLICATED, {100: 8.0, 1000: 5.0}),
        # RabbitMQ's quorum queue has no priorities in this version; it is loaded without them.
        Mode(PRIORITY, {100: 8.0, 1000: 5.0}),
        Mode(STREAM, {100: 5.0, 1000: 5.0}, rabbitmq_queue_type="stream"),
        # Here RabbitMQ's three nodes are in sync.
        Mode(CATCHING_UP, {100: 6.0}, has_cost_goals=False, has_single=False),
    )
}
