"""The history of a run, line by line, and the rare events that occurred.

The digest over all lines is a run's fingerprint: the same seed must give the same one, in every
process and in both builds.
"""

import hashlib

from penstock.simulation.clock import VirtualClock


class History:
    """Held by all parts of a run; only ever appended to."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.lines: list[str] = []
        # Rare paths and faults, with how often each was reached.
        self.sightings: dict[str, int] = {}

    def now(self) -> int:
        return self._clock.now()

    def add(self, line: str) -> None:
        self.lines.append(f"{self._clock.microseconds} {line}")

    def sighted(self, what: str) -> None:
        self.sightings[what] = self.sightings.get(what, 0) + 1

    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()
