"""The streams of a cluster's member, by their numbers, and what is staged for them by a SYNC."""

from typing import Final

from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.pending_block import BlockKeeper, PendingBlock
from penstock.broker.streams.replicated_files import BusyStreams, ReplicatedFiles
from penstock.broker.streams.stream_target import ChosenBlock, Ranges, chosen, span_of
from penstock.broker.streams.stream_values import StreamValues
from penstock.formats.replication_id import offset_of_id
from penstock.storage.stream_segment import SegmentStretch

# Appended to files in one tick: a few milliseconds. The rest follows in the next ticks.
MOVED_BYTES_MAX: Final = 4 * 1024 * 1024
# Files are flushed when so much was appended to them, or after this time. Until then the journal has
# it, too, so that nobody waits for it.
UNFLUSHED_BYTES_MAX: Final = 32 * 1024 * 1024
FLUSH_MS: Final = 1000


class ReplicatedStreams:
    """Held by the store of a member, and by its streams."""

    def __init__(self, store: StreamStore) -> None:
        self._store: StreamStore = store
        # The journal. Set before any stream is opened.
        self.keeper: BlockKeeper = BlockKeeper()
        self.files: dict[int, ReplicatedFiles] = {}
        self.busy: BusyStreams = BusyStreams()
        # Messages of a SYNC that is not done, by the number of their stream.
        self.staged: dict[int, list[PendingBlock]] = {}
        # Those that were opened since everything was made anew.
        self._opened: set[int] = set()
        self._unflushed_bytes: int = 0
        self._flushed_at: int = 0

    # Their life.

    def open(
        self,
        number: int,
        folder: str,
        names: list[str],
        segment_bytes_max: int,
        wall: int,
        values: StreamValues,
    ) -> ReplicatedFiles:
        """The files of a stream that is defined: those that are open, or those on disk, or new ones.
        Raises a `StorageError` for damage.
        """
        known = self.files.get(number)
        self._opened.add(number)
        if known is not None:
            known.adopt(values)
            return known
        files = ReplicatedFiles(
            self._store,
            self.keeper,
            self.busy,
            number,
            folder,
            names,
            segment_bytes_max,
            wall,
            values,
        )
        self.files[number] = files
        return files

    def closed(self, number: int) -> None:
        """The stream is deleted."""
        files = self.files.pop(number, None)
        if files is not None:
            files.delete()

    def begin_anew(self) -> None:
        """All definitions are dropped; streams are opened again as far as they are still there."""
        self._opened.clear()
        self.busy.touched.clear()

    def end_anew(self) -> None:
        for number in [number for number in self.files if number not in self._opened]:
            self.closed(number)

    # Operations.

    def add_block(self, number: int, block: PendingBlock, octets: bytes, at: int) -> None:
        """An operation appended it; `octets` have it at a place."""
        files = self.files.get(number)
        if files is None:
            # The stream was deleted in the same operation.
            self.keeper.released(block.location, block.size)
            return
        self.busy.memory.keep(block, octets, at)
        files.add_block(block)

    def is_waiting(self) -> bool:
        return bool(self.busy.waiting)

    def has_pending(self, position: int) -> bool:
        """Whether a commit of this position of the journal lets files change."""
        return any([files.is_pending(position) for files in self.busy.waiting])

    def committed(self, position: int) -> None:
        """Everything up to this position of the journal is committed, and durable here."""
        octets = 0
        for files in list(self.busy.waiting):
            if files.is_pending(position):
                octets += files.committed(position, MOVED_BYTES_MAX - octets)
                if octets >= MOVED_BYTES_MAX:
                    break
        self._unflushed_bytes += octets

    def tick(self, now: int) -> None:
        """A few times a second: flush files now and then."""
        if self._unflushed_bytes < UNFLUSHED_BYTES_MAX and now - self._flushed_at < FLUSH_MS:
            return
        self._flushed_at = now
        self._unflushed_bytes = 0
        self._store.is_due = self._store.is_due or self._store.has_unflushed()

    # What they hold.

    def ids(self) -> dict[int, Ranges]:
        """Streams without messages are left out."""
        found = {number: files.ids() for number, files in self.files.items()}
        return {number: ranges for number, ranges in found.items() if ranges}

    def staged_ids(self) -> dict[int, Ranges]:
        """Of what is staged, which may overlap, and of segments that retention has given up and that
        are still there.
        """
        found = {number: files.given_up_ids() for number, files in self.files.items()}
        for number, blocks in self.staged.items():
            ranges = [(block.first_id, block.count) for block in blocks]
            found.setdefault(number, []).extend(ranges)
        return found

    def read(self, number: int, wanted: Ranges, octets_max: int) -> "ReadMessages":
        """Messages of one stream from the first wanted id on."""
        files = self.files.get(number)
        if files is None:
            return ReadMessages(None, 0)
        first, count = wanted[0]
        offset = offset_of_id(first)
        stretch: SegmentStretch | None = None
        done = files.values.first_offset - offset
        if done <= 0:
            stretch = files.stretch(offset, count, octets_max)
            done = stretch.count
        if done < count:
            return ReadMessages(stretch, first + done)
        return ReadMessages(stretch, wanted[1][0] if len(wanted) > 1 else 0)

    # SYNC.

    def stage(self, number: int, block: PendingBlock) -> None:
        self.staged.setdefault(number, []).append(block)

    def discard_staged(self) -> None:
        for blocks in self.staged.values():
            for block in blocks:
                self.keeper.released(block.location, block.size)
        self.staged.clear()

    def knows(self, number: int) -> bool:
        """Whether the number is a stream's that has messages here, staged ones included."""
        return number in self.files or number in self.staged

    def blocks_for(self, number: int, target: Ranges) -> list[ChosenBlock]:
        """What must follow the files so that a stream becomes the target. Raises `BadTarget`."""
        staged = self.staged.get(number, [])
        files = self.files.get(number)
        if files is not None:
            return files.blocks_for(target, staged)
        first, end = span_of(target)
        return chosen(target, first, end, staged)

    def become(
        self, targets: dict[int, Ranges], blocks: dict[int, list[ChosenBlock]], position: int
    ) -> None:
        """SYNC-DONE at this position of the journal, and all streams are opened again. What they had
        in the journal and is not part of the target is released, and so is what was staged.
        """
        before: dict[PendingBlock, None] = {}
        for staged in self.staged.values():
            before.update(dict.fromkeys(staged))
        for files in self.files.values():
            before.update(dict.fromkeys(files.pending()))
        self.staged.clear()
        for number, files in self.files.items():
            target = targets.get(number)
            first = files.values.first_offset if target is None else offset_of_id(target[0][0])
            files.become(blocks.get(number, []), first, position)
            for block in files.pending():
                before.pop(block, None)
        for block in before:
            self.busy.memory.let_go(block)
            self.keeper.released(block.location, block.size)


class ReadMessages:
    """What was read for another server."""

    def __init__(self, stretch: SegmentStretch | None, next_id: int) -> None:
        # None when retention has given them up, or the stream is gone.
        self.stretch: SegmentStretch | None = stretch
        # The next wanted one; 0 when there is none.
        self.next_id: int = next_id
