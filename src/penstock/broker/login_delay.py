"""How long a failed login waits for its answer: longer with every failure, forgotten with time.

Counted per user and peer host, so that somebody who guesses passwords does not lock out the user
elsewhere. The server waits before it answers; nothing here knows a clock.
"""

from typing import Final

# The first mistake costs what nobody notices; each further one doubles it.
FIRST_DELAY_MS: Final = 100
# At this wait one connection tries 7 passwords a minute. It stays below the time that a handshake
# may take, so that the refusal is still heard.
DELAY_MS_MAX: Final = 8_000
# One failure is forgiven for each such time without another.
FORGIVEN_AFTER_MS: Final = 60_000
# Failures beyond the longest delay are not counted: forgiving them would take for ever.
FAILURES_MAX: Final = 10
# Bounds the memory that strangers can fill (about 3 MB). At the limit the pair that failed longest
# ago is forgotten, so guessing through more user names than this is slowed only by the hash.
PAIRS_MAX: Final = 10_000


class Failures:
    """Of one user from one host."""

    def __init__(self) -> None:
        self.count: int = 0
        self.at: int = 0


class LoginDelays:
    """Held by the broker's state; dialects tell it how logins ended."""

    def __init__(self) -> None:
        # In order of the last failure, because every failure puts its pair at the end.
        self._failures: dict[tuple[str, str], Failures] = {}

    def failed(self, user: str, host: str, now: int) -> int:
        """Count a failure; returns how many milliseconds its answer must wait."""
        pair = (user, host)
        failures = self._failures.pop(pair, None)
        if failures is None:
            failures = Failures()
            if len(self._failures) >= PAIRS_MAX:
                del self._failures[next(iter(self._failures))]
        failures.count = min(_remaining(failures, now) + 1, FAILURES_MAX)
        failures.at = now
        self._failures[pair] = failures
        return delay_ms(failures.count)

    def succeeded(self, user: str, host: str) -> None:
        self._failures.pop((user, host), None)

    @property
    def pair_count(self) -> int:
        return len(self._failures)


def delay_ms(failure_count: int) -> int:
    if failure_count <= 0:
        return 0
    return min(FIRST_DELAY_MS << min(failure_count - 1, FAILURES_MAX), DELAY_MS_MAX)


def _remaining(failures: Failures, now: int) -> int:
    return max(failures.count - (now - failures.at) // FORGIVEN_AFTER_MS, 0)
