"""Random numbers as a node sees them: names of server-named queues, salts, jitter."""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Entropy(ABC):
    """Held by the node; the simulator's is seeded, so a seed fixes every name and every jitter."""

    @abstractmethod
    def octets(self, count: int) -> bytes:
        """`count` unpredictable octets."""
