"""Where the operations of an epoch end in the journal of a backup, until they are committed."""

from collections import deque


class OperationEnds:
    """Held by the replica store. Beyond so many, one of them stands for the last ones together, which
    only delays what waits for them.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max: int = count_max
        self._epoch: int = 0
        # k, and the journal's position behind it.
        self._ends: deque[tuple[int, int]] = deque()

    def note(self, epoch: int, k: int, position: int) -> None:
        """The state contains the stream of an epoch up to operation k, and the journal says so up to
        this position.
        """
        if epoch != self._epoch:
            self._ends.clear()
            self._epoch = epoch
        if len(self._ends) == self._count_max:
            self._ends.pop()
        self._ends.append((k, position))

    def committed(self, epoch: int, k: int, durable: int) -> int:
        """The position up to which everything is committed, if operation k of an epoch is, and durable,
        if the journal is up to a position; 0 for nothing that is known.
        """
        ends = self._ends
        if epoch != self._epoch or not ends:
            return 0
        while len(ends) > 1 and ends[1][0] <= k and ends[1][1] <= durable:
            ends.popleft()
        end_k, position = ends[0]
        return position if end_k <= k and position <= durable else 0
