"""How long publishers wait for their confirms, from batches and not from messages.

Messages that came in one tick and are answered in one tick are one batch, however many they are. Its
time runs from the beginning of the tick that brought the first of them, which is when the broker read
it, to the moment when the confirm was written. Nothing is done per message.
"""

from typing import Final

# Upper bounds in milliseconds, the resolution of the broker's clock. Most confirms of transient
# messages take less than the first, those of durable ones as long as a flush of the disk. Dashboards
# and alerts name them, so they do not change.
CONFIRM_BUCKETS_MS: Final = (
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    60_000,
)


class ConfirmTimes:
    """Held by `Durability`; filled at the end of ticks and read by whoever makes metrics."""

    def __init__(self) -> None:
        # One for each of CONFIRM_BUCKETS_MS, and one for what took longer.
        self.counts: list[int] = [0] * (len(CONFIRM_BUCKETS_MS) + 1)
        self.sum_ms: int = 0
        # What was answered in this tick and is not written yet: how many, by when it came.
        self._answered: dict[int, int] = {}

    def answered(self, came: int, count: int) -> None:
        """So many messages of the tick that began then."""
        self._answered[came] = self._answered.get(came, 0) + count

    def written(self, now: int) -> None:
        """What was answered since the last call is on its way to the clients."""
        if not self._answered:
            return
        for came, count in self._answered.items():
            waited_ms = now - came
            bucket = 0
            while bucket < len(CONFIRM_BUCKETS_MS) and waited_ms > CONFIRM_BUCKETS_MS[bucket]:
                bucket += 1
            self.counts[bucket] += count
            self.sum_ms += waited_ms * count
        self._answered.clear()
