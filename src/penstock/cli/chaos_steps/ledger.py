"""What the clients of a chaos run know, and what must be true of it."""

import threading
import time
from typing import Final

# How the two kinds of lie are told.
CAME_BACK: Final = "came back after its acknowledgement was completed"
TWICE: Final = "was delivered twice, the second time without the flag"


class ChaosLedger:
    """Written by the clients, each from its own thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.confirmed: set[bytes] = set()
        # Published, without an answer: whether they arrive is open.
        self.in_doubt: set[bytes] = set()
        self.delivered: set[bytes] = set()
        # Acknowledged, and told that this is done.
        self.completed: set[bytes] = set()
        self.redelivered_count = 0
        # What must not happen, in words.
        self.lies: list[str] = []
        # When a confirm came last, and the longest time between two.
        self.last_confirm = time.monotonic()
        self.longest_silence = 0.0

    def confirm(self, bodies: list[bytes]) -> None:
        with self._lock:
            self.confirmed.update(bodies)
            now = time.monotonic()
            self.longest_silence = max(self.longest_silence, now - self.last_confirm)
            self.last_confirm = now

    def doubt(self, bodies: list[bytes]) -> None:
        with self._lock:
            self.in_doubt.update(bodies)

    def deliver(self, body: bytes, is_redelivered: bool) -> None:
        with self._lock:
            if body in self.completed:
                self.lies.append(f"{body!r} {CAME_BACK}")
            if body in self.delivered and not is_redelivered:
                self.lies.append(f"{body!r} {TWICE}")
            self.redelivered_count += is_redelivered
            self.delivered.add(body)

    def complete(self, bodies: list[bytes]) -> None:
        with self._lock:
            self.completed.update(bodies)

    def lost(self) -> set[bytes]:
        """Confirmed and never delivered; asked after everything that was left has been."""
        return self.confirmed - self.delivered

    def strangers(self) -> set[bytes]:
        """Delivered, and never published."""
        return self.delivered - self.confirmed - self.in_doubt
