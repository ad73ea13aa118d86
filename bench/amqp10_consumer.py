"""The consuming process over AMQP 1.0: `python -m bench.amqp10_consumer PLAN BOARD`.

Deliveries come unsettled and are settled by ranges. Every frame is checked: its length, that it is
a transfer, and for the last of each read that its body is the published one.
"""

import struct
import sys

from bench import amqp10_frames as f
from bench.amqp10_session import WINDOW, Attached
from bench.board import Board
from bench.consumer import ConsumingLane, MiscountedDeliveriesError, consume
from bench.plan import LoadPlan

CREDIT = 2_000
SETTLE_EVERY = 250
_SIZE = struct.Struct(">I")
_IS_TRANSFER = b"\x00\x53\x14"


class TransferConsumingLane(ConsumingLane):
    """One connection, one session, one receiving link."""

    def __init__(self, plan: LoadPlan, index: int, board: Board) -> None:
        self._link = Attached(plan.host, plan.port, plan.consumers[index][0], is_receiver=True)
        self.socket = self._link.socket
        self._index = index
        self._board = board
        self._manual_acks = True
        self._body = plan.filler
        self._tail = self._link.take_unread()
        self._count = 0
        self._settled = 0
        self._give_credit()

    def take(self, data: memoryview) -> None:
        at = 0
        end = len(data)
        last = -1
        count = 0
        while end - at >= 8:
            size = _SIZE.unpack_from(data, at)[0]
            if at + size > end:
                break
            if data[at + 8 : at + 11] == _IS_TRANSFER:
                count += 1
                last = at
            elif size > 8:
                self._other(bytes(data[at + 8 : at + size]))
            at += size
        self._tail = bytes(data[at:])
        if count:
            size = _SIZE.unpack_from(data, last)[0]
            self.check(data[last : last + size])
            self._count += count
            self._board.delivered[self._index] = self._count
            if self._count - self._settled >= SETTLE_EVERY:
                self.acknowledge()

    def check(self, last: memoryview) -> None:
        if not bytes(last).endswith(self._body):
            raise MiscountedDeliveriesError("a delivery does not have the body that was published")

    def _other(self, body: bytes) -> None:
        heard = f.Performative(body)
        if heard.code != f.FLOW:
            raise MiscountedDeliveriesError(f"the broker says {body[:200]!r} to a consumer")

    def acknowledge(self) -> None:
        """Settle everything up to here, and give credit for as many."""
        last = f.uint(self._count - 1)
        fields = (f.TRUE, f.uint(self._settled), last, f.TRUE, f.ACCEPTED)
        self._settled = self._count
        self.socket.sendall(f.frame(f.AMQP, f.composite(f.DISPOSITION, *fields)))
        self._give_credit()

    def _give_credit(self) -> None:
        count = f.uint(self._count)
        window = f.uint(WINDOW)
        fields = (count, window, f.uint(0), window, f.uint(0), count, f.uint(CREDIT))
        self.socket.sendall(f.frame(f.AMQP, f.composite(f.FLOW, *fields)))


if __name__ == "__main__":
    consume(TransferConsumingLane, *sys.argv[1:])
