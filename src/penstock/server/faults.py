"""Faults on demand, for tests of applications: late confirms, refused publishes, and both: a
publish that is refused after a delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.timers import Timer, Timers

if TYPE_CHECKING:
    from penstock.broker.message import Message
    from penstock.broker.queues.message_queue import MessageQueue

# The broker's clock counts whole milliseconds and `now` is rounded down: without this addition a
# confirm could come earlier than the requested delay.
CLOCK_STEP_MS = 1


class LateAnswer(Timer):
    """Releases a message that was held to delay its confirm, or refuses it."""

    def __init__(self, message: Message, refused: bool) -> None:
        super().__init__()
        self._message = message
        self._refused = refused

    def fire(self, now: int) -> None:
        del now
        if self._refused:
            self._message.refuse()
        self._message.release()


class FaultyPublishing(PublishInterceptor):
    """Intercepts every publish while a fault is active. Held by the container."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self.confirm_delay_ms = 0
        # How many publishes are still to be refused; -1 refuses all.
        self.refuse_count = 0

    def is_needed(self) -> bool:
        return self.confirm_delay_ms > 0 or self.refuse_count != 0

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        refused = self.refuse_count != 0
        if self.refuse_count > 0:
            self.refuse_count -= 1
        if self.confirm_delay_ms == 0 or (refused and not queues):
            # One that would only wait in a delayed exchange is refused at once.
            return not refused
        message.hold()
        due = now + self.confirm_delay_ms + CLOCK_STEP_MS
        self._timers.schedule(LateAnswer(message, refused), due)
        if refused:
            queues.clear()
        return True
