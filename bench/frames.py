"""The few AMQP 0-9-1 frames a load generator sends, encoded once and sent many times.

The bench has its own encoder on purpose: measuring a broker with that broker's own codec would
hide a mistake that both sides share.

    frame:  type (1) | channel (2) | size (4) | payload (size) | 0xCE (1)
"""

import struct
from collections.abc import Mapping

FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_OVERHEAD = 8

CONNECTION_START = (10, 10)
CONNECTION_START_OK = (10, 11)
CONNECTION_TUNE = (10, 30)
CONNECTION_TUNE_OK = (10, 31)
CONNECTION_OPEN = (10, 40)
CONNECTION_OPEN_OK = (10, 41)
CONNECTION_CLOSE = (10, 50)
CONNECTION_CLOSE_OK = (10, 51)
CHANNEL_OPEN = (20, 10)
CHANNEL_OPEN_OK = (20, 11)
CHANNEL_CLOSE = (20, 40)
EXCHANGE_DECLARE = (40, 10)
EXCHANGE_DECLARE_OK = (40, 11)
EXCHANGE_DELETE = (40, 20)
EXCHANGE_DELETE_OK = (40, 21)
QUEUE_DECLARE = (50, 10)
QUEUE_DECLARE_OK = (50, 11)
QUEUE_BIND = (50, 20)
QUEUE_BIND_OK = (50, 21)
QUEUE_DELETE = (50, 40)
QUEUE_DELETE_OK = (50, 41)
BASIC_QOS = (60, 10)
BASIC_QOS_OK = (60, 11)
BASIC_CONSUME = (60, 20)
BASIC_CONSUME_OK = (60, 21)
BASIC_PUBLISH = (60, 40)
BASIC_DELIVER = (60, 60)
BASIC_ACK = (60, 80)
BASIC_NACK = (60, 120)
CONFIRM_SELECT = (85, 10)
CONFIRM_SELECT_OK = (85, 11)

# Content header flags of the properties that are used here.
PROPERTY_CONTENT_TYPE = 0x8000
PROPERTY_HEADERS = 0x2000
PROPERTY_DELIVERY_MODE = 0x1000
PROPERTY_PRIORITY = 0x0800
PROPERTY_MESSAGE_ID = 0x0080
PROPERTY_TIMESTAMP = 0x0040

# basic.ack and basic.nack are the only methods a publisher hears in the measured part, and both
# fill exactly one such record: type, channel, size, class, method, tag, bits, frame end.
SETTLEMENT = struct.Struct(">BHIHHQBB")

MethodId = tuple[int, int]


def short_string(text: str) -> bytes:
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded


def long_string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def field_table(entries: Mapping[str, bool | int | str]) -> bytes:
    out = b""
    for name, value in entries.items():
        out += short_string(name)
        if isinstance(value, bool):
            out += b"t" + bytes([value])
        elif isinstance(value, int):
            out += b"I" + struct.pack(">i", value)
        else:
            out += b"S" + long_string(value.encode())
    return long_string(out)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel: int, method_id: MethodId, arguments: bytes = b"") -> bytes:
    return frame(FRAME_METHOD, channel, struct.pack(">HH", *method_id) + arguments)


def publish_method(exchange: str, routing_key: str) -> bytes:
    arguments = b"\0\0" + short_string(exchange) + short_string(routing_key) + b"\0"
    return method(1, BASIC_PUBLISH, arguments)


def content(body: bytes, *, persistent: bool, priority: int | None = None) -> bytes:
    flags = PROPERTY_DELIVERY_MODE | (0 if priority is None else PROPERTY_PRIORITY)
    header = struct.pack(">HHQH", 60, 0, len(body), flags)
    header += b"\x02" if persistent else b"\x01"
    header += b"" if priority is None else bytes([priority])
    return frame(FRAME_HEADER, 1, header) + frame(FRAME_BODY, 1, body)


def publish(exchange: str, routing_key: str, body: bytes, *, persistent: bool) -> bytes:
    return publish_method(exchange, routing_key) + content(body, persistent=persistent)


def acknowledge(delivery_tag: int, *, multiple: bool) -> bytes:
    return method(1, BASIC_ACK, struct.pack(">QB", delivery_tag, multiple))
