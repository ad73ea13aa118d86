"""What a replicated stream is to become by a SYNC: a target of ids, and which blocks have them."""

from penstock.broker.streams.pending_block import PendingBlock
from penstock.formats.replication_id import offset_of_id

Ranges = list[tuple[int, int]]


class BadTarget(Exception):
    """A SYNC cannot be done with what is here; the text says why. Nothing was changed."""


class ChosenBlock:
    """As much of a block as a target has."""

    def __init__(self, block: PendingBlock, first_id: int, end_id: int) -> None:
        self.block: PendingBlock = block
        self.first_id: int = first_id
        self.end_id: int = end_id


def chosen(target: Ranges, first: int, end: int, blocks: list[PendingBlock]) -> list[ChosenBlock]:
    """The messages of a target between two offsets, in order. Raises `BadTarget`."""
    found: list[ChosenBlock] = []
    offset = first
    for block in sorted(blocks, key=_order):
        if not block.first_offset <= offset < min(block.end_offset, end):
            continue
        own = block.first_id + offset - block.first_offset
        for first_id, count in target:
            if first_id <= own < first_id + count:
                end_id = min(first_id + count, block.first_id + block.count)
                found.append(ChosenBlock(block, own, end_id))
                offset += end_id - own
                break
    if offset < end:
        raise BadTarget(f"messages {offset} to {end - 1} of a stream are missing")
    return found


def in_target(target: Ranges, blocks: list[PendingBlock]) -> list[PendingBlock]:
    """What a SYNC has left of blocks that are read back from a journal, in order and cut to it; some of
    the target may be in files only.
    """
    found: list[PendingBlock] = []
    offset = 0
    for block in sorted(blocks, key=_order):
        own = block.first_id + max(offset - block.first_offset, 0)
        for first_id, count in target:
            if block.keep_between(max(first_id, own), first_id + count):
                found.append(block)
                offset = block.end_offset
                break
    return found


def _order(block: PendingBlock) -> tuple[int, int]:
    return block.first_offset, -block.end_offset


def span_of(target: Ranges) -> tuple[int, int]:
    """First offset and end of a target. Raises `BadTarget` when it has gaps."""
    first = offset_of_id(target[0][0])
    end = first
    for first_id, count in target:
        if offset_of_id(first_id) != end:
            raise BadTarget(f"the root's stream has a gap before message {offset_of_id(first_id)}")
        end += count
    return first, end


def covers(target: Ranges, ranges: Ranges) -> bool:
    """Whether every id of the ranges is in the target."""
    for first, count in ranges:
        if not any([low <= first and first + count <= low + size for low, size in target]):
            return False
    return True
