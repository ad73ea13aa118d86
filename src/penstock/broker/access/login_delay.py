"""How long a failed login waits for its answer, and the next one of the same user and host for its
check: longer with every failure, forgotten with time.

Counted per user and peer host, so that somebody who guesses passwords does not lock out the user
elsewhere. Delaying only the answer would not hinder an attacker with many connections: a correct
password is answered at once, so silence would mean that the guess was wrong. So no password of the
pair is checked while the answer to a failure waits. Nothing here reads a clock.
"""

from typing import Final

# The first failure causes a delay that nobody notices; each further one doubles it.
FIRST_DELAY_MS: Final = 100
# At this wait 7 passwords a minute are tried, over however many connections. It stays below the time
# that a handshake may take, so that the client still receives the refusal.
DELAY_MS_MAX: Final = 8_000
# One failure is forgiven for each such time without another.
FORGIVEN_AFTER_MS: Final = 60_000
# Failures beyond the longest delay are not counted: forgiving them would take for ever.
FAILURES_MAX: Final = 10
# Bounds the memory that strangers can fill (about 3 MB). At the limit the pair that failed longest
# ago is forgotten, so guessing through more user names than this is slowed only by the hash.
PAIRS_MAX: Final = 10_000
# A password is compared with the remembered good one without any wait, so that clients which know
# it are not held up by another on their host that does not. After a comparison that failed, the
# next is this much later: otherwise it would be the way to guess.
COMPARISON_MS: Final = 1_000


class Failures:
    """The failed logins of one user from one host."""

    def __init__(self) -> None:
        self.count: int = 0
        self.at: int = 0
        # No password is checked before the first time, and none compared before the second.
        self.check_at: int = 0
        self.compare_at: int = 0


class LoginDelays:
    """Held by the broker's state; dialects tell it how logins ended."""

    def __init__(self) -> None:
        # In order of the last failure or comparison, because each puts its pair at the end.
        self._failures: dict[tuple[str, str], Failures] = {}

    def failed(self, user: str, host: str, now: int, waited_ms: int = 0) -> int:
        """Count a failure; returns how many milliseconds its answer must wait, of which it may
        have waited some for its check.
        """
        failures = self._put_last(user, host)
        failures.count = min(_remaining(failures, now) + 1, FAILURES_MAX)
        failures.at = now
        delay = delay_ms(failures.count)
        failures.check_at = now + delay
        return max(0, delay - waited_ms)

    def mismatched(self, user: str, host: str, now: int) -> None:
        """A password was compared with the remembered one and differs from it."""
        self._put_last(user, host).compare_at = now + COMPARISON_MS

    def may_compare(self, user: str, host: str, now: int) -> bool:
        failures = self._failures.get((user, host))
        return failures is None or now >= failures.compare_at

    def check_at(self, user: str, host: str) -> int:
        """When the next password of this user from this host may be checked."""
        failures = self._failures.get((user, host))
        return 0 if failures is None else failures.check_at

    def _put_last(self, user: str, host: str) -> Failures:
        pair = (user, host)
        failures = self._failures.pop(pair, None)
        if failures is None:
            failures = Failures()
            if len(self._failures) >= PAIRS_MAX:
                del self._failures[next(iter(self._failures))]
        self._failures[pair] = failures
        return failures

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
