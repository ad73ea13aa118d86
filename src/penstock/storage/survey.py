"""Checking a store without changing it: what is intact, what is not, and what a start would do.

It continues after an invalid batch: the next valid one is found by its magic, checksum and
position. The verdict on each gap is recovery's: damage if any batch records a durable position
above it.
"""

from penstock.storage.batch import BatchReader, find_batch, position_at
from penstock.storage.errors import NotAStore
from penstock.storage.recovery import BatchListener, OpenSegment
from penstock.storage.segment import (
    SEGMENT_HEADER_BYTES,
    batch_seed,
    location_of,
    may_be_torn_header,
)


class Gap:
    """A gap in the journal: bytes that are not a valid batch, or a missing segment. Held by its
    survey.
    """

    def __init__(self, segment: OpenSegment, offset: int, octets: int, position: int) -> None:
        self.file: str = segment.name
        self.offset: int = offset
        self.octets: int = octets  # of the file
        self.position: int = position
        # Bytes of the journal that are missing before the segment.
        self.missing_octets: int = 0
        self.location: int = location_of(segment.number, offset)
        self.may_be_ours: bool = offset > 0 or may_be_torn_header(segment.begin)


class SegmentSurvey:
    """One segment, and how much of it is intact. Held by the survey."""

    def __init__(self, name: str, octets: int) -> None:
        self.name: str = name
        self.octets: int = octets
        self.batch_count: int = 0
        self.gaps: list[Gap] = []


class Survey:
    """Held by the code that checks or salvages a store; `add` takes its segments in order."""

    def __init__(self, store_id: bytes, safe_position: int = 0) -> None:
        """`safe_position` comes from the store's safe point."""
        self.segments: list[SegmentSurvey] = []
        self._seed: int = batch_seed(store_id)
        # The highest durable position that a batch, or the store's safe point, records, and where
        # the next segment must begin.
        self._durable: int = safe_position
        self._safe_position: int = safe_position
        self._position: int = 0

    def add(self, segment: OpenSegment, listener: BatchListener) -> None:
        found = SegmentSurvey(segment.name, segment.file.size())
        self.segments.append(found)
        header = segment.header
        if header is None:
            self._without_header(segment, found, listener)
            return
        if header.position != self._position:
            gap = Gap(segment, 0, 0, min(self._position, header.position))
            gap.missing_octets = abs(header.position - self._position)
            found.gaps.append(gap)
        self._walk(segment, found, SEGMENT_HEADER_BYTES, header.position, listener)

    def damage(self) -> list[Gap]:
        return [gap for gap in self._gaps() if gap.position < self._durable]

    def missing_octets(self) -> int:
        """The bytes of the journal that are missing after its present end."""
        return max(self._safe_position - self._position, 0)

    def torn_tail(self) -> Gap | None:
        """Where a start would cut, if nothing before it is damaged."""
        for gap in self._gaps():
            if gap.position >= self._durable:
                if not gap.may_be_ours:
                    raise NotAStore(gap.file, "is not a journal segment")
                return gap
        return None

    def _gaps(self) -> list[Gap]:
        gaps = [gap for segment in self.segments for gap in segment.gaps]
        if gaps and gaps[0].file == self.segments[0].name and gaps[0].missing_octets:
            # Before the first segment: removed and not missing, if a batch records that it was
            # durable.
            if self._durable >= gaps[0].missing_octets:
                del gaps[0]
        return gaps

    def _without_header(
        self, segment: OpenSegment, found: SegmentSurvey, listener: BatchListener
    ) -> None:
        """Only its batches show where it belongs."""
        at = find_batch(segment.file, 0, None, self._seed, -1)
        octets = found.octets if at < 0 else at
        found.gaps.append(Gap(segment, 0, octets, self._position))
        if at >= 0:
            self._walk(segment, found, at, position_at(segment.file, at), listener)
        else:
            self._position += max(0, octets - SEGMENT_HEADER_BYTES)

    def _walk(
        self,
        segment: OpenSegment,
        found: SegmentSurvey,
        offset: int,
        position: int,
        listener: BatchListener,
    ) -> None:
        file = segment.file
        shift = position - offset
        while offset >= 0:
            reader = BatchReader(file, offset, offset + shift, self._seed)
            while reader.next():
                found.batch_count += 1
                self._durable = max(self._durable, reader.durable)
                if reader.payload:
                    listener.batch(
                        location_of(segment.number, reader.payload_offset), reader.payload
                    )
            self._position = shift + found.octets
            if reader.is_at_end():
                return
            offset = find_batch(file, reader.offset, shift, self._seed, -1)
            octets = (found.octets if offset < 0 else offset) - reader.offset
            found.gaps.append(Gap(segment, reader.offset, octets, reader.position))
