"""The few AMQP 1.0 frames a load generator sends and understands; its own codec, as in `frames`.

frame:  size (4) | doff 2 (1) | type (1) | channel (2) | performative | payload
"""

import struct

AMQP = 0
SASL = 1

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SASL_MECHANISMS, SASL_INIT, _, _, SASL_OUTCOME = range(0x40, 0x45)
SOURCE, TARGET = 0x28, 0x29
ACCEPTED = b"\x00\x53\x24\x45"
NULL = b"\x40"
TRUE = b"\x41"
FALSE = b"\x42"

Field = object


def frame(kind: int, performative: bytes, payload: bytes = b"") -> bytes:
    size = 8 + len(performative) + len(payload)
    return struct.pack(">IBBH", size, 2, kind, 0) + performative + payload


def composite(code: int, *fields: bytes) -> bytes:
    content = b"".join(fields)
    return struct.pack(">BBBBII", 0, 0x53, code, 0xD0, len(content) + 4, len(fields)) + content


def uint(value: int) -> bytes:
    return struct.pack(">BI", 0x70, value)


def ubyte(value: int) -> bytes:
    return bytes([0x50, value])


def string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">BI", 0xB1, len(encoded)) + encoded


def symbol(text: str) -> bytes:
    return bytes([0xA3, len(text)]) + text.encode()


def binary(octets: bytes) -> bytes:
    return struct.pack(">BI", 0xB0, len(octets)) + octets


def message(body: bytes) -> bytes:
    """One data section and nothing else."""
    if len(body) < 256:
        return b"\x00\x53\x75\xa0" + bytes([len(body)]) + body
    return b"\x00\x53\x75" + binary(body)


def decode(data: bytes, at: int) -> tuple[Field, int]:
    """One value and where the next begins; maps and arrays are passed over."""
    code = data[at]
    at += 1
    if code == 0:
        descriptor, at = decode(data, at)
        value, at = decode(data, at)
        return (descriptor, value), at
    if code in SINGLE:
        return SINGLE[code], at
    if code in FIXED:
        form = FIXED[code]
        return form.unpack_from(data, at)[0], at + form.size
    if code in {0xA0, 0xA1, 0xA3, 0xC1, 0xE0}:
        end = at + 1 + data[at]
        return data[at + 1 : end], end
    if code in {0xB0, 0xB1, 0xB3, 0xD1, 0xF0}:
        end = at + 4 + struct.unpack_from(">I", data, at)[0]
        return data[at + 4 : end], end
    wide = code == 0xD0
    size, count = struct.unpack_from(">II" if wide else ">BB", data, at)
    end = at + (4 if wide else 1) + size
    at += 8 if wide else 2
    items: list[Field] = []
    for _ in range(count):
        item, at = decode(data, at)
        items.append(item)
    return items, end


SINGLE: dict[int, Field] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0, 0x45: []}
FIXED = {
    0x50: struct.Struct(">B"),
    0x51: struct.Struct(">b"),
    0x52: struct.Struct(">B"),
    0x53: struct.Struct(">B"),
    0x54: struct.Struct(">b"),
    0x55: struct.Struct(">b"),
    0x56: struct.Struct(">?"),
    0x60: struct.Struct(">H"),
    0x61: struct.Struct(">h"),
    0x70: struct.Struct(">I"),
    0x71: struct.Struct(">i"),
    0x80: struct.Struct(">Q"),
    0x81: struct.Struct(">q"),
    0x83: struct.Struct(">q"),
    0x98: struct.Struct(">16s"),
}


class Performative:
    """A frame's body: its code and its fields; a field that was left out is None."""

    def __init__(self, data: bytes) -> None:
        described, _ = decode(data, 0)
        assert isinstance(described, tuple)
        code, fields = described
        assert isinstance(fields, list)
        self.code = code
        self._fields = fields

    def __getitem__(self, index: int) -> Field:
        return self._fields[index] if index < len(self._fields) else None

    def number(self, index: int) -> int:
        value = self[index]
        assert isinstance(value, int), f"field {index} of {self.code:#x} is {value!r}"
        return value
