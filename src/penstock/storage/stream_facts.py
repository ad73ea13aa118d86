"""What a bulk reader must know to read a stream's files without asking the broker for messages."""

from dataclasses import dataclass

from penstock.formats.stream_index import ENTRY_SIZE
from penstock.storage.stream_log import StreamLog
from penstock.storage.stream_segment import StreamSegment


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """The part of one segment that may be read. It only grows at its end, until retention removes the whole
    segment; its first offset identifies it permanently.
    """

    first_offset: int
    end_offset: int
    first_timestamp: int
    last_timestamp: int
    # Names as the disk knows them, and octets of each file that may be read.
    log_name: str
    log_bytes: int
    index_name: str
    index_bytes: int


def segment_facts(log: StreamLog) -> list[SegmentFacts]:
    """Oldest first; a segment without any readable message is left out."""
    found: list[SegmentFacts] = []
    for segment in log.segments:
        count = min(segment.count, log.readable_offset() - segment.first_offset)
        if count > 0:
            found.append(_facts_of(segment, count))
    return found


def _facts_of(segment: StreamSegment, count: int) -> SegmentFacts:
    """The facts of its first `count` messages; reads the index only when there are more."""
    log_bytes = segment.log_size
    last_timestamp = segment.last_timestamp
    if count < segment.count:
        last = segment.entry(count - 1)
        log_bytes = last.end()
        last_timestamp = last.timestamp
    return SegmentFacts(
        segment.first_offset,
        segment.first_offset + count,
        segment.first_timestamp,
        last_timestamp,
        segment.log_name,
        log_bytes,
        segment.index_name,
        ENTRY_SIZE * (1 + count),
    )
