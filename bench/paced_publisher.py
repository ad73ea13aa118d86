"""A publisher at a given rate, whatever the broker does: `python -m bench.paced_publisher`.

Open loop: the times at which messages are due are fixed before the run, a burst at every tick, and
every message carries the time at which it was due, not that at which it could be sent. A broker
(or a machine) that makes the publisher late is charged for it in every message that had to wait.

How late the bursts were handed to the kernel is left in a file, so that what the publisher's own
wake-ups add to the latencies can be separated from what the broker adds.
"""

import ctypes
import select
import sys
import time
from array import array
from pathlib import Path

from bench import frames
from bench.board import Board, Phase
from bench.confirms import ConfirmLedger, PublishRefusedError
from bench.numbers import NUMBER_BYTES
from bench.plan import LoadPlan, load_plan
from bench.session import Session

# Messages due are sent this often: short beside the latencies of interest, long beside a wake-up.
TICK_NANOSECONDS = 250_000

# prctl(PR_SET_TIMERSLACK): the kernel's default of 50 microseconds would blur the ticks.
PR_SET_TIMERSLACK = 29

# Bursts that are late are gathered up to this many messages.
WRITE_MESSAGES = 500

LATENESS = "lateness"

# Longest sleep, because the phase is only checked when awake.
WAIT_SECONDS = 0.01


class Schedule:
    """When how many messages are due. Held by the publisher; knows no clock."""

    def __init__(self, rate: float, start: int) -> None:
        self._rate = rate
        self._start = start
        self._tick = 0
        self.count = 0

    @property
    def next_due(self) -> int:
        return self._start + (self._tick + 1) * TICK_NANOSECONDS

    def take(self, now: int) -> list[tuple[int, int]]:
        """Bursts due by now and not taken before: the time each was due, and its messages.

        One that is far behind takes them a write's worth at a time, and reads confirms in between.
        """
        bursts = []
        enough = self.count + WRITE_MESSAGES
        while self.count < enough and (due := self.next_due) <= now:
            self._tick += 1
            count = int(self._tick * TICK_NANOSECONDS * self._rate / 1e9) - self.count
            if count:
                self.count += count
                bursts.append((due, count))
        return bursts


class PacedLane:
    """One connection. Held by the process's loop."""

    def __init__(self, plan: LoadPlan, board: Board) -> None:
        session = Session(plan.host, plan.port)
        session.call(frames.CONFIRM_SELECT, b"\0", frames.CONFIRM_SELECT_OK)
        self.socket = session.socket
        self.socket.setblocking(False)
        self.lateness = array("Q")
        self._board = board
        self._before, self._after = message_around_stamp(plan)
        self._ledger = ConfirmLedger()
        self._unsent = memoryview(b"")
        self._published = 0

    @property
    def blocked(self) -> bool:
        return bool(self._unsent)

    def publish(self, bursts: list[tuple[int, int]], now: int) -> None:
        data = b""
        for due, count in bursts:
            stamp = due.to_bytes(NUMBER_BYTES, sys.byteorder)
            data += (self._before + stamp + self._after) * count
            self._published += count
            self.lateness.append(now - due)
        self._unsent = memoryview(data)
        self._board.published[0] = self._board.due[0] = self._published
        self.send()

    def send(self) -> None:
        try:
            sent = self.socket.send(self._unsent)
        except BlockingIOError:
            return
        self._unsent = self._unsent[sent:]

    def heard(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            raise PublishRefusedError("the broker closed the connection of a publisher")
        self._ledger.feed(data)
        self._board.confirmed[0] = self._ledger.count


def message_around_stamp(plan: LoadPlan) -> tuple[bytes, bytes]:
    """The bytes of one message before and after those of its time stamp."""
    lane = plan.publishers[0]
    whole = frames.publish(
        lane.exchange, lane.routing_keys[0], bytes(plan.size), persistent=plan.durable
    )
    body_start = len(whole) - 1 - plan.size
    return whole[:body_start], whole[body_start + NUMBER_BYTES :]


def drive(lane: PacedLane, rate: float, board: Board) -> None:
    while board.words[0] == Phase.CONNECT:
        time.sleep(0.001)
    schedule = Schedule(rate, time.monotonic_ns())
    while (phase := board.words[0]) != Phase.STOP:
        wait = WAIT_SECONDS
        # While a write is stuck nothing more is built: what is due keeps its place in the schedule,
        # and its stamp.
        if phase == Phase.RUN and not lane.blocked:
            now = time.monotonic_ns()
            if bursts := schedule.take(now):
                lane.publish(bursts, now)
            wait = max(0, schedule.next_due - time.monotonic_ns()) / 1e9
        writers = [lane.socket] if lane.blocked else []
        readable, writable, _ = select.select([lane.socket], writers, [], min(wait, WAIT_SECONDS))
        if readable:
            lane.heard()
        if writable:
            lane.send()


def main(plan_path: str, board_path: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    plan = load_plan(Path(plan_path))
    board = Board(Path(board_path), len(plan.publishers), len(plan.consumers))
    lane = PacedLane(plan, board)
    board.publishers_ready()
    drive(lane, plan.rate, board)
    Path(board_path).with_name(LATENESS).write_bytes(lane.lateness.tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
