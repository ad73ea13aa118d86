"""Reading what a member of a cluster holds: the ids of its messages, and their records.

A backup finds messages in the lists of its queues. On the root they are where clients left them: ready,
in memory or paged out, waiting for their commit, or out with consumers and sinks. What left a queue is
not found, and neither is what belongs to a queue that is deleted.
"""

import hashlib
from array import array
from collections.abc import Iterable
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.paged_list import found_in
from penstock.broker.queues.position_runs import Ranges, runs_of
from penstock.broker.queues.ready_list import ReadyList, merged, places_of
from penstock.broker.state import BrokerState
from penstock.broker.store import records
from penstock.broker.store.definition_records import encode_change
from penstock.broker.store.locations import may_be_spooled
from penstock.broker.store.reclaim import UnsettledSource, whole_snapshot
from penstock.broker.store.spool import SPOOLED
from penstock.broker.streams.opening import streams_of
from penstock.broker.streams.replicated_files import ReplicatedFiles
from penstock.storage.journal import Journal
from penstock.storage.segment import offset_of

# Ids that are looked up in one read at the most, a few milliseconds. Those that are gone have no
# octets, so octets alone would not bound it; what is left over is looked up by the next read.
LOOKED_UP_MAX: Final = 16_384
# Locations that are taken out of a list at once; about as many small messages as lie beside one another.
BLOCK_COUNT: Final = 256


class RecordReader:
    """Reads message records out of the journal, checked. Those that lie beside one another cost one
    read for many. Held for a few records, or from one piece of a SYNC to the next.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal: Journal = journal
        self._window: bytes = b""
        # The location of its first octet.
        self._start: int = 0
        # Of the last `row`.
        self.count_in_row: int = 0

    def record(self, location: int) -> records.MessageRecord:
        """Raises a `DiskError` when it is not what was written."""
        return records.MessageRecord(self.octets(location), 0)

    def octets(self, location: int) -> bytes:
        at = location - self._start
        if not self._holds(at):
            self._read(location, records.HEAD_SIZE)
            at = location - self._start
            if not self._holds(at):
                # Only part of a large batch was read, and the record is larger still.
                self._read(location, records.size_at(self._window, at))
                at = location - self._start
        return self._window[at : at + records.size_at(self._window, at)]

    def row(self, locations: list[int], index: int, octets_max: int) -> bytes:
        """Records that lie beside one another: that at one of these locations, and those behind it as far
        as they follow in the list and were read together, about so many octets. A record that names
        several queues stands alone. `count_in_row` is how many they are.
        """
        first = locations[index]
        if not self._holds(first - self._start):
            self.octets(first)
        window = self._window
        start = self._start
        at = first - start
        end = at + records.size_at(window, at)
        following = index + 1
        if records.pair_count_at(window, at) == 1:
            while (
                following < len(locations)
                and end - at < octets_max
                and locations[following] == start + end
                and self._holds(end)
                and records.pair_count_at(window, end) == 1
            ):
                end += records.size_at(window, end)
                following += 1
        self.count_in_row = following - index
        return window[at:end]

    def _holds(self, at: int) -> bool:
        window = self._window
        if at < 0 or at > len(window) - records.HEAD_SIZE:
            return False
        return at + records.size_at(window, at) <= len(window)

    def _read(self, location: int, size_min: int) -> None:
        checked = self._journal.checked(location, size_min)
        self._window = checked.data
        self._start = location - offset_of(location) + checked.start

    def body_octets(self, locations: Iterable[int]) -> int:
        """Of the bodies of these records, each counted once per location."""
        return sum([self.record(location).body_size for location in locations])


class PieceOctets:
    """What was read for one piece. Made for each."""

    def __init__(self, octets_max: int) -> None:
        self.octets: list[bytes] = []
        self._octets_max: int = octets_max
        self._size: int = 0
        self._looked_up: int = 0

    def add(self, octets: bytes, count: int) -> None:
        """Records of so many messages; none for what is gone."""
        self.octets.append(octets)
        self._size += len(octets)
        self._looked_up += count

    def octets_left(self) -> int:
        return self._octets_max - self._size

    def is_full(self) -> bool:
        return self._size >= self._octets_max or self._looked_up >= LOOKED_UP_MAX


class HeldMessages:
    """What a member holds at this moment, by queue number. Made for one question: the next tick
    changes it.
    """

    def __init__(self, state: BrokerState, journal: Journal, deliveries: UnsettledSource) -> None:
        self._journal: Journal = journal
        self._deliveries: UnsettledSource = deliveries
        self._state: BrokerState = state
        self._lists: dict[int, ReadyList] = {}
        self._queues: dict[int, MessageQueue] = {}
        # By number and position: found when it is needed first.
        self._out: dict[tuple[int, int], QueueEntry] | None = None
        for host in state.vhosts.values():
            for queue in host.queues.values():
                if queue.number and not queue.keeps_messages:
                    self._lists[queue.number] = queue.journal_list()
                    self._queues[queue.number] = queue
            if host.delay_line.number:
                self._lists[host.delay_line.number] = host.delay_line.waiting

    def numbers(self) -> list[int]:
        return sorted(self._lists)

    def out(self) -> dict[tuple[int, int], QueueEntry]:
        """What is out with consumers, and with sinks that publish it."""
        if self._out is None:
            self._out = {}
            for queue, entry in self._deliveries.unsettled():
                self._is_out(queue, entry)
            for host in self._state.vhosts.values():
                for sink in host.sinks.values():
                    for block in sink.taken:
                        self._is_out(block.stage, block.entry)
        return self._out

    def _is_out(self, queue: MessageQueue, entry: QueueEntry) -> None:
        if self._queues.get(queue.number) is queue and not entry.is_gone:
            assert self._out is not None, "made by the caller"
            self._out[queue.number, entry.position] = entry

    def everything(self) -> dict[int, tuple["array[int]", "array[int]"]]:
        """Positions and locations of every queue, in order."""
        away: dict[int, list[QueueEntry]] = {}
        for (number, _), entry in sorted(self.out().items(), key=_id_of):
            away.setdefault(number, []).append(entry)
        found: dict[int, tuple[array[int], array[int]]] = {}
        for number, ready in self._lists.items():
            places = without_spooled(ready.journalled())
            queue = self._queues.get(number)
            if queue is not None:
                places = merged(places, places_of(queue.waiting_entries()))
            found[number] = merged(places, places_of(away.get(number, [])))
        return found

    def ids(self) -> dict[int, Ranges]:
        """Queues without messages are left out."""
        return {
            number: runs_of(places[0]).ranges(0)
            for number, places in self.everything().items()
            if len(places[0])
        }

    def octets(self) -> dict[int, int]:
        """Of the bodies in each queue, what is not ready included."""
        found = {number: queue.ready_bytes for number, queue in self._queues.items()}
        for number, queue in self._queues.items():
            for entry in queue.waiting_entries():
                found[number] += len(entry.message.body)
        for host in self._state.vhosts.values():
            if host.delay_line.number:
                found[host.delay_line.number] = host.delay_line.octets
        for (number, _), entry in self.out().items():
            found[number] += len(entry.message.body)
        return found

    def location_of(self, number: int, position: int) -> int:
        """-1 when it is not there any more."""
        ready = self._lists.get(number)
        if ready is None:
            return -1
        location = ready.location_of(position)
        if location >= 0:
            return -1 if location & SPOOLED else location
        entry = ready.entry_of(position)
        if entry is None:
            queue = self._queues.get(number)
            if queue is not None:
                entry = found_in(queue.waiting_entries(), position)
        if entry is None:
            entry = self.out().get((number, position))
        return -1 if entry is None else entry.message.location

    def read(
        self, number: int, wanted: Ranges, octets_max: int, reader: RecordReader
    ) -> tuple[bytes, int]:
        """Message records of one queue in order of position, from the first wanted one on, about so
        many octets. Each names the queues that still hold it. Returns also the first position that
        was not looked up; 0 when none is left.
        """
        piece = PieceOctets(octets_max)
        for first, count in wanted:
            position = first
            end = first + count
            while position < end:
                if piece.is_full():
                    return b"".join(piece.octets), position
                position += self._read_some(number, position, end - position, reader, piece)
        return b"".join(piece.octets), 0

    def _read_some(
        self, number: int, position: int, count: int, reader: RecordReader, piece: "PieceOctets"
    ) -> int:
        """Add messages from a position on, at most so many; returns how many were looked up."""
        ready = self._lists.get(number)
        locations: list[int] = []
        if ready is not None:
            locations = ready.locations_from(position, min(count, BLOCK_COUNT))
        if not locations or locations[0] & SPOOLED:
            location = self.location_of(number, position)
            octets = b""
            if location >= 0:
                octets = self._living_pairs(reader.octets(location), location)
            piece.add(octets, 1)
            return 1
        index = 0
        while index < len(locations) and not piece.is_full():
            location = locations[index]
            if location & SPOOLED:
                break
            octets = reader.row(locations, index, piece.octets_left())
            if reader.count_in_row == 1:
                octets = self._living_pairs(octets, location)
            piece.add(octets, reader.count_in_row)
            index += reader.count_in_row
        return index

    def _living_pairs(self, octets: bytes, location: int) -> bytes:
        record = records.MessageRecord(octets, 0)
        if record.pair_count == 1:
            return octets
        living: list[int] = []
        for index in range(record.pair_count):
            if self.location_of(record.queue_number(index), record.position(index)) == location:
                living.append(index)
        return octets if len(living) == record.pair_count else record.with_pairs(living)

    def digest(self) -> str:
        """Of definitions, ids and messages: replicas are equal exactly if theirs are."""
        digest = hashlib.sha256()
        changes = whole_snapshot(self._state, self._deliveries)
        for text in sorted([encode_change(change) for change in changes]):
            digest.update(text + b"\n")
        reader = RecordReader(self._journal)
        for number, (positions, locations) in sorted(self.everything().items()):
            for index in range(len(positions)):
                record = reader.record(locations[index])
                own = [record.index_of(number, positions[index])]
                digest.update(record.with_pairs(own))
        for host in self._state.vhosts.values():
            for stream in streams_of(host.queues.values()):
                files = stream.files
                assert isinstance(files, ReplicatedFiles), "the stream of a member"
                for octets in files.messages():
                    digest.update(octets)
        return digest.hexdigest()


def _id_of(item: tuple[tuple[int, int], QueueEntry]) -> tuple[int, int]:
    return item[0]


def without_spooled(
    places: tuple["array[int]", "array[int]"],
) -> tuple["array[int]", "array[int]"]:
    """Only what is in the journal."""
    positions, locations = places
    if not may_be_spooled(locations):
        return places
    kept_positions: array[int] = array("Q")
    kept_locations: array[int] = array("Q")
    for index in range(len(positions)):
        if not locations[index] & SPOOLED:
            kept_positions.append(positions[index])
            kept_locations.append(locations[index])
    return kept_positions, kept_locations
