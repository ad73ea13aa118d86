"""Applies to the streams of a member what the root did to its own: appends and retention, by ids.

Appends stay in the journal until they are committed; then the files get them (`ReplicatedFiles`). What a
SYNC brings is staged in the journal, too, and takes effect with its record.
"""

from penstock.broker.store import records
from penstock.broker.store.appended_blocks import append_at, block_at
from penstock.broker.store.message_store import MessageStore
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.streams.stream_target import BadTarget, ChosenBlock, Ranges
from penstock.formats.stream_append import encode_append_head
from penstock.ha.replica_operation import BadOperation, ReplicaOperation
from penstock.storage.segment import segment_of

StreamTargets = dict[int, Ranges]


class StreamReplicator:
    """Held by the replica store."""

    def __init__(self, store: MessageStore, streams: ReplicatedStreams) -> None:
        self._store: MessageStore = store
        self.streams: ReplicatedStreams = streams

    # Operations.

    def check(self, operation: ReplicaOperation) -> None:
        """Raises `BadOperation` unless each append follows what its stream has, and each new number is
        new.
        """
        for change in operation.changes:
            if self.streams.knows(change.queue_number):
                raise BadOperation(f"a second queue is to have number {change.queue_number}")
        ends: dict[int, int] = {}
        for at in operation.append_places:
            append = append_at(operation.octets, at)
            files = self.streams.files.get(append.number)
            if files is not None and append.number not in ends:
                ends[append.number] = files.end_offset()
            expected = ends.get(append.number, 0)
            if append.first_offset() != expected:
                raise BadOperation(
                    f"message {append.first_offset()} of stream {append.number} does not follow "
                    f"message {expected - 1}"
                )
            ends[append.number] = expected + append.count

    def apply(self, operation: ReplicaOperation, base: int) -> None:
        """The operation is the journal's last batch, its payload at this location."""
        position = self._store.journal.position
        for at in operation.append_places:
            block = block_at(operation.octets, at, base)
            block.position = position
            self._store.lives.wrote_blocks(segment_of(base), 1, block.size, True)
            number = append_at(operation.octets, at).number
            self.streams.add_block(number, block, operation.octets, at + records.HEAD_SIZE)
        for record in operation.dequeued:
            files = self.streams.files.get(record.queue_number)
            if files is not None:
                files.truncate(record.ranges, position)
                self._store.lives.of(segment_of(base)).has_definitions = True

    # SYNC.

    def stage(self, octets: bytes, places: list[int], base: int) -> None:
        """Appends at these places of a batch that is not part of the state."""
        for at in places:
            block = block_at(octets, at, base)
            self._store.lives.wrote_blocks(segment_of(base), 1, block.size, False)
            self.streams.stage(append_at(octets, at).number, block)

    def chosen(self, targets: StreamTargets) -> dict[int, list[ChosenBlock]]:
        """What must follow the files of each stream. Raises `BadOperation`."""
        try:
            return {
                number: self.streams.blocks_for(number, ranges)
                for number, ranges in targets.items()
            }
        except BadTarget as error:
            raise BadOperation(f"a SYNC cannot be done: {error}") from error

    def become(self, targets: StreamTargets, blocks: dict[int, list[ChosenBlock]]) -> None:
        """SYNC-DONE is the journal's last batch, and the streams of the target are defined."""
        self.streams.become(targets, blocks, self._store.journal.position)

    # The root's side.

    def read(self, number: int, wanted: Ranges, octets_max: int) -> tuple[bytes, int]:
        """A record of messages from the first wanted id on; see `ReplicatedState.read`."""
        found = self.streams.read(number, wanted, octets_max)
        stretch = found.stretch
        if stretch is None:
            return b"", found.next_id
        head = encode_append_head(number, wanted[0][0], stretch.segment_first, stretch.count)
        pieces: list[bytes] = []
        records.append_parts(pieces, records.APPENDED, [head, stretch.entries, stretch.payloads])
        return b"".join(pieces), found.next_id
