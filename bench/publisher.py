"""The publishing process: `python -m bench.publisher PLAN BOARD`.

One thread for all publishing lanes. Frames are built before the measured part and sent in chunks
of many messages, so a message costs this process a fraction of a microsecond.
"""

import dataclasses
import itertools
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench import frames
from bench.board import Board, Phase
from bench.confirms import ConfirmLedger, PublishRefusedError
from bench.plan import (
    CHUNK_BYTES,
    CONFIRM_WINDOW,
    MANY_LANES,
    MANY_LANES_PAUSE_SECONDS,
    LoadPlan,
    PublisherLane,
    load_plan,
)
from bench.session import Session

# When no lane may publish, all look again after this long, instead of waking for every single
# confirm. At a million messages a second it is 500 of the messages in flight, so the bound limits
# the rate, never the pause.
PAUSE_SECONDS = 0.0005

# How many chunks fit into a bound at the least; one would make publisher and broker take turns.
CHUNKS_PER_BOUND = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """What one write sends, and how many deliveries each of the lane's consumers gets from it."""

    data: memoryview
    messages: int
    due: int


def messages_per_chunk(plan: LoadPlan, message_bytes: int) -> int:
    count = min(
        CHUNK_BYTES // message_bytes,
        plan.burst_max,
        plan.lane_in_flight_max // CHUNKS_PER_BOUND,
        CONFIRM_WINDOW // CHUNKS_PER_BOUND,
    )
    return max(1, count)


def build_chunks(plan: LoadPlan, lane: PublisherLane) -> list[Chunk]:
    """The chunks to send in turn, covering every routing key."""
    priorities = range(plan.priorities) if plan.priorities else [None]
    contents = [
        frames.content(plan.filler, persistent=plan.durable, priority=priority)
        for priority in priorities
    ]
    messages = [
        frames.publish_method(lane.exchange, routing_key) + content
        for routing_key in lane.routing_keys
        for content in contents
    ]
    count = messages_per_chunk(plan, len(messages[0]))
    turns = -(-len(messages) // count)
    endless = itertools.cycle(messages)
    return [
        Chunk(memoryview(b"".join(itertools.islice(endless, count))), count, count)
        for _ in range(turns)
    ]


class PublishingLane:
    """One connection. Held by the process's loop, which calls `step` and `heard`."""

    def __init__(self, plan: LoadPlan, index: int, board: Board) -> None:
        lane = plan.publishers[index]
        self.session = Session(plan.host, plan.port, authority=plan.authority)
        if plan.confirms:
            self.session.call(frames.CONFIRM_SELECT, b"\0", frames.CONFIRM_SELECT_OK)
        self.socket = self.session.socket
        self.socket.setblocking(False)
        self._chunks = self.chunks(plan, index)
        self._next = next(self._chunks)
        self._unsent = memoryview(b"")
        self._index = index
        self._board = board
        self._hearers = board.delivered[
            lane.consumer_first : lane.consumer_first + lane.consumer_count
        ]
        self._in_flight_max = plan.lane_in_flight_max
        self._confirms = plan.confirms
        self._ledger = ConfirmLedger()
        self._published = 0
        self._due = 0

    def chunks(self, plan: LoadPlan, index: int) -> Iterator[Chunk]:
        """Endless. A chunk's bytes may change as soon as the one after the next is asked for."""
        return itertools.cycle(build_chunks(plan, plan.publishers[index]))

    @property
    def sending(self) -> bool:
        return bool(self._unsent)

    def step(self) -> bool:
        """Sends the next chunk or the rest of the last; False when there is nothing it may do."""
        if not self._unsent:
            published = self._published + self._next.messages
            due = self._due + self._next.due
            if due - min(self._hearers) > self._in_flight_max:
                return False
            if self._confirms and published - self._ledger.count > CONFIRM_WINDOW:
                return False
            self._published = self._board.published[self._index] = published
            self._due = self._board.due[self._index] = due
            self._unsent = self._next.data
            self._next = next(self._chunks)
        return self.send()

    def send(self) -> bool:
        try:
            sent = self.socket.send(self._unsent)
        except BlockingIOError:
            return False
        self._unsent = self._unsent[sent:]
        return True

    def heard(self) -> None:
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            # A record of TLS that is not complete.
            return
        if not data:
            raise PublishRefusedError("the broker closed the connection of a publisher")
        self._ledger.feed(data)
        self._board.confirmed[self._index] = self._ledger.count


def drive(lanes: list[PublishingLane], board: Board) -> None:
    poll = select.epoll()
    by_descriptor = {lane.socket.fileno(): lane for lane in lanes}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    pause_seconds = MANY_LANES_PAUSE_SECONDS if len(lanes) > MANY_LANES else PAUSE_SECONDS
    while board.words[0] == Phase.CONNECT:
        time.sleep(PAUSE_SECONDS)
    while (phase := board.words[0]) != Phase.STOP:
        moved = False
        for lane in lanes:
            if phase == Phase.RUN:
                moved |= lane.step()
            elif lane.sending:
                moved |= lane.send()
        if not moved:
            time.sleep(pause_seconds)
        for descriptor, _ in poll.poll(0):
            by_descriptor[descriptor].heard()
    poll.close()


def publish(kind: type[PublishingLane], plan_path: str, board_path: str) -> None:
    plan = load_plan(Path(plan_path))
    board = Board(Path(board_path), len(plan.publishers), len(plan.consumers))
    lanes = [kind(plan, index, board) for index in range(len(plan.publishers))]
    board.publishers_ready()
    drive(lanes, board)


if __name__ == "__main__":
    publish(PublishingLane, *sys.argv[1:])
