"""The consuming process: `python -m bench.consumer PLAN BOARD`.

One thread for all consuming lanes. All deliveries of a lane have the same length, so they are
counted by bytes. That the count is right is checked on every read: the delivery tag of the last
whole delivery must equal it, since tags of a channel run 1, 2, 3 without gaps, and its body must
be the one that was published.
"""

import select
import struct
import sys
import time
from pathlib import Path

from bench import frames
from bench.board import Board, Phase
from bench.plan import (
    ACK_EVERY,
    MANY_LANES,
    MANY_LANES_PAUSE_SECONDS,
    PREFETCH,
    LoadPlan,
    load_plan,
)
from bench.session import Session

# One read. The kernel returns what has arrived, up to this; a larger buffer would only cost cache.
READ_BYTES = 1 << 20

# A consumer that empties its sockets waits this long for more to come: reading every small write
# of the broker at once would cost both of them too many system calls per message.
GATHER_SECONDS = 0.001
GATHER_BYTES = 65_536

WAIT_SECONDS = 0.01


class MiscountedDeliveriesError(Exception):
    """What arrived is not the gapless run of equal deliveries that counting by bytes relies on."""


def delivery_size(data: memoryview) -> int:
    """Length of the first delivery (method, header, body frame) or 0 while it is incomplete."""
    position = 0
    for _ in range(3):
        if len(data) - position < frames.FRAME_OVERHEAD:
            return 0
        (size,) = struct.unpack_from(">I", data, position + 3)
        position += size + frames.FRAME_OVERHEAD
    return position if position <= len(data) else 0


def delivery_tag(delivery: memoryview) -> int:
    kind, _, _, class_id, method_id = struct.unpack_from(">BHIHH", delivery)
    if (kind, (class_id, method_id)) != (frames.FRAME_METHOD, frames.BASIC_DELIVER):
        raise MiscountedDeliveriesError(f"not a delivery: {bytes(delivery[:200])!r}")
    (tag,) = struct.unpack_from(">Q", delivery, 12 + delivery[11])
    return int(tag)


class ConsumingLane:
    """One connection. Held by the process's loop, which calls `read` when there is something."""

    def __init__(self, plan: LoadPlan, index: int, board: Board) -> None:
        self.session = Session(plan.host, plan.port, authority=plan.authority)
        self.session.consume(
            plan.consumers[index],
            automatic_acks=plan.automatic_acks,
            prefetch=PREFETCH,
            arguments=plan.consume_arguments,
        )
        self.socket = self.session.socket
        self._index = index
        self._board = board
        self._manual_acks = not plan.automatic_acks
        # What every body must be; empty when it is not the same in all.
        self._body = plan.filler
        self._size = 0
        # A queue that is not empty may send its first deliveries along with the answer.
        self._tail = self.session.take_unread()
        self._count = 0
        self._acknowledged = 0

    def read(self, buffer: memoryview) -> int:
        """Reads what has arrived (the caller knows that something has); returns its length."""
        start = len(self._tail)
        buffer[:start] = self._tail
        received = self.socket.recv_into(buffer[start:])
        if not received:
            raise MiscountedDeliveriesError("the broker closed the connection of a consumer")
        self.take(buffer[: start + received])
        return received

    def begin(self, buffer: memoryview) -> None:
        """Before the first read: what came with the answer to basic.consume is taken."""
        size = len(self._tail)
        buffer[:size] = self._tail
        self.take(buffer[:size])

    def take(self, data: memoryview) -> None:
        whole, last, end = self.scan(data)
        self._tail = bytes(data[end:])
        if whole:
            self._count += whole
            self.check(data[last:end])
            self.delivered(data[:end])
            self._board.delivered[self._index] = self._count
            if self._manual_acks and self._count - self._acknowledged >= ACK_EVERY:
                self.acknowledge()

    def acknowledge(self) -> None:
        self._acknowledged = self._count
        self.socket.sendall(frames.acknowledge(self._count, multiple=True))

    def scan(self, data: memoryview) -> tuple[int, int, int]:
        """Whole deliveries in `data`, where the last of them begins and where it ends."""
        self._size = self._size or delivery_size(data)
        whole = len(data) // self._size if self._size else 0
        end = whole * self._size
        return whole, end - self._size, end

    def check(self, last: memoryview) -> None:
        tag = delivery_tag(last)
        if tag != self._count:
            raise MiscountedDeliveriesError(f"counted {self._count} deliveries, the tag says {tag}")
        if self._body and last[-1 - len(self._body) : -1] != self._body:
            raise MiscountedDeliveriesError(
                f"delivery {tag} does not have the body that was published"
            )

    def delivered(self, deliveries: memoryview) -> None:
        """For lanes that examine deliveries; this one only counts."""


def drive(lanes: list[ConsumingLane], board: Board, gather_seconds: float) -> None:
    poll = select.epoll()
    by_descriptor = {lane.socket.fileno(): lane for lane in lanes}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    buffer = memoryview(bytearray(READ_BYTES))
    for lane in lanes:
        lane.begin(buffer)
    while board.words[0] != Phase.STOP:
        received = 0
        for descriptor, _ in poll.poll(WAIT_SECONDS):
            received += by_descriptor[descriptor].read(buffer)
        if gather_seconds and received < GATHER_BYTES:
            time.sleep(gather_seconds)
    poll.close()


def consume(kind: type[ConsumingLane], plan_path: str, board_path: str) -> None:
    plan = load_plan(Path(plan_path))
    board = Board(Path(board_path), len(plan.publishers), len(plan.consumers))
    lanes = [kind(plan, index, board) for index in range(len(plan.consumers))]
    board.consumers_ready()
    gather_seconds = MANY_LANES_PAUSE_SECONDS if len(lanes) > MANY_LANES else GATHER_SECONDS
    drive(lanes, board, gather_seconds)


if __name__ == "__main__":
    consume(ConsumingLane, *sys.argv[1:])
