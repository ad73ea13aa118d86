"""Messages that the memory alarm has stopped in the middle: one connection after the other completes
its own.

The received part of them is held in memory and cannot be consumed. When it is most of what is held,
it keeps up the same alarm that prevents its completion. Then the connection that has sent most
continues until its message is complete, and after it the next; one that does not send the rest is
closed. So memory grows past the alarm by one message, and every message that was begun comes to an
end.
"""

from typing import Final

from penstock.dialects.connection import Connection

# Consumers may still end the alarm by then.
WAIT_MS: Final = 5_000
# A client whose turn it is and that sends nothing for this long delays all the others.
SILENT_MS_MAX: Final = 5_000
# The limit of a whole turn: the largest message, 128 MiB, at about two megabytes a second.
TURN_MS_MAX: Final = 60_000

NOBODY: Final = 0
NEVER: Final = -1


class UnfinishedMessages:
    """Held by the node."""

    def __init__(self) -> None:
        # Since when unfinished messages are most of the memory.
        self._stuck_since: int = NEVER
        # Whose turn it is, how much of its message was there at the last check, and its two
        # deadlines: for more input, and for the whole message.
        self._number: int = NOBODY
        self._octets: int = 0
        self._silent_at: int = 0
        self._ends_at: int = 0

    def sweep(
        self, connections: dict[int, Connection], is_memory_low: bool, held_bytes: int, now: int
    ) -> None:
        if not is_memory_low:
            self._number = NOBODY
            self._stuck_since = NEVER
            return
        current = connections.get(self._number)
        if current is not None and current.protocol.is_finishing():
            octets = current.protocol.unfinished_octets()
            if octets != self._octets:
                self._octets = octets
                self._silent_at = now + SILENT_MS_MAX
            if now < self._silent_at and now < self._ends_at:
                return
            current.protocol.give_up_unfinished(now)
            # What is held is not counted anew before the next sweep.
            self._number = NOBODY
            return
        self._number = NOBODY
        self._look(connections, held_bytes, now)

    def _look(self, connections: dict[int, Connection], held_bytes: int, now: int) -> None:
        chosen: Connection | None = None
        most = 0
        total = 0
        for connection in connections.values():
            octets = connection.protocol.unfinished_octets()
            total += octets
            if octets > most:
                most = octets
                chosen = connection
        if chosen is None or total * 2 < held_bytes:
            self._stuck_since = NEVER
            return
        if self._stuck_since == NEVER:
            self._stuck_since = now
        if now - self._stuck_since < WAIT_MS:
            return
        self._number = chosen.number
        self._octets = most
        self._silent_at = now + SILENT_MS_MAX
        self._ends_at = now + TURN_MS_MAX
        chosen.protocol.finish(now)
