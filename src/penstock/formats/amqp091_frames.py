"""Frames of AMQP 0-9-1: the envelope of everything sent after the protocol header (specification
2.3.5), and the openings of the payloads that are written by more than one room.

0      1         3             7              7+size     8+size
+------+---------+-------------+--------------+-----------+
| kind | channel |    size     |   payload    | frame-end |
+------+---------+-------------+--------------+-----------+
 octet    short       long       size octets      0xCE

Big-endian. A message is a method frame, a content header frame and as many body frames as it takes:

    method:          class u16 | method u16 | arguments
    content header:  class u16 | weight u16 | body size u64 | property flags u16 | properties
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

# The first octet and the last one of frames that are put together from parts.
METHOD: Final = b"\x01"
HEADER: Final = b"\x02"
BODY: Final = b"\x03"
END: Final = b"\xce"

# Class basic, as every content header begins; with weight 0 as it should.
CLASS_BASIC: Final = b"\x00\x3c"
CONTENT_HEADER_START: Final = b"\x00\x3c\x00\x00"
# basic.publish up to its exchange: class, method, and a field that is not used any more.
PUBLISH_START: Final = b"\x00\x3c\x00\x28\x00\x00"
# ... with the octet of flags behind the routing key.
PUBLISH_FIXED_SIZE: Final = 7
# The size of the payload, class and method of an answer to a publish; its tag and one octet follow.
ACK_START: Final = b"\x00\x00\x00\x0d\x00\x3c\x00\x50"
NACK_START: Final = b"\x00\x00\x00\x0d\x00\x3c\x00\x78"

_HEAD: Final = Struct(">BHI")


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _HEAD.pack(kind, channel, len(payload)) + payload + END


def encode_content(channel: int, method: bytes, header: bytes, body: bytes) -> bytes:
    """Method, header and a body that fits one frame (or is empty), as one piece."""
    if not body:
        return b"".join(
            [
                _HEAD.pack(METHOD_FRAME, channel, len(method)),
                method,
                END,
                _HEAD.pack(HEADER_FRAME, channel, len(header)),
                header,
                END,
            ]
        )
    return b"".join(
        [
            _HEAD.pack(METHOD_FRAME, channel, len(method)),
            method,
            END,
            _HEAD.pack(HEADER_FRAME, channel, len(header)),
            header,
            END,
            _HEAD.pack(BODY_FRAME, channel, len(body)),
            body,
            END,
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
