"""The publishing process of mixed traffic: `python -m bench.mixed_publisher PLAN BOARD`."""

import dataclasses
import itertools
import sys
import time
from collections.abc import Iterator

from bench.mixed import TIMESTAMP_BYTES, TURN_DIGITS, MixedMessage, build_pool
from bench.plan import CHUNK_BYTES, LoadPlan
from bench.publisher import Chunk, PublishingLane, messages_per_chunk, publish


@dataclasses.dataclass(frozen=True, slots=True)
class Template:
    """A chunk whose message-ids and time stamps are written anew for every use."""

    data: bytearray
    turn_offsets: list[int]
    due: int

    def chunk(self, turn: int) -> Chunk:
        fresh = f"{turn:0{TURN_DIGITS}x}".encode() + int(time.time()).to_bytes(TIMESTAMP_BYTES)
        size = len(fresh)
        for offset in self.turn_offsets:
            self.data[offset : offset + size] = fresh
        return Chunk(memoryview(self.data), len(self.turn_offsets), self.due)


def build_templates(plan: LoadPlan, pool: list[MixedMessage]) -> list[Template]:
    """The pool in order, cut into writes."""
    longest = messages_per_chunk(plan, min(len(message.publish) for message in pool))
    templates: list[Template] = []
    data, offsets, due = bytearray(), list[int](), 0
    for message in pool:
        if len(offsets) == longest or len(data) + len(message.publish) > CHUNK_BYTES:
            templates.append(Template(data, offsets, due))
            data, offsets, due = bytearray(), [], 0
        offsets.append(len(data) + message.turn_offset)
        data += message.publish
        due += len(message.queues)
    return [*templates, Template(data, offsets, due)]


class MixedPublishingLane(PublishingLane):
    """Sends its pool round and round. Held by the process's loop."""

    def chunks(self, plan: LoadPlan, index: int) -> Iterator[Chunk]:
        templates = build_templates(plan, build_pool(plan, index))
        assert len(templates) > 1, "a chunk would be written to while it is sent"
        for turn in itertools.count():
            for template in templates:
                yield template.chunk(turn)


if __name__ == "__main__":
    publish(MixedPublishingLane, *sys.argv[1:])
