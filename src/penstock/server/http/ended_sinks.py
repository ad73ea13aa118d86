"""Temporary sinks that have ended, so that no late task opens them again.

When a job fails or has committed, some of its tasks may still be running. What such a task stages
would never be committed, and would stay on disk until it expires. A restart of the broker forgets
the ended sinks; then it does stay that long.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.errors import PreconditionFailed

# Late tasks come within seconds of the end of their job.
ENDED_MAX: Final = 4096


class EndedSinks:
    """Held by the pages of sinks; used on the broker's loop."""

    def __init__(self, ended_max: int = ENDED_MAX) -> None:
        self._ended_max = ended_max
        self._names: dict[tuple[str, str], None] = {}

    def add(self, vhost: str, sink: str) -> None:
        if len(self._names) >= self._ended_max:
            # The first is the oldest.
            del self._names[next(iter(self._names))]
        self._names[vhost, sink] = None

    def check(self, vhost: str, sink: str) -> None:
        """Raises `PreconditionFailed` for one that has ended."""
        if (vhost, sink) in self._names:
            raise PreconditionFailed(
                f"sink '{sink}' in vhost '{vhost}' has ended: its job was committed or aborted"
            )
