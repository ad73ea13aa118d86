"""Checking a stream's files without changing them: what is intact, what is not, and what a start
does.

The verdict is recovery's: an entry that is not whole is damage if a whole entry records that it was
durable, otherwise it is a torn tail, which a start cuts off with everything after it. Recovery does
not read again what is known to be durable; a survey reads everything.
"""

from penstock.formats.stream_index import ENTRY_SIZE
from penstock.storage.number_table import ReadNumbers, read_newest
from penstock.storage.publisher_notes import PublisherNote, read_note
from penstock.storage.stream_recovery import segment_numbers
from penstock.storage.stream_segment import StreamSegment, publishers_name, segment_number
from penstock.storage.stream_walk import MISSING, MessageListener, Problem, SegmentWalk
from penstock.world.disk import AppendFile, Disk


class StreamSurvey:
    """Held by the code that checks or salvages a store. Reads one stream's folder."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        names: list[str],
        first_offset_name: str,
        safe_end: int = 0,
    ) -> None:
        """`names` are the files of the folder; `first_offset_name` is the name in the table of
        cursors of the first offset that retention left. All before `safe_end` was durable.
        """
        self.folder: str = folder
        self._disk: Disk = disk
        self._names: set[str] = set(names)
        self.cursors: ReadNumbers = read_newest(disk, f"{folder}/cursors", names)
        first = self.cursors.numbers.get(first_offset_name, 0)
        # Without those that retention had given up before a power loss restored them.
        self.numbers: list[int] = [n for n in segment_numbers(folder, names) if n >= first]
        self.notes: list[str] = [
            name
            for name in names
            if name.endswith(".pub") and segment_number(folder, name) >= first
        ]
        self._safe_end: int = safe_end
        self.walks: list[SegmentWalk] = []
        for place in range(len(self.numbers)):
            self.walks.append(self.walk(place, None))
        # What the notes of publishers say, by the first offset of their segment.
        self.said: dict[int, PublisherNote] = {}
        for walk in self.walks:
            self._check_note(walk)

    def _check_note(self, walk: SegmentWalk) -> None:
        """Rows of a sink that the note should cover and does not are a problem of their segment."""
        segment = walk.segment
        if segment.index_name not in self._names:
            return
        folder = self.folder
        durable = self._durable_offset()
        end = segment.first_offset + walk.count
        for problem in walk.problems:
            if problem.offset >= durable:
                end = min(end, problem.offset)
        note = read_note(self._disk, folder, list(self._names), segment, end, durable)
        self.said[segment.first_offset] = note
        offset = note.unnoted()
        is_known = any([p.offset <= offset < p.offset + p.count for p in walk.problems])
        if offset >= 0 and not is_known:
            name = publishers_name(folder, segment.first_offset)
            what = f"it has no entry for message {offset}, a row of a sink"
            walk.problems.insert(0, Problem(name, note.end, offset, 0, what))
        segment.close()

    def walk(self, place: int, listener: MessageListener | None) -> SegmentWalk:
        """Read a segment; the survey did so once, salvage does so again for what it copies."""
        number = self.numbers[place]
        is_last = place + 1 == len(self.numbers)
        count = -1 if is_last else self.numbers[place + 1] - number
        segment = StreamSegment(self._disk, self.folder, number)
        log = self.open(segment.log_name)
        index = self.open(segment.index_name)
        walk = SegmentWalk(segment, log, index, count)
        walk.run(listener)
        for file in (log, index):
            if file is not None:
                file.close()
        return walk

    def open(self, name: str) -> AppendFile | None:
        return self._disk.open(name) if name in self._names else None

    def first_offset(self) -> int:
        return self.numbers[0] if self.numbers else 0

    def end_offset(self) -> int:
        """The end offset that a start would find, if nothing is damaged."""
        torn = self.torn_tail()
        if torn is not None:
            return torn.offset
        return self.numbers[-1] + self.walks[-1].count if self.numbers else 0

    def damage(self) -> list[Problem]:
        durable = self._durable_offset()
        return [problem for problem in self._problems() if problem.offset < durable]

    def torn_tail(self) -> Problem | None:
        """Where a start would cut, if nothing before it is damaged."""
        durable = self._durable_offset()
        for problem in self._problems():
            if problem.offset >= durable:
                return problem
        return None

    def _problems(self) -> list[Problem]:
        problems = [problem for walk in self.walks for problem in walk.problems]
        end = self.numbers[-1] + self.walks[-1].count if self.numbers else 0
        if end < self._safe_end:
            at = 0
            name = self.folder
            if self.walks:
                name = self.walks[-1].segment.index_name
                at = ENTRY_SIZE * (1 + self.walks[-1].count)
            problems.append(Problem(name, at, end, self._safe_end - end, MISSING))
        return problems

    def _durable_offset(self) -> int:
        return max([walk.durable_offset for walk in self.walks] + [self._safe_end])
