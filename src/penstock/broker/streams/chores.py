"""What a stream does from time to time: retention, and writing cursors down."""

from typing import Final

from penstock.broker.streams.files import StreamFiles
from penstock.broker.timers import NEVER, Timer, Timers
from penstock.broker.vhost_view import VirtualHostView

# Age is looked at this often; a segment is removed at most so much too late.
RETENTION_MS: Final = 10_000
# Cursors move with every acknowledgement and are written at most this often. After a crash a
# reader gets again what it acknowledged in this time.
CURSORS_MS: Final = 100


class RetentionTimer(Timer):
    """Held by a stream with a limit of age or size."""

    def __init__(self, files: StreamFiles, vhost: VirtualHostView) -> None:
        super().__init__()
        self._files: StreamFiles = files
        self._vhost: VirtualHostView = vhost

    def start(self, now: int) -> None:
        if self.due == NEVER and self._files.has_retention():
            self._vhost.timers.schedule(self, now + RETENTION_MS)

    def fire(self, now: int) -> None:
        self._files.retain(self._vhost.wall(now))
        self.start(now)


class CursorTimer(Timer):
    """Held by a stream; rings once after a cursor moved."""

    def __init__(self, files: StreamFiles, timers: Timers) -> None:
        super().__init__()
        self._files: StreamFiles = files
        self._timers: Timers = timers

    def moved(self, now: int) -> None:
        if self.due == NEVER:
            self._timers.schedule(self, now + CURSORS_MS)

    def fire(self, now: int) -> None:
        self._files.write_cursors()
