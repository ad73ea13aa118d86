"""How often what a client talks to has begun anew."""

from typing import Protocol


class Lives(Protocol):
    """A host, whose starts are counted, or a cluster, whose roots are. What was kept for links in one
    life is forgotten in the next.
    """

    life: int
