"""Reading a disk as a node that starts would, without starting one.

An independent check of the same bytes: the state of a running node and that of a restarted node are
both compared with it.
"""

from penstock.broker.store import records
from penstock.broker.store.recovery import StoreRecovery
from penstock.simulation.disk import SimulatedDisk
from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.recovery import BatchListener, recover
from penstock.storage.segment import offset_of, segment_name, segment_of


class Inspection(BatchListener):
    """What a disk holds now, page cache included. Changes nothing. Raises as recovery does."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._image = MemoryDisk()
        for name in disk.names():
            file = disk.open(name)
            self._image.open(name).append(file.read(0, file.size()))
        self._recovery = StoreRecovery()
        self.has_snapshot = False
        recovered = recover(self._image, bytes(16), self)
        self.segment_count = len(recovered.files)
        self.journal_bytes = sum([file.size() for file in recovered.files.values()])

    def batch(self, location: int, payload: bytes) -> None:
        at = 0
        while at < len(payload):
            if payload[at] == records.SNAPSHOT:
                self.has_snapshot = True
            at += records.size_at(payload, at)
        self._recovery.batch(location, payload)

    def bodies(self, queue_number: int) -> dict[int, bytes]:
        """By position, in order."""
        positions, locations = self._recovery.left_in(queue_number)
        return {
            position: self._record(location).body()
            for position, location in zip(positions, locations, strict=True)
        }

    def live_counts(self, queue_numbers: list[int]) -> dict[int, int]:
        """For each segment, how many pairs of these queues are needed in it."""
        counts: dict[int, int] = {}
        for number in queue_numbers:
            _, locations = self._recovery.left_in(number)
            for location in locations:
                segment = segment_of(location)
                counts[segment] = counts.get(segment, 0) + 1
        return counts

    def _record(self, location: int) -> records.MessageRecord:
        file = self._image.open(segment_name(segment_of(location)))
        at = offset_of(location)
        head = file.read(at, records.HEAD_SIZE)
        return records.MessageRecord(file.read(at, records.size_at(head, 0)), 0)
