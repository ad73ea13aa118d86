"""A consumer that reads the number of every message: `python -m bench.numbered_consumer PLAN BOARD`.

The numbers must come without gaps and in order, so a message that was lost, duplicated or reordered
in a backlog or a crash is identified, not only counted.
"""

import sys
from array import array

from bench.board import Board
from bench.consumer import ConsumingLane, MiscountedDeliveriesError, consume
from bench.numbers import read_numbers
from bench.plan import LoadPlan


class NumberedConsumingLane(ConsumingLane):
    """One connection. Held by the process's loop, or by whoever drains a queue."""

    def __init__(self, plan: LoadPlan, index: int, board: Board) -> None:
        super().__init__(plan, index, board)
        self._body = b""
        self._body_size = plan.size
        self._expected = 0

    def delivered(self, deliveries: memoryview) -> None:
        numbers = read_numbers(deliveries, self._size - 1 - self._body_size, self._size)
        following = self._expected + len(numbers)
        if numbers != array("Q", range(self._expected, following)):
            wrong = next(n for n, found in enumerate(numbers, self._expected) if n != found)
            found = numbers[wrong - self._expected]
            raise MiscountedDeliveriesError(f"message {found} came where {wrong} was due")
        self._expected = following


if __name__ == "__main__":
    consume(NumberedConsumingLane, *sys.argv[1:])
