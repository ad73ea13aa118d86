"""How much may be ready in a queue, and what a full one does."""

from penstock.broker.arguments import Overflow, QueueArguments


class LengthLimit:
    """How many messages and octets may be ready in a queue, by its arguments and policy. Negative
    numbers are no limit.
    """

    def __init__(self, settings: QueueArguments) -> None:
        self._count: int = settings.max_length
        self._size: int = settings.max_length_bytes
        self.is_none: bool = self._count < 0 and self._size < 0
        # Whether the oldest are dropped for the newest; otherwise publishes are refused.
        self.drops_head: bool = settings.overflow is Overflow.DROP_HEAD

    def has_no_room(self, count: int, size: int, more: int) -> bool:
        """Whether one more message, with a body of so many octets, is too much."""
        return 0 <= self._count <= count or 0 <= self._size < size + more

    def is_exceeded(self, count: int, size: int) -> bool:
        return 0 <= self._count < count or 0 <= self._size < size
