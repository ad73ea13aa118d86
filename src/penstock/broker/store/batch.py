"""The batch that a tick becomes: what it changed, then housekeeping.

    | operation record | definitions | appended | messages | prepared | dequeued | housekeeping |
    |<- in a cluster ->|<------------ what the tick changed: the operation ---->|

Without a cluster there is no operation record, and the order is the same.
"""

from zlib import crc32

from penstock.broker.store import records
from penstock.broker.store.operation_log import OperationLog
from penstock.broker.store.prepared_records import StoredRecords
from penstock.storage.journal import NOT_SUMMED, Journal
from penstock.storage.long_payload import LongPayload


class Batch:
    """Made by the message store for every tick that has something to write."""

    def __init__(self, operations: OperationLog | None) -> None:
        self._operations: OperationLog | None = operations
        # Its records in order, but for what was prepared; and the octets of all.
        self.pieces: list[bytes] = []
        self.size: int = 0
        # Of the operation, with its record; 0 without a cluster, or when nothing changed.
        self.operation_size: int = 0
        self.epoch: int = 0
        self.k: int = 0
        # How many pieces come before what was prepared.
        self._before: int = 0
        self._prepared: list[StoredRecords] = []
        # What was appended, in pieces.
        self._appended: list[bytes] = []
        # Of the operation, if it is all there is and was appended in one piece.
        self._checksum: int = NOT_SUMMED
        if operations is not None:
            # The number of its octets is known last.
            self.pieces.append(b"")
            self.size = records.OPERATION_SIZE

    def add_prepared(self, stored: StoredRecords) -> None:
        """Records that were made beforehand."""
        if not self._prepared:
            self._before = len(self.pieces)
        self._prepared.append(stored)
        stored.offset = self.size
        self.size += stored.payload.size

    def end_operation(self) -> None:
        """Everything that the tick changed was added; what follows is housekeeping."""
        if self._operations is None:
            return
        octets = self.size - records.OPERATION_SIZE
        if not octets:
            self.pieces = []
            self.size = 0
            return
        self.epoch, self.k = self._operations.next_number()
        self.pieces[0] = records.operation_record(self.epoch, self.k, octets)
        self.operation_size = self.size

    def append_to(self, journal: Journal) -> int:
        """Returns the location of the batch's payload."""
        if not self._prepared:
            joined = b"".join(self.pieces)
            self._appended = [joined]
            if self.operation_size == self.size:
                # The backups need it, too.
                self._checksum = crc32(joined)
            return journal.append(joined, self._checksum)
        payload = LongPayload()
        payload.add(b"".join(self.pieces[: self._before]))
        for stored in self._prepared:
            payload.extend(stored.payload)
        payload.add(b"".join(self.pieces[self._before :]))
        self._appended = payload.pieces
        return journal.append_long(payload)

    def beginning(self) -> bytes:
        """What was appended, up to where the prepared messages begin."""
        return self._appended[0]

    def tell(self, position: int) -> None:
        """The journal ends at this position, and the store has noted everything."""
        if self._operations is None:
            return
        if not self.operation_size:
            self._operations.wrote_housekeeping(position)
        elif self._checksum != NOT_SUMMED:
            self._operations.wrote_summed(self._appended[0], position, self._checksum)
        else:
            self._operations.wrote(self._operation(), self.operation_size, position)

    def _operation(self) -> list[bytes]:
        if self.operation_size == self.size:
            return self._appended
        # Only the last of what was appended has housekeeping in it.
        last = self._appended[-1]
        kept = last[: len(last) - (self.size - self.operation_size)]
        return [*self._appended[:-1], kept] if kept else self._appended[:-1]
