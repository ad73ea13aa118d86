"""Faults on demand, for tests of applications: late confirms, refused publishes, and both: a queue
that says no after a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.timers import Timer, Timers

if TYPE_CHECKING:
    from penstock.broker.message import Message
    from penstock.broker.queues.queue import Queue


class LateAnswer(Timer):
    """Releases a message that was held to delay its confirm, whether that is positive or not."""

    def __init__(self, message: Message) -> None:
        super().__init__()
        self._message = message

    def fire(self, now: int) -> None:
        del now
        self._message.release()


class FaultyPublishing(PublishInterceptor):
    """Stands in front of every publish while a fault is asked for. Held by the container."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self.confirm_delay_ms = 0
        # How many publishes are still to be refused; -1 refuses all.
        self.refuse_count = 0

    def is_needed(self) -> bool:
        return self.confirm_delay_ms > 0 or self.refuse_count != 0

    def admits(self, message: Message, queues: list[Queue], now: int) -> bool:
        del queues
        refused = self.refuse_count != 0
        if self.refuse_count > 0:
            self.refuse_count -= 1
        if self.confirm_delay_ms > 0:
            message.hold()
            message.is_refused = refused
            self._timers.schedule(LateAnswer(message), now + self.confirm_delay_ms)
            return True
        return not refused
