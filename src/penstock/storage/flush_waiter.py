"""Who wants to hear that what it appended in a tick is safe.

Whoever flushes at the end of a tick asks every waiter for its `mark` as the flush is requested and
hands the marks back when the flush was heard.
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
