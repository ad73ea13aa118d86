"""Message records that repeat the one before them: of one queue each, equal but for position and body.

    | kind | size | dialect | origin | pair count | queue number | position | expires at | address ...
    |<------------------ head: 22 octets ----------------------->|<-- 8 --->|<--- tail, to the body

Most of what one application publishes are such repeats (docs/ARCHITECTURE.md says where else the broker
makes use of that). So head and tail are put together once for all of them, and a record with the
head and the tail of the last one is read without a look at any of its fields.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message, Properties
from penstock.broker.store import records
from penstock.formats.octets import LAST_OCTETS

NUMBER_SIZE: Final = 8
_HEAD_END: Final = records.SINGLE_HEAD_SIZE
_TAIL_START: Final = _HEAD_END + NUMBER_SIZE


class RepeatWriter:
    """Held by a writer of records; remembers the fields of the last one."""

    def __init__(self) -> None:
        # Of the last message. Repeats mostly share these objects, so their octets are compared only
        # where they do not.
        self._like_address: Address | None = None
        self._like_properties: Properties | None = None
        self._address: bytes = b""
        self._header: bytes = b""
        self._origin: int = 0
        self._number: int = 0
        # The first one repeats nothing.
        self._body_size: int = -1
        self._head: bytes = b""
        # The head with all but the last octet of a position, and these as a number.
        self._positioned_head: bytes = b""
        self._upper: int = -1
        # It begins with the time of those that never expire, and ends with the header.
        self._tail_start: bytes = b""
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
            or not self._has_same_head(message)
        ):
            self._begin(message, number)
        position = entry.position
        if position >> 8 != self._upper:
            self._upper = position >> 8
            upper_octets = self._upper.to_bytes(NUMBER_SIZE - 1, "big")
            self._positioned_head = self._head + upper_octets
        pieces.append(self._positioned_head)
        pieces.append(LAST_OCTETS[position & 0xFF])
        if entry.expires_at:
            pieces.append((entry.expires_at + wall_offset_ms).to_bytes(NUMBER_SIZE, "big"))
            pieces.append(self._tail[NUMBER_SIZE:])
        else:
            pieces.append(self._tail)
        pieces.append(body)
        return self._size

    def _has_same_head(self, message: Message) -> bool:
        if message.properties is self._like_properties and message.address is self._like_address:
            return True
        if (
            message.properties.encoded() != self._header
            or message.address.octets() != self._address
        ):
            return False
        self._like_properties = message.properties
        self._like_address = message.address
        return True

    def _begin(self, message: Message, number: int) -> None:
        """What is as before is not made again: messages of other priorities, for instance, have another
        header of the same size.
        """
        address = message.address.octets()
        header = message.properties.encoded()
        body_size = len(message.body)
        rest = len(address) + len(header) + body_size
        size = records.SINGLE_SIZE + rest
        if size != self._size or number != self._number or message.origin != self._origin:
            self._head = records.single_head(rest, message.origin, number)
            self._upper = -1
        if (
            body_size != self._body_size
            or len(header) != len(self._header)
            or address != self._address
        ):
            self._tail_start = records.single_tail_start(address, len(header), body_size)
        self._tail = self._tail_start + header
        self._like_address = message.address
        self._like_properties = message.properties
        self._address = address
        self._header = header
        self._origin = message.origin
        self._number = number
        self._body_size = body_size
        self._size = size


class RepeatReader:
    """Made of the record that was read last, if it is of one queue and never expires."""

    def __init__(self, data: bytes, at: int, record: records.MessageRecord, like: Message) -> None:
        self.size: int = records.size_at(data, at)
        self.body_start: int = self.size - record.body_size
        self._head: bytes = data[at : at + _HEAD_END]
        self._tail: bytes = data[at + _TAIL_START : at + self.body_start]
        self._like: Message = like

    def message_at(self, data: bytes, at: int) -> Message | None:
        """None when what is there is not a repeat, or not all of it is there."""
        end = at + self.size
        body_start = at + self.body_start
        if (
            end > len(data)
            or data[at : at + _HEAD_END] != self._head
            or data[at + _TAIL_START : body_start] != self._tail
        ):
            return None
        like = self._like
        return Message(like.address, like.properties, data[body_start:end], like.origin)
