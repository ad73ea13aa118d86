"""The publishing process over AMQP 1.0: `python -m bench.amqp10_publisher PLAN BOARD`.

Transfers are unsettled, at most `UNSETTLED_MAX` of them. A chunk is 256 transfers of one length,
built once; for each write only the upper octets of delivery ids and tags are set, one slice each.
"""

import struct
import sys

from bench import amqp10_frames as f
from bench.amqp10_session import Attached
from bench.board import Board
from bench.confirms import PublishRefusedError
from bench.plan import LoadPlan
from bench.publisher import PublishingLane, publish

# The goal's unsettled window of 1000. Several chunks fit, so that publisher and broker work at the
# same time.
UNSETTLED_MAX = 1_000
CHUNK = 128
_HEAD = struct.Struct(">IBBH")


def transfer(body: bytes) -> bytes:
    fields = [f.uint(0), f.uint(0), b"\xa0\x04" + bytes(4), f.uint(0), f.FALSE]
    return f.frame(f.AMQP, f.composite(f.TRANSFER, *fields), f.message(body))


class TransferLane(PublishingLane):
    """One connection, one session, one sending link."""

    def __init__(self, plan: LoadPlan, index: int, board: Board) -> None:
        lane = plan.publishers[index]
        self._link = Attached(plan.host, plan.port, lane.routing_keys[0], is_receiver=False)
        self.socket = self._link.socket
        self.socket.setblocking(False)
        self._index = index
        self._board = board
        self._hearers = board.delivered[
            lane.consumer_first : lane.consumer_first + lane.consumer_count
        ]
        self._in_flight_max = plan.lane_in_flight_max
        self._unsent = memoryview(b"")
        one = transfer(plan.filler)
        self._size = len(one)
        self._pattern = bytearray(one * CHUNK)
        # Behind frame head, descriptor, list head and handle; the tag behind the id.
        self._id_at = 8 + 3 + 9 + 5 + 1
        self._tag_at = self._id_at + 4 + 2
        self._published = 0
        self._settled = 0
        self._limit = 0
        self._window_end = self._link.remote_window
        self._tail = b""
        self._hear(self._link.take_unread())

    @property
    def sending(self) -> bool:
        return bool(self._unsent)

    def step(self) -> bool:
        if not self._unsent:
            published = self._published + CHUNK
            if published > min(self._limit, self._window_end, self._settled + UNSETTLED_MAX):
                return False
            if published - min(self._hearers) > self._in_flight_max:
                return False
            self._number(self._published)
            self._published = self._board.published[self._index] = published
            self._board.due[self._index] = published
            self._unsent = memoryview(bytes(self._pattern))
        return self.send()

    def _number(self, first: int) -> None:
        """Ids and tags count on from here; a chunk never crosses a multiple of 256."""
        upper = struct.pack(">I", first)
        low = bytes(range(upper[3], upper[3] + CHUNK))
        for start in (self._id_at, self._tag_at):
            for octet in range(3):
                self._pattern[start + octet :: self._size] = upper[octet : octet + 1] * CHUNK
            self._pattern[start + 3 :: self._size] = low

    def heard(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            raise PublishRefusedError("the broker closed the connection of a publisher")
        self._hear(data)

    def _hear(self, data: bytes) -> None:
        data = self._tail + data
        at = 0
        while len(data) - at >= 8:
            (size,) = struct.unpack_from(">I", data, at)
            if len(data) - at < size:
                break
            if size > 8:
                self._take(f.Performative(data[at + 8 : at + size]))
            at += size
        self._tail = data[at:]

    def _take(self, heard: f.Performative) -> None:
        if heard.code == f.DISPOSITION:
            first = heard.number(1)
            last = first if heard[2] is None else heard.number(2)
            if not heard[3] or heard[4] != (0x24, []):
                raise PublishRefusedError(f"{first} to {last} were not accepted: {heard[4]!r}")
            self._settled += last - first + 1
            self._board.confirmed[self._index] = self._settled
        elif heard.code == f.FLOW:
            if heard[0] is not None:
                self._window_end = heard.number(0) + heard.number(1)
            if heard[6] is not None:
                counted = 0 if heard[5] is None else heard.number(5)
                self._limit = counted + heard.number(6)
        else:
            raise PublishRefusedError(f"the broker says {heard.code:#x} to a publisher")


if __name__ == "__main__":
    publish(TransferLane, *sys.argv[1:])
