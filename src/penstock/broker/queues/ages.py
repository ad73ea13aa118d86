"""How long messages are in a queue, known from a few stamps and not from every message.

A stamp says that messages from a position on arrived at a time or up to an interval later. A queue
makes at most one per STAMP_MS, so that a message costs one comparison. Intervals grow with the age
of what is oldest: an age is too high by at most STAMP_MS, or by one part in RESOLUTION of the age
that the oldest message had when the message arrived.

Times in the queue are sampled in the same way: at most once per SAMPLE_MS one delivery is looked at,
and it stands for all deliveries since the sample before it.

Invariants: positions and times of stamps grow; stamps are in memory only, so after a restart the
messages that the journal had count from the restart on.
"""

from typing import Final

# As fine as people look at ages, and so rare that a queue with a million messages per second does
# not notice it.
STAMP_MS: Final = 10
SAMPLE_MS: Final = 10
# Stamps are this part of the oldest age apart. A queue that grows for a year has about 1,400 of
# them, 30 KB; one whose messages are younger than a second has at most 100.
RESOLUTION: Final = 64
# Stamps that count no more are cut off when they are this many: a cut moves all others.
TRIM_COUNT: Final = 16
# Upper bounds of the time that a message was in its queue before it was delivered; the first is
# what can be told apart. Dashboards and alarms name them, so they do not change.
BUCKETS_MS: Final = (
    10,
    50,
    100,
    500,
    1_000,
    5_000,
    10_000,
    60_000,
    600_000,
    3_600_000,
    86_400_000,
)


class TimeInQueue:
    """How many deliveries came how long after their message. Held by `QueueAges`."""

    def __init__(self) -> None:
        # One for each of BUCKETS_MS, and one for what took longer.
        self.counts: list[int] = [0] * (len(BUCKETS_MS) + 1)
        self.count: int = 0
        self.sum_ms: int = 0

    def add(self, waited_ms: int, count: int) -> None:
        bucket = 0
        while bucket < len(BUCKETS_MS) and waited_ms > BUCKETS_MS[bucket]:
            bucket += 1
        self.counts[bucket] += count
        self.count += count
        self.sum_ms += waited_ms * count

    def merge(self, other: "TimeInQueue") -> None:
        for bucket, count in enumerate(other.counts):
            self.counts[bucket] += count
        self.count += other.count
        self.sum_ms += other.sum_ms


class QueueAges:
    """Held by a queue from its first message on."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._times: list[int] = []
        # So many of them count no more.
        self._start: int = 0
        self._waited: TimeInQueue = TimeInQueue()
        self._last_waited_ms: int = 0

    def arrived(self, position: int, oldest: int, now: int) -> int:
        """Stamp the position that is taken next; messages before `oldest` are gone. Returns when
        the next stamp is due.
        """
        self._trim(position, oldest)
        self._positions.append(position)
        self._times.append(now)
        return now + max(STAMP_MS, (now - self._times[self._start]) // RESOLUTION)

    def _trim(self, position: int, oldest: int) -> None:
        start = self._start
        end = len(self._positions)
        if oldest >= position:
            # The queue is empty.
            start = end
        # The last stamp that is not after the oldest message is its own.
        while start + 1 < end and self._positions[start + 1] <= oldest:
            start += 1
        if start >= TRIM_COUNT or start == end:
            del self._positions[:start]
            del self._times[:start]
            start = 0
        self._start = start

    def arrival_of(self, position: int, now: int) -> int:
        """When the message of a position arrived, as far as is known: not later than that. What is
        older than every stamp came before the first; without any it came just now.
        """
        low = self._start
        high = len(self._positions)
        if low == high:
            return now
        while low < high:
            middle = (low + high) // 2
            if self._positions[middle] <= position:
                low = middle + 1
            else:
                high = middle
        return self._times[max(low - 1, self._start)]

    def delivered(self, position: int, delivered_total: int, now: int) -> int:
        """One of the deliveries since the last sample, of which there have been so many in all.
        Returns when the next sample is due.
        """
        self._last_waited_ms = now - self.arrival_of(position, now)
        self._waited.add(self._last_waited_ms, delivered_total - self._waited.count)
        return now + SAMPLE_MS

    def time_in_queue(self, delivered_total: int) -> TimeInQueue:
        """With deliveries since the last sample, which are taken for like it."""
        if delivered_total > self._waited.count:
            self._waited.add(self._last_waited_ms, delivered_total - self._waited.count)
        return self._waited

    def stamp_count(self) -> int:
        return len(self._positions)
