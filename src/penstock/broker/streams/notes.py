"""The notes beside a stream's segments: the last sequence of each publisher, and the progress of
sinks.

The format of a note, and when it counts, is described in `storage.publisher_notes`. Messages that
name their publisher carry this themselves, so their note may be late: one is written when a start
would take long to read them all. Rows of a sink do not name it, so their note is written with them,
and they count only together.
"""

from typing import Final

from penstock.broker.sent import ID_OCTETS, sent_of
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.publishers import PUBLISHERS_MAX, Publishers
from penstock.formats.stream_index import ENTRY_SIZE, HAS_PUBLISHER
from penstock.storage.publisher_notes import encode_group, encode_table, read_note
from penstock.storage.stream_log import StreamLog
from penstock.storage.stream_recovery import segment_numbers
from penstock.storage.stream_segment import (
    StoredEntry,
    StreamSegment,
    publishers_name,
    segment_number,
)
from penstock.world.disk import AppendFile, DiskFull

# Messages of publishers that no note covers. A start reads each of them in ten microseconds; at the
# limit a note is written, which costs one more file in a flush.
UNNOTED_MAX: Final = 4096
# The limit from the first of them to the last: a note reads the index entries between.
UNNOTED_RANGE_MAX: Final = 65_536
_NONE: Final = -1


class StreamNotes:
    """Held by the files of one stream."""

    def __init__(self, store: StreamStore, folder: str, names: list[str], log: StreamLog) -> None:
        """`names` are the stream's files before its log was opened."""
        self._store: StreamStore = store
        self._folder: str = folder
        self._log: StreamLog = log
        self.publishers: Publishers = Publishers()
        # The first message since the last mark that a note must cover, and how many there are.
        self._unnoted_offset: int = _NONE
        self._unnoted_count: int = 0
        # Rows by stage that were composed since the last mark.
        self._staged: dict[str, int] = {}
        # The last segment's; None until there is something to note.
        self._file: AppendFile | None = None
        # The beginning of the last segment's note, should it have to be written.
        self._table: bytes = b""
        # Whether there was no room to begin it; notes with the same content must stay until then.
        self.is_owed: bool = False
        # Notes of earlier segments, until a flush is over that may still use them.
        self._stale: list[AppendFile] = []
        # First offsets of segments with a note beside them.
        self._noted: set[int] = self._find(names)
        self._recall(names, self._given_up(names))
        # A killed process may have left several only in the page cache.
        for segment in log.segments[:-1]:
            if segment.end_offset() > log.durable_offset and segment.first_offset in self._noted:
                self._stale.append(store.disk.open(publishers_name(folder, segment.first_offset)))

    def _find(self, names: list[str]) -> set[int]:
        """A note whose segment was lost is removed: another segment may begin at the same
        offset.
        """
        segments = {segment.first_offset for segment in self._log.segments}
        found: set[int] = set()
        for name in names:
            number = segment_number(self._folder, name)
            if number < 0 or name != publishers_name(self._folder, number):
                continue
            if number in segments or number < self._log.first_offset:
                found.add(number)
            elif name in self._store.disk.names():
                self._store.disk.remove(name)
        return found

    def _given_up(self, names: list[str]) -> list[StreamSegment]:
        """Segments that retention has given up and that a power loss restored, or left."""
        found: list[StreamSegment] = []
        for number in segment_numbers(self._folder, names):
            if number < self._log.first_offset:
                segment = StreamSegment(self._store.disk, self._folder, number)
                if segment.index_name in names and segment.log_name in names:
                    segment.count = max(segment.index().size() // ENTRY_SIZE - 1, 0)
                    segment.log_size = segment.log().size()
                    found.append(segment)
        return found

    # After a start.

    def _recall(self, names: list[str], given_up: list[StreamSegment]) -> None:
        """From the last note that is begun, and from what lies in the log behind its last mark. A
        power loss may have kept that retention gave segments up, and nothing of the one behind
        them; their files are there then, and so are their notes.
        """
        segments = given_up + self._log.segments
        place = len(segments) - 1
        offset = _NONE
        while place >= 0 and offset == _NONE:
            if segments[place].first_offset in self._noted:
                offset = self._read(segments[place], names)
            if offset == _NONE:
                place -= 1
        last = segments[-1]
        for segment in segments[max(place, 0) :]:
            if segment is last and self._file is None:
                self._begin_last()
            begin = min(max(offset - segment.first_offset, 0), segment.count)
            for flagged in segment.flagged(HAS_PUBLISHER, begin):
                if self._reread(segment, flagged) and segment is last:
                    self.published(segment.first_offset + flagged)
        for segment in segments[:-1]:
            segment.close()

    def _begin_last(self) -> None:
        """The last segment has no note. It gets one before any note with the same content is
        removed; a stream that never had anything to note needs none. A full disk does not prevent a
        stream from being opened: the older notes stay until there is room.
        """
        publishers = self.publishers
        self._table = encode_table(publishers.sequences, publishers.stages)
        if publishers.sequences or publishers.stages:
            try:
                self._begin_file(self._table)
            except DiskFull:
                self.is_owed = True
        publishers.changed = {}

    def _read(self, segment: StreamSegment, names: list[str]) -> int:
        """Read the note beside a segment; returns the offset up to which it is valid,
        -1 for a note that is not begun.
        """
        disk = self._store.disk
        end = segment.end_offset()
        note = read_note(disk, self._folder, names, segment, end, self._log.durable_offset)
        if not note.is_begun:
            return _NONE
        self.publishers.sequences = note.sequences
        self.publishers.stages = note.stages
        while len(note.sequences) > PUBLISHERS_MAX:
            del note.sequences[next(iter(note.sequences))]
        if segment is self._log.segments[-1]:
            self._file = disk.open(publishers_name(self._folder, segment.first_offset))
            if self._file.size() > note.end:
                self._file.truncate(note.end)
        return note.offset

    def _reread(self, segment: StreamSegment, place: int) -> bool:
        """Whether a message in the log names its publisher, as its flags say."""
        found: list[StoredEntry] = []
        if not segment.read(place, 1, 0, found) or ID_OCTETS not in found[0].header:
            return False
        stored = found[0]
        message = self._store.decoder.decode(
            stored.exchange, stored.routing_key, stored.header, b""
        )
        sent = sent_of(message.properties)
        if sent is None:
            return False
        self.publishers.check_and_note(sent)
        return True

    def keep_stages(self, stages: set[str]) -> None:
        """After a start: keep only these; the other stages are published and gone."""
        known = self.publishers.stages
        self.publishers.stages = {name: known[name] for name in known if name in stages}

    def forget_stage(self, stage: str) -> None:
        """It is published entirely."""
        self.publishers.stages.pop(stage, None)

    # Writing.

    def published(self, offset: int) -> None:
        """A message that names its publisher has this offset."""
        if self._unnoted_offset == _NONE:
            self._unnoted_offset = offset
        self._unnoted_count += 1

    def staged(self, stage: str, rows: int, offset: int) -> None:
        """With the composed messages from this offset on, the stream has this many rows of a stage."""
        if self._unnoted_offset == _NONE:
            self._unnoted_offset = offset
        self.publishers.stages[stage] = rows
        self._staged[stage] = rows

    def write(self) -> list[AppendFile]:
        """Note what is due, once the log has everything that was composed; returns the file that
        the flush must cover. Raises a `DiskError`.
        """
        begin = self._unnoted_offset
        if begin == _NONE:
            return []
        if (
            not self._staged
            and self._unnoted_count < UNNOTED_MAX
            and self._log.end_offset - begin < UNNOTED_RANGE_MAX
        ):
            return []
        changed = self.publishers.take_changed()
        end = self._log.end_offset
        group = encode_group(changed, self._staged, begin, end, self._log.entries_crc(begin))
        file = self._file
        if file is None:
            file = self._begin_file(self._table)
        file.append(group)
        self._clear()
        return [file]

    def _clear(self) -> None:
        self._staged = {}
        self._unnoted_offset = _NONE
        self._unnoted_count = 0

    def begin_owed(self) -> list[AppendFile]:
        """Begin the note that there was no room for; returns the file that the flush must cover.
        Raises a `DiskError`.
        """
        return [self._begin_file(self._table)] if self.is_owed else []

    def begin_segment(self) -> AppendFile:
        """The log has begun one; its note begins with everything that is known."""
        publishers = self.publishers
        publishers.changed = {}
        self._clear()
        if self._file is not None:
            self._stale.append(self._file)
        return self._begin_file(encode_table(publishers.sequences, publishers.stages))

    def _begin_file(self, table: bytes) -> AppendFile:
        first_offset = self._log.segments[-1].first_offset
        file = self._store.disk.open(publishers_name(self._folder, first_offset))
        if file.size():
            # Torn before it was begun.
            file.truncate(0)
        # Already now: a note that there was no room for is removed with its segment too.
        self._noted.add(first_offset)
        file.append(table)
        self._file = file
        self.is_owed = False
        return file

    def files(self) -> list[AppendFile]:
        """What a flush after a start must cover."""
        return self._stale if self._file is None else [*self._stale, self._file]

    def take_stale(self) -> list[AppendFile]:
        """Files that may be closed once the flush that is now requested is done."""
        taken = self._stale
        self._stale = []
        return taken

    def remove(self, first_offset: int) -> None:
        """With its segment."""
        if first_offset in self._noted:
            self._noted.discard(first_offset)
            self._store.disk.remove(publishers_name(self._folder, first_offset))

    def close(self) -> None:
        """The stream is deleted."""
        if self._file is not None:
            self._file.close()
            self._file = None
