"""Records that are made before their entries are enqueued, and written with the tick in which they
are.
"""

from typing import Final

from penstock.broker.discarded import Discarded
from penstock.broker.entry import QueueEntry
from penstock.broker.queues.queue_journal import PreparedRecords
from penstock.broker.store import records
from penstock.broker.store.repeats import NUMBER_SIZE, RepeatWriter
from penstock.storage.long_payload import LongPayload

_POSITION_AT: Final = records.SINGLE_HEAD_SIZE


class StoredRecords(PreparedRecords):
    """The records of one queue. Held by a prepared run, and by the store in the tick that writes
    it.
    """

    def __init__(
        self,
        arrivals: "list[StoredRecords]",
        number: int,
        discarded: Discarded,
        journals_all: bool = False,
    ) -> None:
        self._arrivals: list[StoredRecords] = arrivals
        self._discarded: Discarded = discarded
        self.number: int = number
        # Whether there are records of messages that are not persistent.
        self._journals_all: bool = journals_all
        # Of those that are written, in order.
        self._entries: list[QueueEntry] = []
        # How many one behind the other have records of one size, and that size.
        self._counts: list[int] = []
        self._sizes: list[int] = []
        self._writer: RepeatWriter = RepeatWriter()
        # Pieces of the batch, each with the records of some entries.
        self.payload: LongPayload = LongPayload()
        self.body_bytes: int = 0
        # Where they begin in the batch.
        self.offset: int = 0
        # Entries that were dequeued in the tick in which they were enqueued.
        self.gone: list[QueueEntry] = []

    @property
    def count(self) -> int:
        return len(self._entries)

    def add(self, entries: list[QueueEntry]) -> None:
        pieces: list[bytes] = []
        for entry in entries:
            message = entry.message
            if not (self._journals_all or message.properties.persistent):
                continue
            self._entries.append(entry)
            # They never expire, so it does not matter what the wall clock shows.
            size = self._writer.append(pieces, entry, self.number, 0)
            if self._sizes and self._sizes[-1] == size:
                self._counts[-1] += 1
            else:
                self._sizes.append(size)
                self._counts.append(1)
            self.body_bytes += len(message.body)
        if pieces:
            self.payload.add(b"".join(pieces))

    def arrived(self, are_moved: bool) -> None:
        if are_moved:
            self._correct_positions()
        if self._entries:
            self._arrivals.append(self)

    def _correct_positions(self) -> None:
        corrected = LongPayload()
        offsets = self._offsets()
        index = 0
        begin = 0
        for piece in self.payload.pieces:
            octets = bytearray(piece)
            while index < len(offsets) and offsets[index] < begin + len(piece):
                at = offsets[index] - begin + _POSITION_AT
                position = self._entries[index].position
                octets[at : at + NUMBER_SIZE] = position.to_bytes(NUMBER_SIZE, "big")
                index += 1
            corrected.add(bytes(octets))
            begin += len(piece)
        self.payload = corrected

    def _offsets(self) -> list[int]:
        found: list[int] = []
        offset = 0
        for stretch, count in enumerate(self._counts):
            for _ in range(count):
                found.append(offset)
                offset += self._sizes[stretch]
        return found

    def gone_positions(self) -> list[int]:
        """The positions of those already dequeued; their records are written nevertheless."""
        self.gone = [entry for entry in self._entries if entry.is_gone]
        return [entry.position for entry in self.gone]

    def gone_bytes(self) -> int:
        """Octets of the bodies of those."""
        return sum([len(entry.message.body) for entry in self.gone])

    def written(self, base: int) -> None:
        """The batch is written, its payload at this location."""
        entries = self._entries
        location = base + self.offset
        index = 0
        for stretch, count in enumerate(self._counts):
            size = self._sizes[stretch]
            end = index + count
            while index < end:
                message = entries[index].message
                message.is_journalled = True
                message.location = location
                location += size
                index += 1

    def forget(self) -> None:
        """Freed a part at a time."""
        self._discarded.add(self._entries)
        self._entries = []
