"""A frame that comes in many reads: its payload is joined once, when all of it is there.

Between servers a frame has up to a megabyte, and clients may negotiate long frames, too.
"""

from typing import Final

from penstock.formats.amqp091_frames import END, FRAME_HEAD_SIZE

# Shorter frames are kept as they come: one or two reads complete them.
LONG_FRAME_SIZE: Final = 64 * 1024
# Shorter pieces are copied together. A peer that sends fragments of one octet must not cost forty for
# each.
_PIECE_SIZE_MIN: Final = 4 * 1024


class LongFrame:
    """Held by a connection while the frame is incomplete."""

    def __init__(self, data: bytes, position: int, size: int) -> None:
        """`data` has its beginning, from a position on; `size` is that of the payload."""
        body = position + FRAME_HEAD_SIZE
        self.head: bytes = data[position:body]
        # Octets that are still to come, the frame-end among them.
        self.missing: int = size + len(END)
        self._pieces: list[bytes] = []
        self._fragments: bytearray = bytearray()
        self._received: int = 0
        if body < len(data):
            self.add(data[body:])

    def received(self) -> int:
        """How many octets are kept."""
        return FRAME_HEAD_SIZE + self._received

    def add(self, data: bytes) -> None:
        """All of it belongs to the frame, and does not complete it."""
        size = len(data)
        assert size < self.missing, "the frame is incomplete"
        self.missing -= size
        self._received += size
        if size < _PIECE_SIZE_MIN:
            self._fragments += data
            return
        self._collect()
        self._pieces.append(data)

    def _collect(self) -> None:
        if self._fragments:
            self._pieces.append(bytes(self._fragments))
            self._fragments = bytearray()

    def payload(self, data: bytes) -> bytes:
        """The whole payload; `data` begins with the rest of the frame."""
        self._collect()
        rest = self.missing - len(END)
        if rest:
            self._pieces.append(data[:rest])
        return b"".join(self._pieces)

    def octets(self) -> bytes:
        """What has come, from the head on."""
        self._collect()
        return self.head + b"".join(self._pieces)
