"""Events of the node as lines of the log, limited per kind and peer.

A client that reconnects in a loop, or guesses passwords, must not fill a disk with log lines; nor
may the lines of one peer hide those of another.

Lines of the audit log are never left out: whoever has taken over an operator's account could hide one
change behind twenty others. They cannot fill a disk unnoticed either, because each is a change that
was applied and journalled for somebody whom the operator has given the right to make it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from penstock.broker.events import EventLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.events import Event
    from penstock.world.clock import Clock

# Lines of one kind from one peer in one period; then they are only counted, and one line says how
# many were left out when the period ends. A fleet of twenty clients is seen one by one; a loop of
# logins writes 20 lines of 200 octets in 10 s, 35 MB a day.
LINES_MAX: Final = 20
PERIOD_MS: Final = 10_000
# Peers and kinds that are counted separately in one period. Beyond them all others share one count,
# so that somebody with many addresses fills neither the memory nor the log.
COUNTS_MAX: Final = 1_000
_OTHERS: Final = "other peers"


class Count:
    """The lines of one kind from one peer in this period."""

    __slots__ = ("left_out", "written")

    def __init__(self) -> None:
        self.written = 0
        self.left_out = 0


class EventLines(EventLog):
    """Held by the node. Called with every sweep of the server, as its watchers are."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._log = structlog.get_logger()
        self._period_began = clock.now()
        self._counts: dict[tuple[str, str], Count] = {}

    def __call__(self, now: int) -> None:
        """Called with every sweep, because a period may be over."""
        if now - self._period_began >= PERIOD_MS:
            self._end_period(now)

    def end(self) -> None:
        """Write the last counts: nothing is recorded any more."""
        self._end_period(self._clock.now())

    def record(self, event: Event) -> None:
        self(self._clock.now())
        if not event.is_audit:
            count = self._count_of(event)
            if count.written >= LINES_MAX:
                count.left_out += 1
                return
            count.written += 1
        write: Callable[..., None] = getattr(self._log, event.severity.value)
        write(event.kind.value, **_facts_of(event))

    def _count_of(self, event: Event) -> Count:
        key = (event.party.peer_host, event.kind.value)
        count = self._counts.get(key)
        if count is None:
            if len(self._counts) >= COUNTS_MAX:
                key = (_OTHERS, event.kind.value)
            count = self._counts.setdefault(key, Count())
        return count

    def _end_period(self, now: int) -> None:
        counts = self._counts
        self._counts = {}
        self._period_began = now
        for (peer, kind), count in counts.items():
            if count.left_out:
                self._log.warning(
                    "log lines suppressed",
                    event_kind=kind,
                    peer=peer,
                    count=count.left_out,
                    reason=f"more than {LINES_MAX} in {PERIOD_MS // 1000} s",
                )


def _facts_of(event: Event) -> dict[str, object]:
    """The facts in an order that reads well; unknown ones are left out."""
    party = event.party
    facts: dict[str, object] = {
        "user": party.user,
        "peer": party.peer(),
        "vhost": party.vhost,
        "connection": party.connection or "",
        **event.facts,
        "reason": event.reason,
    }
    # A zero is known: no byte free, no queue allowed.
    return {name: value for name, value in facts.items() if value != ""}
