"""Which messages of a queue a server holds, as ranges of ids: what both sides tell when a backup joins.

    snapshots: queue count(4) | queue*
    queue:     number(8) | range count(4) | (first(8) | count(4))*

Both the backup's JOIN and the primary's SYNC carry the snapshots of all queues. The difference is what
has to be sent, and what the backup may discard.

*Invariants*: queue numbers ascend, and so do ranges. Adjacent ranges are allowed on the wire, because a
range may have more ids than its count can say, and a queue may continue in the next message.
"""

from struct import Struct
from typing import Final

from penstock.formats.octets import read_u32, read_u64
from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha.id_ranges import IdRanges, IdSets

# Ids have 62 bits.
ID_MAX: Final = (1 << 62) - 1
# The count of a range has four octets on the wire.
RANGE_COUNT_MAX: Final = 0xFFFF_FFFF

_U32: Final = Struct(">I")
_QUEUE: Final = Struct(">QI")
_RANGE: Final = Struct(">QI")
_QUEUE_SIZE: Final = 12
_RANGE_SIZE: Final = 12
# What the ids of a queue take beside their ranges, in ranges: the objects that hold them have about
# 350 octets.
QUEUE_RANGES: Final = 24


class QueueSnapshot:
    """One queue at the end of an operation. Made when a backup joins."""

    def __init__(self, number: int, ids: IdRanges) -> None:
        self.number: int = number
        self.ids: IdRanges = ids

    def lacked_by(self, held: IdSets) -> IdRanges:
        """What a server does not have that holds these ids."""
        other = held.get(self.number)
        return self.ids.copy() if other is None else self.ids.minus(other)

    def rows(self) -> list[bytes]:
        """Its ranges on the wire."""
        rows: list[bytes] = []
        for first, count in self.ids.ranges():
            left = count
            while left > RANGE_COUNT_MAX:
                rows.append(_RANGE.pack(first + count - left, RANGE_COUNT_MAX))
                left -= RANGE_COUNT_MAX
            rows.append(_RANGE.pack(first + count - left, left))
        return rows


def encode_in_parts(sets: IdSets, ranges_max: int) -> list[bytes]:
    """Each of at most so many ranges (0: without a limit); at least one part."""
    parts: list[bytes] = []
    fields: list[bytes] = []
    queues = 0
    room = ranges_max
    for number in sorted(sets):
        rows = QueueSnapshot(number, sets[number]).rows()
        at = 0
        while at < len(rows):
            taken = len(rows) - at if ranges_max == 0 else min(room, len(rows) - at)
            queues += 1
            fields.append(_QUEUE.pack(number, taken))
            fields.extend(rows[at : at + taken])
            at += taken
            room -= taken
            if ranges_max and room == 0:
                parts.append(_U32.pack(queues) + b"".join(fields))
                fields = []
                queues = 0
                room = ranges_max
    if fields or not parts:
        parts.append(_U32.pack(queues) + b"".join(fields))
    return parts


class SnapshotsReader:
    """Puts the snapshots of all queues together, which arrive in parts. One that is unordered, overlaps
    itself or is too large is refused.
    """

    def __init__(self, ranges_max: int) -> None:
        self.sets: IdSets = {}
        self._ranges_left: int = ranges_max
        self._ranges_max: int = ranges_max
        self._number: int = 0
        self._end: int = 0

    def read(self, data: bytes, at: int) -> int:
        """One part; returns the position behind it."""
        if len(data) < at + 4:
            raise BadPeerMessage("a set of ids is cut short")
        queues = read_u32(data, at)
        at += 4
        for _ in range(queues):
            if len(data) < at + _QUEUE_SIZE:
                raise BadPeerMessage("a set of ids is cut short")
            number = read_u64(data, at)
            count = read_u32(data, at + 8)
            at += _QUEUE_SIZE
            if len(data) < at + count * _RANGE_SIZE:
                raise BadPeerMessage(f"the ids of queue {number} are cut short")
            self._read_queue(number, count, data, at)
            at += count * _RANGE_SIZE
        return at

    def _read_queue(self, number: int, count: int, data: bytes, at: int) -> None:
        if number == 0 or number > ID_MAX:
            raise BadPeerMessage(f"{number} is not a valid queue number")
        if number < self._number:
            raise BadPeerMessage(
                f"queue {number} stands behind queue {self._number} in a set of ids"
            )
        if number > self._number:
            self._number = number
            self._end = 0
        if count == 0:
            raise BadPeerMessage(f"queue {number} has no ranges in a set of ids")
        ids = self.sets.get(number)
        self._ranges_left -= count if ids is not None else count + QUEUE_RANGES
        if self._ranges_left < 0:
            raise BadPeerMessage(
                f"a set of ids has more than {self._ranges_max} ranges, where each queue counts as "
                f"{QUEUE_RANGES}"
            )
        if ids is None:
            ids = IdRanges()
            self.sets[number] = ids
        for _ in range(count):
            first = read_u64(data, at)
            size = read_u32(data, at + 8)
            at += _RANGE_SIZE
            if first == 0 or size == 0 or first + size - 1 > ID_MAX:
                raise BadPeerMessage(f"{size} ids from {first} on are not a valid range")
            if first < self._end:
                raise BadPeerMessage(
                    f"the ids of queue {number} are not in order: {first} after {self._end - 1}"
                )
            self._end = first + size
            ids.add_range(first, size)
