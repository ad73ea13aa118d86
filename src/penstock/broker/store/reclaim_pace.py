"""How fast a segment is copied while clients publish: so that they keep most of their rate.

Copying costs the loop and the disk as much as publishing does, and a tick that has more to do at once
is not gathered with what arrives next. So while the journal grows, as much is copied as it grew, twice,
by ticks that come anyway. That is enough: at most half of what is copied lives, so as much is given
back as was written. Once nothing was written for a moment, copying goes on tick after tick.
"""

from typing import Final

# The journal grew a moment ago: clients will go on, as long as a publisher that waits for its confirm
# needs to publish again.
BUSY_MS: Final = 50
# Copied for each octet by which the journal grew.
COPIED_PER_WRITTEN: Final = 2
# Copied at least, so that publishers who write little do not keep a segment for ever: 16 MB/s.
BYTES_PER_MS: Final = 16 * 1024
# A smaller step is not worth a tick's attention, and waits for the next one.
STEP_BYTES_MIN: Final = 64 * 1024
# The journal's own headers and notes do not count as growth.
_NOTES_BYTES: Final = 1024


class ReclaimPace:
    """Held by the reclaimer."""

    def __init__(self, step_bytes: int, busy_ms: int) -> None:
        # What may be copied in one step.
        self._step_bytes: int = step_bytes
        self._step_bytes_min: int = min(step_bytes, STEP_BYTES_MIN)
        self._busy_ms: int = busy_ms
        self._busy_until: int = 0
        # What may be copied now, while clients publish.
        self._bytes: int = 0
        # Where the journal ended at the last step, when that was, and what was copied in it.
        self._position: int = 0
        self._looked_at: int = 0
        self._written: int = 0

    def look(self, position: int, now: int) -> None:
        """The journal ends here, before a step."""
        grown = position - self._position - self._written
        saved = max(COPIED_PER_WRITTEN * grown, BYTES_PER_MS * (now - self._looked_at))
        self._bytes = min(self._bytes + saved, self._step_bytes)
        if grown > _NOTES_BYTES:
            self._busy_until = now + self._busy_ms
        self._position = position
        self._looked_at = now
        self._written = 0

    def is_busy(self, now: int) -> bool:
        """Whether clients publish."""
        return now < self._busy_until

    def step_bytes(self, now: int) -> int:
        """How much may be read in this step; 0: wait for another tick."""
        if not self.is_busy(now):
            return self._step_bytes
        return self._bytes if self._bytes >= self._step_bytes_min else 0

    def copied(self, read_bytes: int, written_bytes: int) -> None:
        """What a step did. It ends behind a whole batch, so it may have read more than it should."""
        self._bytes -= read_bytes
        self._written = written_bytes
