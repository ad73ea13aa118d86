"""The times of the protocol, in milliseconds of the monotonic clock; `scaled` for simulations."""

from dataclasses import dataclass
from typing import Final

# Clocks of two servers may differ by this part of their rate: 20 ms in 400. Crystals differ by a
# hundredth of it; what is above is for virtual machines. With more, two roots may deliver at once.
DRIFT_DIVISOR: Final = 20


@dataclass(frozen=True, slots=True)
class Timing:
    """Held by everything that waits; the same on every member."""

    # The root sends ROOT this often; the lease allows for five that get lost.
    heartbeat_ms: int = 250
    # A root serves this long after sending a heartbeat that a majority answered.
    lease_ms: int = 1500
    # Nobody votes for this long after hearing a root: the lease, drift, and a margin for rounding.
    grace_ms: int = 1800
    # Without a root for this long, the most senior eligible server campaigns.
    elect_ms: int = 2000
    # The next in seniority waits this much longer, so that one of them is alone: more than a heartbeat
    # that only the senior has heard, clocks that differ, and the jitter together.
    stagger_ms: int = 450
    # And everybody up to this much more, by chance: servers that disagree on their ranks would otherwise
    # campaign at the same moment again and again.
    jitter_ms: int = 50
    # A member that makes no progress for this long leaves the in-sync set.
    in_sync_ms: int = 1500
    # How long a candidate waits for all servers that are connected before a majority suffices.
    unanimous_ms: int = 500
    # A flush that takes longer means that the disk hangs: the root lets its lease end.
    disk_ms: int = 1000
    # How long clients are held while there is no active root.
    pause_ms: int = 60_000
    # A hand-over that takes longer is given up, and the root goes on.
    hand_over_ms: int = 1000

    def __post_init__(self) -> None:
        drift = self.lease_ms // DRIFT_DIVISOR
        assert self.grace_ms > self.lease_ms + drift, "a voter must outwait the lease of a root"
        assert self.elect_ms >= self.grace_ms, "nobody would vote for a candidate before that"
        lead = self.stagger_ms - self.jitter_ms - self.elect_ms // DRIFT_DIVISOR
        assert lead >= self.heartbeat_ms, "a senior that heard one heartbeat more goes first"
        assert self.heartbeat_ms * 2 < self.lease_ms, "a lost heartbeat must not end the lease"


def scaled(timing: Timing, numerator: int, denominator: int) -> Timing:
    """The same times, all shorter or longer."""
    return Timing(
        timing.heartbeat_ms * numerator // denominator,
        timing.lease_ms * numerator // denominator,
        timing.grace_ms * numerator // denominator,
        timing.elect_ms * numerator // denominator,
        timing.stagger_ms * numerator // denominator,
        timing.jitter_ms * numerator // denominator,
        timing.in_sync_ms * numerator // denominator,
        timing.unanimous_ms * numerator // denominator,
        timing.disk_ms * numerator // denominator,
        timing.pause_ms * numerator // denominator,
        timing.hand_over_ms * numerator // denominator,
    )
