"""The consuming process of mixed traffic: `python -m bench.mixed_consumer PLAN BOARD`.

Deliveries differ in length, so they are counted by walking through their frames. Of the last one
of every read, body, queue and message-id are compared with what was published.
"""

import struct
import sys

from bench import frames
from bench.board import Board
from bench.consumer import ConsumingLane, MiscountedDeliveriesError, consume, delivery_tag
from bench.mixed import build_pool
from bench.plan import LoadPlan

# Type and channel come before a frame's size.
SIZE_OFFSET = 3
size_at = struct.Struct(">I").unpack_from

INDEX_DIGITS = 8


def walk(data: memoryview) -> tuple[int, int, int]:
    """Whole deliveries in `data`, where the last of them begins and where it ends.

    A delivery here is three frames: no body is empty, and none is longer than a frame may be.
    """
    count = last = end = 0
    # No frame is looked for where not even its size can be.
    limit = len(data) - SIZE_OFFSET - 4
    while end <= limit:
        header = end + frames.FRAME_OVERHEAD + size_at(data, end + SIZE_OFFSET)[0]
        if header > limit:
            break
        body = header + frames.FRAME_OVERHEAD + size_at(data, header + SIZE_OFFSET)[0]
        if body > limit:
            break
        after = body + frames.FRAME_OVERHEAD + size_at(data, body + SIZE_OFFSET)[0]
        if after > len(data):
            break
        last, end = end, after
        count += 1
    return count, last, end


def message_id(header: bytes) -> str:
    """Of a content header as the pool has it: a content type, perhaps headers, a delivery mode."""
    (flags,) = struct.unpack_from(">H", header, 12)
    at = 14
    at += 1 + header[at]
    if flags & frames.PROPERTY_HEADERS:
        at += 4 + int(size_at(header, at)[0])
    at += 1
    return header[at + 1 : at + 1 + header[at]].decode()


class MixedConsumingLane(ConsumingLane):
    """One connection that consumes a whole group. Held by the process's loop."""

    def __init__(self, plan: LoadPlan, index: int, board: Board) -> None:
        self._pool = build_pool(plan, index)
        self._queues = plan.consumers[index]
        super().__init__(plan, index, board)

    def scan(self, data: memoryview) -> tuple[int, int, int]:
        return walk(data)

    def check(self, last: memoryview) -> None:
        tag = delivery_tag(last)
        if tag != self._count:
            raise MiscountedDeliveriesError(f"counted {self._count} deliveries, the tag says {tag}")
        method_end = frames.FRAME_OVERHEAD + size_at(last, SIZE_OFFSET)[0]
        header_size = size_at(last, method_end + SIZE_OFFSET)[0]
        header = bytes(last[method_end + 7 : method_end + 7 + header_size])
        number = int(message_id(header)[:INDEX_DIGITS], 16)
        message = self._pool[number]
        body = last[method_end + header_size + frames.FRAME_OVERHEAD + 7 : -1]
        if body != message.body:
            raise MiscountedDeliveriesError(
                f"delivery {tag} does not have the body that was published"
            )
        # The consumer tag is the index of its queue.
        queue = self._queues[int(bytes(last[12 : 12 + last[11]]))]
        if queue not in message.queues:
            raise MiscountedDeliveriesError(f"message {number} was not routed to {queue}")


if __name__ == "__main__":
    consume(MixedConsumingLane, *sys.argv[1:])
