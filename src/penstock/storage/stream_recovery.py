"""Recovering a stream when it is opened: complete segments, and perhaps a torn tail.

Unflushed data may be missing after a power loss, in any order and in either file. So entries are
checked from the last one on that is known to have been durable. A row of a sink is whole only with
the note that covers it (`publisher_notes`). Everything from the first entry that is not whole is
cut off, later segments included, unless a later whole entry records that it was durable: that is
damage, and nothing is changed.
"""

from typing import Final

from penstock.formats.stream_index import (
    ENTRY_SIZE,
    INDEX_MAGIC,
    LOG_MAGIC,
    IndexEntry,
)
from penstock.storage.errors import Damaged
from penstock.storage.publisher_notes import read_note
from penstock.storage.stream_segment import (
    StreamSegment,
    is_preamble,
    is_whole,
    publishers_name,
    segment_number,
)
from penstock.world.disk import Disk

# Entries whose index is read at once while checking: one mebibyte of it.
CHECK_COUNT: Final = 32_768
# Payloads are read in pieces of this size while checking, or of one message when that is larger.
CHECK_BYTES: Final = 4 * 1024 * 1024


class RecoveredSegments:
    """What remains after a torn tail was cut."""

    def __init__(
        self, segments: list[StreamSegment], durable_offset: int, next_offset: int
    ) -> None:
        self.segments: list[StreamSegment] = segments
        # Messages before it are known to be durable; those after it wait for a flush.
        self.durable_offset: int = durable_offset
        # Where to continue when no segment is left: offsets are never used twice.
        self.next_offset: int = next_offset


def recover_segments(
    disk: Disk, folder: str, names: list[str], first_offset: int = 0, safe_end: int = 0
) -> RecoveredSegments:
    """`first_offset` is the first that retention left; messages before `safe_end` were durable.
    Raises `Damaged`, `NotAStore` or `WrongVersion` before anything is changed.
    """
    segments = [StreamSegment(disk, folder, number) for number in segment_numbers(folder, names)]
    if not segments:
        if safe_end:
            raise Damaged(folder, 0, f"all its segments are missing, up to message {safe_end - 1}")
        return RecoveredSegments([], 0, 0)
    headed = [_open(segment) for segment in segments]
    low = _known_durable(segments, headed)
    if segments[0].first_offset > first_offset and not _is_founded(segments, headed):
        # The data before them is lost and was not durable, so neither were they: an earlier cut
        # that a power loss undid.
        _refuse_loss(segments, 0, 0, safe_end)
        _remove(disk, folder, segments)
        return RecoveredSegments([], segments[0].first_offset, segments[0].first_offset)
    _check_sealed(segments, low)
    place = 0
    torn_at = 0
    while place < len(segments):
        segment = segments[place]
        torn_at = _torn_at(segment, low) if headed[place] else 0
        if segment.first_offset + torn_at > low:
            torn_at = _unnoted_at(disk, folder, names, segment, torn_at, low)
        end = segment.first_offset + torn_at
        is_last = place + 1 == len(segments)
        if not headed[place] or torn_at < segment.count:
            break
        if not is_last and segments[place + 1].first_offset != end:
            break
        place += 1
    _refuse_loss(segments, place, torn_at, safe_end)
    if place < len(segments):
        _refuse_damage(segments, place, torn_at)
        kept = segments[: place + 1] if headed[place] else segments[:place]
        _remove(disk, folder, segments[len(kept) :])
        if headed[place]:
            segments[place].count = torn_at
    else:
        kept = segments
    for segment in kept:
        _look_at_ends(segment)
    if not kept:
        return RecoveredSegments([], segments[0].first_offset, segments[0].first_offset)
    last = kept[-1]
    last.cut(last.count, _log_end(last, last.count))
    for segment in kept[:-1]:
        segment.close()
    durable = low
    if last.count:
        durable = max(low, last.end_offset() - 1 - last.entry(last.count - 1).unsynced)
    return RecoveredSegments(kept, min(durable, last.end_offset()), last.end_offset())


def segment_numbers(folder: str, names: list[str]) -> list[int]:
    """First offsets of the segments that have at least one of their two files."""
    found: set[int] = set()
    for name in names:
        number = segment_number(folder, name)
        if number >= 0 and not name.endswith(".pub"):
            found.add(number)
    return sorted(found)


def contiguous_before(disk: Disk, folder: str, names: list[str], offset: int) -> int:
    """First offset of the earliest segment from which messages follow one another up to an offset, or
    up to the end if that is before it; the offset itself when there is none. Only sizes are looked at.
    """
    found = offset
    end = -1
    for number in reversed(segment_numbers(folder, names)):
        if number > offset:
            continue
        segment = StreamSegment(disk, folder, number)
        if number < offset and not {segment.log_name, segment.index_name} <= set(names):
            # Its removal had begun, so that it was committed that it is given up.
            break
        count = max(segment.index().size() // ENTRY_SIZE - 1, 0)
        segment.close()
        if end >= 0 and number + count != end:
            break
        found = number
        end = number
    return found


def _open(segment: StreamSegment) -> bool:
    """Whether both preambles are valid; without them the segment is torn from its beginning."""
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
    """The highest durable offset that the first whole entry of a segment records."""
    for place in range(len(segments) - 1, -1, -1):
        segment = segments[place]
        if headed[place] and segment.count and _is_whole_at(segment, 0):
            return max(segment.first_offset - segment.entry(0).unsynced, 0)
    return segments[0].first_offset


def _is_founded(segments: list[StreamSegment], headed: list[bool]) -> bool:
    """Whether a whole entry records that everything before the first segment was durable."""
    for place, segment in enumerate(segments):
        if headed[place]:
            for other in range(segment.count - 1, -1, -1):
                durable = segment.first_offset + other - segment.entry(other).unsynced
                if durable >= segments[0].first_offset and _is_whole_at(segment, other):
                    return True
    return False


def _check_sealed(segments: list[StreamSegment], low: int) -> None:
    """Durable messages must be complete; their content is not read again."""
    for place, segment in enumerate(segments):
        safe_count = min(max(low - segment.first_offset, 0), segment.count)
        if place + 1 < len(segments):
            following = segments[place + 1].first_offset
            if following <= low and segment.end_offset() != following:
                raise _damage(segment, f"its index ends before message {segment.end_offset()}")
        if safe_count and _log_end(segment, safe_count) > segment.log_size:
            raise _damage(segment, "it ends before the last message in its index")


def _is_whole_at(segment: StreamSegment, place: int) -> bool:
    octets = segment.index().read(ENTRY_SIZE * (1 + place), ENTRY_SIZE)
    entry = IndexEntry(octets, 0)
    if entry.end() > segment.log_size:
        return False
    return is_whole(entry, octets, 0, segment.log().read(entry.position, entry.size()), 0)


def _torn_at(segment: StreamSegment, low: int) -> int:
    """Place of the first entry that is not whole; `count` when all are. Entries before `low` were
    durable and are not read again.
    """
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


def _unnoted_at(
    disk: Disk, folder: str, names: list[str], segment: StreamSegment, count: int, low: int
) -> int:
    """Place of the first row of a sink that the note beside the segment does not cover: without the
    note repeated rows could not be recognised. `count` when all are covered.
    """
    note = read_note(disk, folder, names, segment, segment.first_offset + count, low)
    offset = note.unnoted()
    if offset < 0:
        return count
    if offset < low:
        name = publishers_name(folder, segment.first_offset)
        raise Damaged(name, note.end, f"it has no entry for message {offset}, which was durable")
    return offset - segment.first_offset


def _log_end(segment: StreamSegment, count: int) -> int:
    """Where the payloads of the first `count` entries end."""
    return segment.entry(count - 1).end() if count else ENTRY_SIZE


def _refuse_loss(segments: list[StreamSegment], place: int, torn_at: int, safe_end: int) -> None:
    """Raise when the intact part ends before messages that were durable."""
    if place == len(segments):
        place -= 1
        torn_at = segments[place].count
    segment = segments[place]
    end = segment.first_offset + torn_at
    if end < safe_end:
        what = f"the intact part ends before message {end}, but all before {safe_end} were durable"
        raise _damage(segment, what, torn_at)


def _refuse_damage(segments: list[StreamSegment], place: int, torn_at: int) -> None:
    """Raise when an entry after the torn one records that the torn one was durable."""
    segment = segments[place]
    torn_offset = segment.first_offset + torn_at
    for later in segments[place:]:
        begin = torn_at + 1 if later is segment else 0
        for other in range(begin, later.count):
            entry = later.entry(other)
            durable = later.first_offset + other - entry.unsynced
            if durable > torn_offset and _is_whole_at(later, other):
                raise _damage(
                    segment, f"message {torn_offset} is damaged, although it was durable", torn_at
                )


def _damage(segment: StreamSegment, what: str, place: int = -1) -> Damaged:
    """Names the place in the log where the message should begin."""
    at = segment.log_size
    if 0 <= place < segment.count:
        at = _log_end(segment, place)
    return Damaged(segment.log_name, at, what)


def _remove(disk: Disk, folder: str, gone: list[StreamSegment]) -> None:
    names = disk.names()
    for segment in gone:
        segment.close()
        publishers = publishers_name(folder, segment.first_offset)
        for name in (segment.log_name, segment.index_name, publishers):
            if name in names:
                disk.remove(name)


def _look_at_ends(segment: StreamSegment) -> None:
    segment.log_size = _log_end(segment, segment.count)
    if segment.count:
        segment.first_timestamp = segment.entry(0).timestamp
        segment.last_timestamp = segment.entry(segment.count - 1).timestamp
