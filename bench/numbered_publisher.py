"""A publisher that numbers its messages: `python -m bench.numbered_publisher PLAN BOARD`."""

import itertools
import sys
from array import array
from collections.abc import Iterator

from bench import frames
from bench.numbers import write_numbers
from bench.plan import LoadPlan
from bench.publisher import Chunk, PublishingLane, messages_per_chunk, publish


class NumberedPublishingLane(PublishingLane):
    """Every body begins with the count of the lane's messages before it."""

    def chunks(self, plan: LoadPlan, index: int) -> Iterator[Chunk]:
        lane = plan.publishers[index]
        one = frames.publish(
            lane.exchange, lane.routing_keys[0], plan.filler, persistent=plan.durable
        )
        count = messages_per_chunk(plan, len(one))
        # One is being sent while the next is made, so two are enough.
        buffers = itertools.cycle([bytearray(one * count), bytearray(one * count)])
        for first in itertools.count(step=count):
            buffer = next(buffers)
            numbers = array("Q", range(first, first + count))
            write_numbers(buffer, len(one) - 1 - plan.size, len(one), numbers)
            yield Chunk(memoryview(buffer), count, count)


if __name__ == "__main__":
    publish(NumberedPublishingLane, *sys.argv[1:])
