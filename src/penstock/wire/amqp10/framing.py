"""Frames: the envelope of everything sent after a protocol header (specification 2.3).

0          4      5      6         8             4*doff          size
+----------+------+------+---------+---------------+---------------+
|   size   | doff | type | channel |  extended     |     body      |
+----------+------+------+---------+---------------+---------------+
  4 octets   words   0, 1   AMQP only  ignored        performative, then payload

A frame without a body is a heartbeat.
"""

from struct import Struct
from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x01\x00\x00"
TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

AMQP_FRAME: Final = 0
SASL_FRAME: Final = 1

FRAME_HEAD_SIZE: Final = 8
DATA_OFFSET_MIN: Final = 2  # words of four octets: the frame header itself

HEARTBEAT: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"

_HEAD: Final = Struct(">IBBH")


def encode_frame(kind: int, channel: int, body: bytes) -> bytes:
    return _HEAD.pack(FRAME_HEAD_SIZE + len(body), DATA_OFFSET_MIN, kind, channel) + body
