"""Message records that are written one after the other, each of one queue: the common case.

    | kind | size | dialect | origin | pair count | queue number | position | expires at | address ...
    |<------------------ head: 18 octets ----------------------->|<-- 8 --->|<--- tail, to the body

What one application publishes differs in position and body mostly, so head and tail are put
together once for all records that are alike. `twin` reads them in the same way.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.store import records

NUMBER_SIZE: Final = 8


class RecordRun:
    """Held by who writes records; remembers what the last one was like."""

    def __init__(self) -> None:
        self._address: bytes = b""
        self._header: bytes = b""
        self._origin: int = 0
        self._number: int = 0
        # There is none like the first one.
        self._body_size: int = -1
        self._head: bytes = b""
        # It begins with the time of those that never expire.
        self._tail: bytes = b""
        self._size: int = 0

    def append(
        self, pieces: list[bytes], entry: QueueEntry, number: int, wall_offset_ms: int
    ) -> int:
        """Append the record of an entry in the queue of this number; returns its size."""
        message = entry.message
        body = message.body
        if (
            len(body) != self._body_size
            or number != self._number
            or message.origin != self._origin
            or message.properties.encoded() != self._header
            or message.address.octets() != self._address
        ):
            self._begin(message, number)
        pieces.append(self._head)
        pieces.append(entry.position.to_bytes(NUMBER_SIZE, "big"))
        if entry.expires_at:
            pieces.append((entry.expires_at + wall_offset_ms).to_bytes(NUMBER_SIZE, "big"))
            pieces.append(self._tail[NUMBER_SIZE:])
        else:
            pieces.append(self._tail)
        pieces.append(body)
        return self._size

    def _begin(self, message: Message, number: int) -> None:
        self._address = message.address.octets()
        self._header = message.properties.encoded()
        self._origin = message.origin
        self._number = number
        self._body_size = len(message.body)
        rest = len(self._address) + len(self._header) + self._body_size
        self._head = records.single_head(rest, message.origin, number)
        self._size = records.SINGLE_SIZE + rest
        self._tail = records.single_tail(self._address, self._header, self._body_size)
