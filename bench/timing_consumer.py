"""A consumer that reads the time stamp of every message: `python -m bench.timing_consumer`.

Leaves two files beside the board when it is told to stop: the stamps in order of arrival, and for
every read how many messages came with it and when. Figures are computed afterwards, so that the
measurement itself costs as little as possible.
"""

import sys
import time
from array import array
from pathlib import Path

from bench.board import Board
from bench.consumer import ConsumingLane, drive
from bench.numbers import read_numbers
from bench.plan import LoadPlan, load_plan

STAMPS = "stamps"
READS = "reads"


class TimingLane(ConsumingLane):
    """Looks into every delivery; held by the consuming process's loop."""

    def __init__(self, plan: LoadPlan, index: int, board: Board) -> None:
        super().__init__(plan, index, board)
        self._body = b""
        self._body_size = plan.size
        self.stamps = array("Q")
        self.reads = array("Q")

    def delivered(self, deliveries: memoryview) -> None:
        now = time.monotonic_ns()
        stamps = read_numbers(deliveries, self._size - 1 - self._body_size, self._size)
        self.stamps.extend(stamps)
        self.reads.extend((len(stamps), now))


def main(plan_path: str, board_path: str) -> None:
    plan = load_plan(Path(plan_path))
    board = Board(Path(board_path), len(plan.publishers), len(plan.consumers))
    lane = TimingLane(plan, 0, board)
    board.consumers_ready()
    # No gathering of small reads here: that pause would be measured as the broker's.
    drive([lane], board, gather_seconds=0)
    folder = Path(board_path).parent
    (folder / STAMPS).write_bytes(lane.stamps.tobytes())
    (folder / READS).write_bytes(lane.reads.tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
