"""What a stream finds when it is opened: whole segments, and perhaps a torn tail.

What was not flushed may be missing after a power loss, in any order and in either file. So entries
are checked from the last one on that is known to have been safe. At the first that is not whole
everything is cut off, later segments included, unless a later whole entry says that it had been
safe: that is damage, and nothing is changed.
"""

from typing import Final

from penstock.storage.errors import Damaged
from penstock.storage.stream_index import (
    ENTRY_SIZE,
    INDEX_MAGIC,
    LOG_MAGIC,
    IndexEntry,
    is_preamble,
)
from penstock.storage.stream_segment import StreamSegment, is_whole, publishers_name
from penstock.world.disk import Disk

# Entries whose index is read at once while checking: one mebibyte of it.
CHECK_COUNT: Final = 32_768
# Payloads are read in pieces of this size while checking, or of one message when that is larger.
CHECK_BYTES: Final = 4 * 1024 * 1024


class RecoveredSegments:
    """What is left after a torn tail was cut."""

    def __init__(self, segments: list[StreamSegment], durable_offset: int) -> None:
        self.segments: list[StreamSegment] = segments
        # Messages before it are known to survive a power loss; those behind it wait for a flush.
        self.durable_offset: int = durable_offset


def recover_segments(disk: Disk, folder: str, names: list[str]) -> RecoveredSegments:
    segments = [StreamSegment(disk, folder, number) for number in _numbers(folder, names)]
    headed = [_open(segment) for segment in segments]
    low = _known_durable(segments, headed)
    for place, segment in enumerate(segments[:-1]):
        following = segments[place + 1]
        if following.first_offset <= low and segment.end_offset() != following.first_offset:
            raise _damage(segment, f"the index ends at message {segment.end_offset()}")
    kept: list[StreamSegment] = []
    for place, segment in enumerate(segments):
        torn_at = _torn_at(segment, headed[place], low)
        expected = segments[place + 1].first_offset if place + 1 < len(segments) else -1
        is_cut = torn_at < segment.count or not headed[place]
        if is_cut or (expected >= 0 and segment.first_offset + torn_at != expected):
            _refuse_damage(segments, place, torn_at)
            _cut(disk, folder, segments, place, torn_at, headed[place])
            if headed[place]:
                kept.append(segment)
            break
        segment.log().truncate(_log_end(segment, segment.count))
        segment.index().truncate(ENTRY_SIZE * (1 + segment.count))
        kept.append(segment)
    for segment in kept:
        _look_at_ends(segment)
    for segment in kept[:-1]:
        segment.close()
    return RecoveredSegments(kept, min(low, kept[-1].end_offset()) if kept else 0)


def _numbers(folder: str, names: list[str]) -> list[int]:
    """First offsets of the segments that have at least one of their two files."""
    found: set[int] = set()
    for name in names:
        stem, _, kind = name.removeprefix(folder + "/").partition(".")
        if kind in {"log", "idx"} and stem.isdigit():
            found.add(int(stem))
    return sorted(found)


def _open(segment: StreamSegment) -> bool:
    """Whether both preambles are there; without them the segment is torn from its beginning."""
    log = segment.log()
    index = segment.index()
    segment.log_size = log.size()
    segment.count = max(index.size() // ENTRY_SIZE - 1, 0)
    log_is_headed = is_preamble(
        segment.log_name, log.read(0, ENTRY_SIZE), LOG_MAGIC, segment.first_offset
    )
    index_is_headed = is_preamble(
        segment.index_name, index.read(0, ENTRY_SIZE), INDEX_MAGIC, segment.first_offset
    )
    return log_is_headed and index_is_headed


def _known_durable(segments: list[StreamSegment], headed: list[bool]) -> int:
    """The highest offset that the first whole entry of a segment says was safe before it."""
    for place in range(len(segments) - 1, -1, -1):
        segment = segments[place]
        if headed[place] and segment.count and _is_whole_at(segment, 0):
            return max(segment.first_offset - segment.entry(0).unsynced, 0)
    return segments[0].first_offset if segments else 0


def _is_whole_at(segment: StreamSegment, place: int) -> bool:
    octets = segment.index().read(ENTRY_SIZE * (1 + place), ENTRY_SIZE)
    entry = IndexEntry(octets, 0)
    if entry.end() > segment.log_size:
        return False
    return is_whole(entry, octets, 0, segment.log().read(entry.position, entry.size()), 0)


def _torn_at(segment: StreamSegment, is_headed: bool, low: int) -> int:
    """Place of the first entry that is not whole; `count` when all are. Entries before `low` had
    been safe and are not read again.
    """
    if not is_headed:
        return 0
    place = min(max(low - segment.first_offset, 0), segment.count)
    position = _log_end(segment, place)
    while place < segment.count:
        count = min(CHECK_COUNT, segment.count - place)
        octets = segment.index().read(ENTRY_SIZE * (1 + place), ENTRY_SIZE * count)
        payloads = b""
        start = position
        for at in range(0, len(octets), ENTRY_SIZE):
            entry = IndexEntry(octets, at)
            if entry.position != position or entry.end() > segment.log_size:
                return place
            if entry.end() - start > len(payloads):
                start = position
                payloads = segment.log().read(start, max(CHECK_BYTES, entry.size()))
            if not is_whole(entry, octets, at, payloads, position - start):
                return place
            position = entry.end()
            place += 1
    return place


def _log_end(segment: StreamSegment, count: int) -> int:
    """Where the payloads of the first `count` entries end."""
    return segment.entry(count - 1).end() if count else ENTRY_SIZE


def _refuse_damage(segments: list[StreamSegment], place: int, torn_at: int) -> None:
    """Raise when an entry behind the torn one says that the torn one had been safe."""
    segment = segments[place]
    torn_offset = segment.first_offset + torn_at
    for later in segments[place:]:
        begin = torn_at + 1 if later is segment else 0
        for other in range(begin, later.count):
            entry = later.entry(other)
            durable = later.first_offset + other - entry.unsynced
            if durable > torn_offset and _is_whole_at(later, other):
                raise _damage(
                    segment, f"message {torn_offset} is not whole and had been safe", torn_at
                )


def _damage(segment: StreamSegment, what: str, place: int = -1) -> Damaged:
    """Names the place in the log where the message should begin."""
    at = segment.log_size
    if 0 <= place < segment.count:
        at = _log_end(segment, place)
    return Damaged(segment.log_name, at, what)


def _cut(
    disk: Disk,
    folder: str,
    segments: list[StreamSegment],
    place: int,
    torn_at: int,
    is_headed: bool,
) -> None:
    segment = segments[place]
    gone = segments[place + 1 :]
    if is_headed:
        segment.cut(torn_at, _log_end(segment, torn_at))
    else:
        gone = segments[place:]
    names = disk.names()
    for later in gone:
        later.close()
        for name in (
            later.log_name,
            later.index_name,
            publishers_name(folder, later.first_offset),
        ):
            if name in names:
                disk.remove(name)


def _look_at_ends(segment: StreamSegment) -> None:
    segment.log_size = segment.log().size()
    if segment.count:
        segment.first_timestamp = segment.entry(0).timestamp
        segment.last_timestamp = segment.entry(segment.count - 1).timestamp
