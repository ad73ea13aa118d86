"""Records that are made before their entries arrive, and written with the tick in which they do."""

from array import array
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.queue_journal import PreparedRecords
from penstock.broker.store import records
from penstock.broker.store.record_run import NUMBER_SIZE, RecordRun

_POSITION_AT: Final = records.SINGLE_HEAD_SIZE


class StoredRecords(PreparedRecords):
    """Of one queue. Held by a prepared run, and by the store in the tick in which it is written."""

    def __init__(self, arrivals: "list[StoredRecords]", number: int) -> None:
        self._arrivals: list[StoredRecords] = arrivals
        self.number: int = number
        # Of the persistent ones, in order, with the offsets of their records.
        self._entries: list[QueueEntry] = []
        self._offsets: array[int] = array("Q")
        self._run: RecordRun = RecordRun()
        # Pieces of the batch, each with the records of some entries; and where each begins among
        # the entries.
        self.pieces: list[bytes] = []
        self._first_entries: list[int] = []
        self.size: int = 0
        self.body_bytes: int = 0
        # Where they begin in the batch.
        self.offset: int = 0
        # Entries that left their queue in the tick in which they came.
        self.gone: list[QueueEntry] = []

    @property
    def count(self) -> int:
        return len(self._entries)

    def add(self, entries: list[QueueEntry]) -> None:
        pieces: list[bytes] = []
        first = len(self._entries)
        for entry in entries:
            message = entry.message
            if not message.properties.persistent:
                continue
            self._entries.append(entry)
            self._offsets.append(self.size)
            # They never expire, so it does not matter what the wall clock shows.
            self.size += self._run.append(pieces, entry, self.number, 0)
            self.body_bytes += len(message.body)
        if pieces:
            self.pieces.append(b"".join(pieces))
            self._first_entries.append(first)

    def arrived(self, are_moved: bool) -> None:
        if are_moved:
            self._correct_positions()
        if self._entries:
            self._arrivals.append(self)

    def _correct_positions(self) -> None:
        for index in range(len(self.pieces)):
            piece = bytearray(self.pieces[index])
            begin = self._first_entries[index]
            is_last = index + 1 == len(self.pieces)
            end = len(self._entries) if is_last else self._first_entries[index + 1]
            start: int = self._offsets[begin]
            for place in range(begin, end):
                offset: int = self._offsets[place]
                at = offset - start + _POSITION_AT
                position = self._entries[place].position
                piece[at : at + NUMBER_SIZE] = position.to_bytes(NUMBER_SIZE, "big")
            self.pieces[index] = bytes(piece)

    def gone_positions(self) -> list[int]:
        """Of those that have left already; their records are written nevertheless."""
        self.gone = [entry for entry in self._entries if entry.is_gone]
        return [entry.position for entry in self.gone]

    def written(self, base: int) -> None:
        """The batch is written, its payload at this location."""
        start = base + self.offset
        for index, entry in enumerate(self._entries):
            offset: int = self._offsets[index]
            message = entry.message
            message.is_journalled = True
            message.location = start + offset
