"""Frames: the envelope of everything said after the protocol header (specification 2.3.5).

0      1         3             7              7+size     8+size
+------+---------+-------------+--------------+-----------+
| kind | channel |    size     |   payload    | frame-end |
+------+---------+-------------+--------------+-----------+
 octet    short       long       size octets      0xCE
"""

from struct import Struct
from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

METHOD_FRAME: Final = 1
HEADER_FRAME: Final = 2
BODY_FRAME: Final = 3
HEARTBEAT_FRAME: Final = 8

FRAME_END: Final = 0xCE
FRAME_HEAD_SIZE: Final = 7
FRAME_OVERHEAD: Final = 8  # head and frame-end

# Class id, weight and body size: what a content header holds before its property flags.
CONTENT_HEADER_FIXED_SIZE: Final = 12
# ... and with the flags: no content header is shorter.
CONTENT_HEADER_SIZE_MIN: Final = 14

HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

_FRAME_END_OCTET: Final = b"\xce"
_HEAD: Final = Struct(">BHI")


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _HEAD.pack(kind, channel, len(payload)) + payload + _FRAME_END_OCTET


def encode_content(channel: int, method: bytes, header: bytes, body: bytes) -> bytes:
    """Method, header and a body that fits one frame (or is empty), as one piece."""
    if not body:
        return b"".join(
            [
                _HEAD.pack(METHOD_FRAME, channel, len(method)),
                method,
                _FRAME_END_OCTET,
                _HEAD.pack(HEADER_FRAME, channel, len(header)),
                header,
                _FRAME_END_OCTET,
            ]
        )
    return b"".join(
        [
            _HEAD.pack(METHOD_FRAME, channel, len(method)),
            method,
            _FRAME_END_OCTET,
            _HEAD.pack(HEADER_FRAME, channel, len(header)),
            header,
            _FRAME_END_OCTET,
            _HEAD.pack(BODY_FRAME, channel, len(body)),
            body,
            _FRAME_END_OCTET,
        ]
    )


def encode_split_content(
    channel: int, method: bytes, header: bytes, body: bytes, frame_max: int
) -> list[bytes]:
    """The frames of a content whose body is larger than one frame may be."""
    room = frame_max - FRAME_OVERHEAD
    frames = [
        encode_frame(METHOD_FRAME, channel, method),
        encode_frame(HEADER_FRAME, channel, header),
    ]
    for start in range(0, len(body), room):
        frames.append(encode_frame(BODY_FRAME, channel, body[start : start + room]))
    return frames
