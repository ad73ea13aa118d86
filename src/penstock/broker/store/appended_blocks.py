"""What one tick of a root appended to replicated streams, and what their retention gave up."""

from penstock.broker.store import records
from penstock.broker.streams.pending_block import PendingBlock
from penstock.broker.streams.replicated_files import ReplicatedFiles
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.streams.stream_target import Ranges
from penstock.formats.replication_id import id_of_offset
from penstock.formats.stream_append import StreamAppend, encode_append_head
from penstock.storage.stream_composer import ComposedMessages


class AppendedBlocks:
    """Made by the message store for every batch."""

    def __init__(self, epoch: int) -> None:
        self._epoch: int = epoch
        self.streams: list[ReplicatedFiles] = []
        self._composed: list[tuple[int, ComposedMessages]] = []
        self._truncated: list[tuple[int, Ranges]] = []
        # Number and place in the batch of each, and the octets of all.
        self.blocks: list[tuple[int, int]] = []
        self.octets: int = 0

    def add(self, files: ReplicatedFiles) -> None:
        number = files.number
        self.streams.append(files)
        for composed in files.take_composed():
            self._composed.append((number, composed))
        truncated = files.take_truncated()
        if truncated:
            self._truncated.append((number, truncated))

    def encode(self, pieces: list[bytes], begin: int) -> int:
        """Append their records behind so many octets of the batch; returns the size."""
        size = 0
        for number, composed in self._composed:
            first_id = id_of_offset(self._epoch, composed.first_offset)
            head = encode_append_head(number, first_id, composed.segment_first, composed.count)
            parts = [head, *composed.entries, *composed.payloads]
            self.blocks.append((number, begin + size))
            size += records.append_parts(pieces, records.APPENDED, parts)
        self.octets = size - records.HEAD_SIZE * len(self.blocks)
        self._composed = []
        return size

    def encode_truncated(self, pieces: list[bytes]) -> int:
        size = 0
        for number, ids in self._truncated:
            ranges = [records.encode_range(first, count) for first, count in ids]
            size += records.append_dequeued(pieces, number, 0, ranges)
        return size

    def written(self, streams: ReplicatedStreams, octets: bytes, base: int, position: int) -> None:
        """The batch is in the journal: its payload, which begins with these octets, at a location,
        and the journal ends at a position.
        """
        for number, at in self.blocks:
            block = block_at(octets, at, base)
            block.position = position
            streams.add_block(number, block, octets, at + records.HEAD_SIZE)
        for files in self.streams:
            files.tick_written(position)


def append_at(octets: bytes, at: int) -> StreamAppend:
    """The append whose record begins at a place of a batch."""
    size = records.size_at(octets, at) - records.HEAD_SIZE
    return StreamAppend(octets, at + records.HEAD_SIZE, size)


def block_at(octets: bytes, at: int, base: int) -> PendingBlock:
    """The same as a block; the octets are a payload that the journal has at a location."""
    return PendingBlock(append_at(octets, at), base + at + records.HEAD_SIZE)
