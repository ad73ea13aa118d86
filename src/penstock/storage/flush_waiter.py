"""The interface for being notified when what was appended in a tick is durable.

At the end of a tick every waiter is asked for its `mark` when the flush is requested, and gets the
mark back when the flush is done.
"""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class FlushWaiter(ABC):
    @abstractmethod
    def mark(self) -> int:
        """How far it has appended; asked when the flush is requested."""

    @abstractmethod
    def became_durable(self, mark: int, now: int) -> None:
        """Everything up to the mark survives a power loss."""
