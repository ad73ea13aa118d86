"""The files of a stream of a cluster's member: what is committed, and nothing else.

The root composes messages and gives them to the tick's operation, which the journal and all backups get.
From there they go to the files of each server, the root's too, when the operation is committed and durable
here. So no file ever has to be cut: what is not committed is only in the journal. The journal keeps an
append until a flush of the files covers it, and after a crash what the files lack is taken from there.

Invariants
- the stream is the files and behind them the pending blocks, without a gap;
- files have only messages that are committed, whole and in order, on every server the same octets;
- a segment that retention has given up stays until that is committed, too.
"""

from collections import deque
from collections.abc import Iterator

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message, Properties
from penstock.broker.queues.queue_journal import QueueJournal
from penstock.broker.sent import ID_OCTETS, Sent, sent_of
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.files import (
    DUPLICATE,
    NO_LIMIT,
    READ_BYTES_MAX,
    READ_COUNT_MAX,
    SafeListener,
    StreamFiles,
)
from penstock.broker.streams.folders import names_in
from penstock.broker.streams.pending_block import BlockKeeper, BlocksInMemory, PendingBlock
from penstock.broker.streams.rows import StreamRows
from penstock.broker.streams.stream_target import (
    BadTarget,
    ChosenBlock,
    Ranges,
    chosen,
    covers,
    span_of,
)
from penstock.broker.streams.stream_values import StreamValues
from penstock.formats.replication_id import offset_of_id
from penstock.formats.stream_index import ENTRY_SIZE, HAS_PUBLISHER, UNSYNCED_AT, IndexEntry
from penstock.storage.errors import Damaged
from penstock.storage.stream_composer import ComposedMessages, StreamComposer
from penstock.storage.stream_log import StreamLog
from penstock.storage.stream_recovery import contiguous_before
from penstock.storage.stream_segment import (
    SegmentStretch,
    StreamSegment,
    segment_number,
)
from penstock.world.disk import DiskError


class BusyStreams:
    """Held by the replicated streams of a member. Dictionaries for their order and their quick look-up."""

    def __init__(self) -> None:
        # Those that have something for the operation of this tick.
        self.touched: dict[ReplicatedFiles, None] = {}
        # Those whose files change with a commit.
        self.waiting: dict[ReplicatedFiles, None] = {}

        self.memory: BlocksInMemory = BlocksInMemory()

    def take_touched(self) -> "list[ReplicatedFiles]":
        taken = list(self.touched)
        self.touched.clear()
        return taken


class GivenUp:
    """A segment that is not part of the stream any more. Its files stay until that is committed, and
    until a flush is over that was asked for later: an earlier one may use them.
    """

    def __init__(self, segment: StreamSegment, position: int) -> None:
        self.segment: StreamSegment = segment
        # Of the journal; NO_LIMIT until the tick is written.
        self.position: int = position
        # The flush that was asked for later; NO_LIMIT until there is one.
        self.flush: int = NO_LIMIT


class ReplicatedFiles(StreamFiles):
    """Held by the member's replicated streams under its number, by its stream, and by the store while it
    waits for a flush.
    """

    def __init__(
        self,
        store: StreamStore,
        keeper: BlockKeeper,
        busy: BusyStreams,
        number: int,
        folder: str,
        names: list[str],
        segment_bytes_max: int,
        wall: int,
        values: StreamValues,
    ) -> None:
        """Opens what is there, or begins anew. Raises a `StorageError` for damage."""
        self._keeper: BlockKeeper = keeper
        self._busy: BusyStreams = busy
        self.number: int = number
        self._folder: str = folder
        self.values: StreamValues = values
        own = names_in(folder, names)
        first = values.first_offset
        # Retention has given up earlier ones, but that may not be committed.
        low = contiguous_before(store.disk, folder, own, first)
        for name in own:
            if 0 <= segment_number(folder, name) < low:
                store.disk.remove(name)
        kept = [name for name in own if segment_number(folder, name) >= low]
        safe_end = store.durable_ends.get(folder, 0)
        log = StreamLog(store.disk, folder, kept, segment_bytes_max, wall, first, safe_end)
        log.is_committed = True
        super().__init__(store, log, values.cursors, values.publishers)
        # Of virtual host and stream, for changes of its values.
        self.vhost_name: str = ""
        self.name: str = ""
        self._pending: deque[PendingBlock] = deque()
        # Appended to the files and not known to be durable there.
        self._unflushed: deque[PendingBlock] = deque()
        self._given_up: list[GivenUp] = []
        # What was composed early in this tick; and where the root composes.
        self._composed: list[ComposedMessages] = []
        self._composer: StreamComposer | None = None
        # The first offset before retention in this tick.
        self._truncated_from: int = NO_LIMIT
        self._unnamed: Properties | None = None
        # For each flush that is on its way: whether the stream was deleted before. And how many were
        # asked for, and are done.
        self._requests: deque[bool] = deque()
        self._asked: int = 0
        self._done: int = 0
        self._is_deleted: bool = False
        self.trim(NO_LIMIT)
        # After a crash the page cache may hold more than the disk.
        store.wrote_meanwhile(self, log.dirty_files())

    def begin(self, listener: SafeListener, journal: QueueJournal | None) -> None:
        self.listener = listener

    # The root's side.

    def end_offset(self) -> int:
        composer = self._composer
        if composer is not None:
            return composer.end_offset + composer.composed_count
        return self._pending[-1].end_offset if self._pending else self.log.end_offset

    def _begin_composing(self) -> StreamComposer:
        """Behind everything that is there."""
        log = self.log
        segment_first, position, timestamp = log.segment_first, log.log_size, log.last_timestamp
        if self._pending:
            last = self._pending[-1]
            entries = last.stretch(self._keeper, last.end_offset - 1, 1).entries
            entry = IndexEntry(entries, 0)
            segment_first, position = last.segment_first, entry.end()
            timestamp = max(timestamp, entry.timestamp)
        composer = StreamComposer(
            log.segment_bytes_max, segment_first, self.end_offset(), position, timestamp
        )
        self._composer = composer
        return composer

    def _composing(self, wall: int) -> StreamComposer:
        composer = self._composer
        if composer is None:
            composer = self._begin_composing()
        if composer.must_roll():
            composer.begin_segment()
            self.retain(wall)
        self._busy.touched[self] = None
        return composer

    def add(self, message: Message, wall: int) -> int:
        properties = message.properties
        header = properties.encoded()
        composer = self._composing(wall)
        sent: Sent | None = None
        if properties is not self._unnamed:
            sent = sent_of(properties) if ID_OCTETS in header else None
            if sent is None:
                self._unnamed = properties
        offset = DUPLICATE
        if sent is None or not self.publishers.check_and_note(sent):
            flags = 0 if sent is None else HAS_PUBLISHER
            offset = composer.add(message.address.octets(), header, message.body, flags, wall)
            if composer.is_full_batch():
                self._composed.append(composer.take())
        message.is_journalled = True
        return offset

    def add_rows(self, rows: StreamRows, wall: int) -> int:
        composer = self._composing(wall)
        offset = composer.end_offset + composer.composed_count
        for span in rows.spans:
            # That they are here is part of the same operation, so that they need no note.
            composer.add_repeats(
                span.run.address, span.run.header, span.payloads(), span.count, 0, wall
            )
        self.values.note_rows(rows.stage, rows.end)
        return offset

    def end_of_tick(self, wall: int) -> None:
        """The store takes what was composed, at the very end of the tick."""

    def take_composed(self) -> list[ComposedMessages]:
        """For the operation of this tick."""
        taken = self._composed
        self._composed = []
        if self._composer is not None and self._composer.composed_count:
            taken.append(self._composer.take())
        return taken

    def take_truncated(self) -> Ranges:
        """Ids of the messages that retention gave up in this tick."""
        first = self._truncated_from
        self._truncated_from = NO_LIMIT
        if first == NO_LIMIT:
            return []
        return self.values.epochs.ranges(first, self.values.first_offset)

    def write_cursors(self) -> None:
        self.values.writes_cursors = True
        self._busy.touched[self] = None

    def keep_stages(self, stages: set[str]) -> None:
        for stage in list(self.publishers.stages):
            if stage not in stages:
                self.forget_stage(stage)

    def forget_stage(self, stage: str) -> None:
        self.values.forget_stage(stage)
        self._busy.touched[self] = None

    def retain(self, wall: int) -> None:
        if not self.has_retention():
            return
        oldest = NO_LIMIT if self.age_ms_max == NO_LIMIT else wall - self.age_ms_max
        doomed = self.log.take_doomed(self.bytes_max, oldest)
        if not doomed:
            return
        if self._truncated_from == NO_LIMIT:
            self._truncated_from = self.values.first_offset
        self.values.first_offset = self.log.first_offset
        # The position is known when the tick is written.
        self._give_up(doomed, NO_LIMIT)
        self._busy.touched[self] = None

    def tick_written(self, position: int) -> None:
        """The operation of this tick ends at this position of the journal."""
        for given_up in self._given_up:
            if given_up.position == NO_LIMIT:
                given_up.position = position

    # What operations bring, on any server.

    def add_block(self, block: PendingBlock) -> None:
        """The journal has it. On the root it was composed here; others have composed nothing."""
        self.values.epochs.note(block.first_id)
        self._pending.append(block)
        self._busy.waiting[self] = None

    def truncate(self, ranges: Ranges, position: int) -> None:
        """The root's retention gave up these ids; the journal says so at this position."""
        first, count = ranges[-1]
        self.values.first_offset = max(self.values.first_offset, offset_of_id(first) + count)
        self.trim(position)

    def trim(self, position: int) -> None:
        """Give up the segments that retention does not keep."""
        taken = self.log.take_before(self.values.first_offset)
        if taken:
            self._give_up(taken, position)

    def _give_up(self, segments: list[StreamSegment], position: int) -> None:
        self._given_up.extend([GivenUp(segment, position) for segment in segments])
        self._busy.waiting[self] = None
        self._store.wrote_meanwhile(self, [])

    # Into the files.

    def is_pending(self, position: int) -> bool:
        """Whether a commit of this position of the journal lets files change."""
        if self._pending and self._pending[0].position <= position:
            return True
        return bool(self._given_up) and self._may_remove(self._given_up[0], position)

    def _may_remove(self, given_up: GivenUp, position: int) -> bool:
        return 0 <= given_up.position <= position and 0 <= given_up.flush < self._done

    def committed(self, position: int, octets_max: int) -> int:
        """Everything up to this position of the journal is committed, and durable here: append some
        of it to the files, about so many octets. Returns how many.
        """
        while self._given_up and self._may_remove(self._given_up[0], position):
            self._given_up.pop(0).segment.remove()
        appended = 0
        pending = self._pending
        try:
            while pending and pending[0].position <= position and appended < octets_max:
                block = pending[0]
                taken = block.stretch(self._keeper, block.first_offset, block.count)
                self.log.append(taken.segment_first, taken.entries, taken.payloads)
                pending.popleft()
                self._busy.memory.let_go(block)
                self._unflushed.append(block)
                appended += len(taken.entries) + len(taken.payloads)
        except DiskError as error:
            self._store.failure = str(error)
        if appended:
            self.trim(position)
            self._store.wrote_meanwhile(self, self.log.dirty_files())
            if self.listener is not None:
                self.listener.became_readable()
        if not pending and not self._given_up:
            self._busy.waiting.pop(self, None)
        return appended

    def mark(self) -> int:
        self._requests.append(self._is_deleted)
        for given_up in self._given_up:
            if given_up.flush == NO_LIMIT:
                given_up.flush = self._asked
        self._asked += 1
        self.log.flush_requested()
        return self.log.end_offset

    def became_durable(self, mark: int, now: int) -> None:
        self._done += 1
        if self._requests.popleft():
            for segment in [given_up.segment for given_up in self._given_up] + self.log.segments:
                segment.remove()
            self._given_up = []
            self.log.segments = []
        if self._is_deleted:
            return
        self.log.became_durable(mark)
        unflushed = self._unflushed
        while unflushed and unflushed[0].end_offset <= self.log.durable_offset:
            self._release(unflushed.popleft())

    def _release(self, block: PendingBlock) -> None:
        self._busy.memory.let_go(block)
        self._keeper.released(block.location, block.size)

    def delete(self) -> None:
        self.listener = None
        self._is_deleted = True
        self._composer = None
        self._composed = []
        self._busy.touched.pop(self, None)
        self._busy.waiting.pop(self, None)
        for block in [*self._pending, *self._unflushed]:
            self._release(block)
        self._pending.clear()
        self._unflushed.clear()
        self._store.wrote_meanwhile(self, [])

    # What it holds.

    def ids(self) -> Ranges:
        return self.values.epochs.ranges(self.values.first_offset, self.end_offset())

    def given_up_ids(self) -> Ranges:
        """Of segments that are still there."""
        return self.values.epochs.ranges(self._first_there(), self.values.first_offset)

    def _first_there(self) -> int:
        """Where the files begin, with what retention has given up and what is still there."""
        first = self.log.first_offset
        for given_up in reversed(self._given_up):
            if given_up.segment.end_offset() != first:
                break
            first = given_up.segment.first_offset
        return first

    def stretch(self, offset: int, count_max: int, octets_max: int) -> SegmentStretch:
        """Messages from an offset on as they are stored, at least one: it is there."""
        if offset < self.log.end_offset:
            return self.log.stretch(offset, count_max, octets_max)
        for block in self._pending:
            if offset < block.end_offset:
                return block.stretch(self._keeper, offset, count_max)
        raise AssertionError("an offset that is there")

    def messages(self) -> Iterator[bytes]:
        """Each one with its entry, without how much was durable; for whoever compares replicas."""
        offset = self.values.first_offset
        while offset < self.end_offset():
            found = self.stretch(offset, READ_COUNT_MAX, READ_BYTES_MAX)
            start = IndexEntry(found.entries, 0).position
            for at in range(0, len(found.entries), ENTRY_SIZE):
                entry = IndexEntry(found.entries, at)
                payload = found.payloads[entry.position - start : entry.end() - start]
                yield found.entries[at : at + UNSYNCED_AT] + payload
            offset += found.count

    def waiting(self) -> list[QueueEntry]:
        found: list[QueueEntry] = []
        for block in self._pending:
            taken = block.stretch(self._keeper, block.first_offset, block.count)
            for place, message in enumerate(self._decoded(taken.messages())):
                found.append(QueueEntry(message, block.first_offset + place))
        return found

    def pending(self) -> list[PendingBlock]:
        return list(self._pending)

    def unreleased(self) -> list[PendingBlock]:
        """Everything that the journal keeps for it."""
        return [*self._unflushed, *self._pending]

    # After a start, after a SYNC, and when the server steps down.

    def inherited(self, position: int) -> None:
        """This server becomes the root: nothing that waits is committed before this position of the
        journal is.
        """
        for block in self._pending:
            block.position = position
        for given_up in self._given_up:
            given_up.position = position

    def restored(self, blocks: list[PendingBlock], position: int) -> None:
        """After a start: what the journal, which ends at this position, has for it, in order. Raises
        `Damaged`.
        """
        for block in blocks:
            self.values.epochs.note(block.first_id)
            if block.end_offset <= self.log.end_offset:
                # A flush that comes covers the files; until then the journal has it.
                self._unflushed.append(block)
                continue
            if block.first_offset > self.end_offset():
                raise Damaged(
                    self._folder,
                    0,
                    f"messages {self.end_offset()} to {block.first_offset - 1} are missing",
                )
            block.keep_from(self.end_offset())
            self.add_block(block)
        self.inherited(position)

    def blocks_for(self, target: Ranges, staged: list[PendingBlock]) -> list[ChosenBlock]:
        """What must follow the files so that the stream becomes the target. Raises `BadTarget`."""
        first, end = span_of(target)
        files_end = self.log.end_offset
        if first < files_end and (
            self._first_there() > first
            or not covers(target, self.values.epochs.ranges(first, files_end))
        ):
            raise BadTarget(
                f"the files of {self._folder} do not begin where those of the root do, or have "
                "committed messages that the root does not have; replace this server"
            )
        return chosen(target, max(first, files_end), end, [*self._pending, *staged])

    def adopt(self, values: StreamValues) -> None:
        """Everything that is defined was made anew."""
        self.values = values
        self.cursors = values.cursors
        self.publishers = values.publishers
        self.listener = None
        self._composer = None

    def become(self, blocks: list[ChosenBlock], first_offset: int, position: int) -> None:
        """SYNC-DONE, at this position of the journal: these follow the files, and retention has left
        what is from an offset on. Others that it had are released by the caller.
        """
        self.values.first_offset = first_offset
        while self._given_up and self._given_up[-1].segment.end_offset() > first_offset:
            self.log.put_back(self._given_up.pop().segment)
        if first_offset > self.log.end_offset:
            self._begin_at(first_offset, position)
        self._pending.clear()
        for one in blocks:
            one.block.keep_between(one.first_id, one.end_id)
            one.block.position = position
            self.add_block(one.block)
        self.trim(position)

    def _begin_at(self, first_offset: int, position: int) -> None:
        """Nothing of what the files have is left: they begin anew."""
        old = self.log
        self._give_up(old.segments, position)
        self.log = StreamLog(
            self._store.disk, self._folder, [], old.segment_bytes_max, 0, first_offset
        )
        self.log.is_committed = True
        for block in self._unflushed:
            self._release(block)
        self._unflushed.clear()
