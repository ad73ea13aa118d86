"""A consumer that reads the time stamp of every message: `python -m bench.timing_consumer`.

Leaves the latencies, sorted, in a file beside the board when it is told to stop.
"""

import struct
import sys
import time
from array import array
from pathlib import Path

from bench.board import Board
from bench.consumer import ConsumingLane, drive
from bench.plan import LoadPlan, load_plan

# What leaves in this first part of a run is not counted: caches fill, buffers find their size.
WARM_UP_NANOSECONDS = 700_000_000


class TimingLane(ConsumingLane):
    """Looks into every delivery; held by the consuming process's loop."""

    def __init__(self, plan: LoadPlan, index: int, board: Board) -> None:
        super().__init__(plan, index, board)
        self._body = b""
        self.latencies = array("q")
        self._body_size = plan.size
        self._first_stamp = 0

    def delivered(self, deliveries: memoryview) -> None:
        now = time.monotonic_ns()
        before = self._size - 1 - self._body_size
        stamp_of = struct.Struct(f">{before}xQ{self._size - before - 8}x")
        if not self._first_stamp:
            (self._first_stamp,) = stamp_of.unpack_from(deliveries)
        counted_from = self._first_stamp + WARM_UP_NANOSECONDS
        self.latencies.extend(
            now - stamp for (stamp,) in stamp_of.iter_unpack(deliveries) if stamp >= counted_from
        )


def main(plan_path: str, board_path: str) -> None:
    plan = load_plan(Path(plan_path))
    board = Board(Path(board_path), len(plan.publishers), len(plan.consumers))
    lane = TimingLane(plan, 0, board)
    board.consumers_ready()
    # No gathering of small reads here: that pause would be measured as the broker's.
    drive([lane], board, gather_seconds=0)
    Path(board_path).with_name("latencies").write_bytes(
        array("q", sorted(lane.latencies)).tobytes()
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
