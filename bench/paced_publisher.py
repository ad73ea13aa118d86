"""A publisher at a given rate whose messages say when they left: `python -m bench.paced_publisher`.

A burst is stamped when it leaves. Only a burst that had to wait for the broker, because the write
before it blocked, is stamped when it ought to have left: waiting caused by the broker counts as
latency, waiting for a busy machine to wake this process does not.
"""

import ctypes
import select
import struct
import sys
import time
from pathlib import Path

from bench import frames
from bench.board import Board, Phase
from bench.confirms import ConfirmLedger
from bench.plan import LoadPlan, load_plan
from bench.session import Session

# Messages due are sent this often: short beside the latencies of interest, long beside a wake-up.
TICK_NANOSECONDS = 250_000

# prctl(PR_SET_TIMERSLACK): the kernel's default of 50 microseconds would blur the ticks.
PR_SET_TIMERSLACK = 29


def message_around_stamp(plan: LoadPlan) -> tuple[bytes, bytes]:
    """The bytes of one message before and after the eight of its time stamp."""
    lane = plan.publishers[0]
    whole = frames.publish(
        lane.exchange, lane.routing_keys[0], bytes(plan.size), persistent=plan.durable
    )
    body_start = len(whole) - 1 - plan.size
    return whole[:body_start], whole[body_start + 8 :]


def drive(plan: LoadPlan, board: Board, session: Session) -> None:
    before, after = message_around_stamp(plan)
    ledger = ConfirmLedger()
    link = session.socket
    published = 0
    while board.words[0] == Phase.CONNECT:
        time.sleep(0.001)
    start = time.monotonic_ns()
    ticks = 0
    blocked_until = 0
    while board.words[0] != Phase.STOP:
        ticks += 1
        planned = start + ticks * TICK_NANOSECONDS
        if (early := planned - time.monotonic_ns()) > 0:
            time.sleep(early / 1e9)
        due = int(ticks * TICK_NANOSECONDS * plan.rate / 1e9) - published
        if due > 0 and board.words[0] == Phase.RUN:
            now = time.monotonic_ns()
            stamp = planned if planned < blocked_until else now
            link.sendall((before + struct.pack(">Q", stamp) + after) * due)
            left = time.monotonic_ns()
            if left - now > TICK_NANOSECONDS:
                blocked_until = left
            published += due
            board.published[0] = published
        while select.select([link], [], [], 0)[0]:
            ledger.feed(link.recv(1 << 18))
            board.confirmed[0] = ledger.count


def main(plan_path: str, board_path: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    plan = load_plan(Path(plan_path))
    board = Board(Path(board_path), len(plan.publishers), len(plan.consumers))
    session = Session(plan.host, plan.port)
    session.call(frames.CONFIRM_SELECT, b"\0", frames.CONFIRM_SELECT_OK)
    board.publishers_ready()
    drive(plan, board, session)


if __name__ == "__main__":
    main(*sys.argv[1:])
