"""Messages that wait to be sent on a link, and how they become frames.

A message is a content of class cluster. Its pieces are written as they are, between the heads and
ends of body frames; only a piece that does not fit into one frame is divided. Frames are made as
the socket has room, so a long message costs no more memory than its pieces, and a heartbeat or a
close waits for one frame at most.

Invariants: frames are pushed whole, so that what others push stands between two of them; a message
is sent from its begin to its end before the next one.
"""

from collections import deque
from struct import Struct
from typing import Final

from penstock.formats.amqp091_frames import (
    BODY_FRAME,
    END,
    FRAME_OVERHEAD,
    HEADER_FRAME,
    METHOD_FRAME,
    encode_frame,
)
from penstock.wire.outgoing import Outgoing

# All contents of a link travel on this channel.
LINK_CHANNEL: Final = 1
# What may wait behind the message that is being sent. At the limit the link is closed, and the backup
# at its other end joins again, which asks for no more than it lacks. The limit is about a second of
# what a disk can write. A single message above the limit is sent as the link drains.
UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024

_FRAME_HEAD: Final = Struct(">BHI")
# Class, weight, size of the body, and no properties.
_CONTENT_HEADER: Final = Struct(">HHQH")


class LinkMessage:
    """One message, and how much of it was pushed."""

    def __init__(self, method: bytes, class_id: int, pieces: list[bytes]) -> None:
        self.method: bytes = method
        self.class_id: int = class_id
        # Several links share the list that is given.
        self.pieces: list[bytes] = pieces[:]
        self.size: int = sum([len(piece) for piece in pieces])
        self.left: int = self.size
        self.has_begun: bool = False
        # The next piece, and the next octet in it.
        self.index: int = 0
        self.at: int = 0


class LinkOutput:
    """Held by one line; pushes to the output of its connection."""

    def __init__(self, outgoing: Outgoing, bytes_max: int = UNSENT_BYTES_MAX) -> None:
        self._outgoing: Outgoing = outgoing
        self._bytes_max: int = bytes_max
        # The negotiated size of frames; set when the link is open.
        self.frame_max: int = 0
        self._messages: deque[LinkMessage] = deque()
        # Of all messages what was not pushed yet, and of those behind the first one that are not
        # above the limit themselves.
        self._unpushed: int = 0
        self._behind: int = 0
        # Messages behind the first one that are above the limit.
        self._long_count: int = 0

    def add(self, message: LinkMessage) -> bool:
        """False if too much waits already: the message is not sent, and the link must end."""
        if self._messages:
            if message.size > self._bytes_max:
                if self._long_count:
                    return False
                self._long_count += 1
            elif self._behind + message.size > self._bytes_max:
                return False
            else:
                self._behind += message.size
        self._messages.append(message)
        self._unpushed += message.size
        self.pump()
        return True

    def unpushed_bytes(self) -> int:
        return self._unpushed

    def pump(self) -> None:
        """Push frames as long as there is room for them."""
        messages = self._messages
        outgoing = self._outgoing
        while messages and outgoing.has_room():
            message = messages[0]
            if not message.has_begun:
                self._push_head(message)
            if message.left:
                self._push_body_frame(message)
            if not message.left:
                messages.popleft()
                if messages:
                    self._is_first_now(messages[0])

    def clear(self) -> None:
        self._messages.clear()
        self._unpushed = 0
        self._behind = 0
        self._long_count = 0

    def _is_first_now(self, message: LinkMessage) -> None:
        if message.size > self._bytes_max:
            self._long_count -= 1
        else:
            self._behind -= message.size

    def _push_head(self, message: LinkMessage) -> None:
        message.has_begun = True
        header = _CONTENT_HEADER.pack(message.class_id, 0, message.size, 0)
        self._outgoing.push(
            encode_frame(METHOD_FRAME, LINK_CHANNEL, message.method)
            + encode_frame(HEADER_FRAME, LINK_CHANNEL, header)
        )

    def _push_body_frame(self, message: LinkMessage) -> None:
        outgoing = self._outgoing
        size = min(message.left, self.frame_max - FRAME_OVERHEAD)
        message.left -= size
        self._unpushed -= size
        outgoing.push(_FRAME_HEAD.pack(BODY_FRAME, LINK_CHANNEL, size))
        while size:
            piece = message.pieces[message.index]
            rest = len(piece) - message.at
            if rest <= size:
                if rest:
                    outgoing.push(piece[message.at :] if message.at else piece)
                size -= rest
                # Freed as it goes: a long message is not held twice.
                message.pieces[message.index] = b""
                message.index += 1
                message.at = 0
            else:
                outgoing.push(piece[message.at : message.at + size])
                message.at += size
                size = 0
        outgoing.push(END)
