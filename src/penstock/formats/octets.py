"""Readers and writers of single fields of bytes: the only ones in the project.

AMQP and the journal are big-endian (network byte order). Streams, rows and ledgers are
little-endian, so that numpy and Arrow can read a file as it is; their readers end in `_le`.

Readers take `bytes` and a position and never return a position: the caller knows how wide a
field is, and a tuple per field would cost more than the read. A field that is not wholly inside the
bytes raises `Truncated`; a variable-size field's width is read again from its length octets by the
caller (`at += 1 + data[at]`), which is safe once the read has succeeded.
"""

from struct import Struct
from typing import Final

SHORT_STRING_BYTES_MAX: Final = 255  # its length is one octet
# Every octet as bytes: the last octet of a counter whose other octets stay the same.
LAST_OCTETS: Final = [bytes([octet]) for octet in range(256)]

_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_U32_LE: Final = Struct("<I")
_F32: Final = Struct(">f")
_F64: Final = Struct(">d")


class Malformed(Exception):
    """The bytes are not validly encoded. Raised by every codec of `wire`, too."""


class Truncated(Malformed):
    """A field reaches beyond the end of the data."""


def short_of(data: bytes, at: int, wanted: int) -> Truncated:
    return Truncated(f"{wanted} octets expected at {at}, but the data ends at {len(data)}")


def read_u8(data: bytes, at: int) -> int:
    if at >= len(data):
        raise short_of(data, at, 1)
    return data[at]


def read_u16(data: bytes, at: int) -> int:
    if at + 2 > len(data):
        raise short_of(data, at, 2)
    return data[at] << 8 | data[at + 1]


def read_u32(data: bytes, at: int) -> int:
    if at + 4 > len(data):
        raise short_of(data, at, 4)
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def read_u64(data: bytes, at: int) -> int:
    if at + 8 > len(data):
        raise short_of(data, at, 8)
    return read_u32(data, at) << 32 | read_u32(data, at + 4)


def read_u32_le(data: bytes, at: int) -> int:
    if at + 4 > len(data):
        raise short_of(data, at, 4)
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24


def read_i8(data: bytes, at: int) -> int:
    value = read_u8(data, at)
    return value - 0x100 if value >= 0x80 else value


def read_i16(data: bytes, at: int) -> int:
    value = read_u16(data, at)
    return value - 0x1_0000 if value >= 0x8000 else value


def read_i32(data: bytes, at: int) -> int:
    value = read_u32(data, at)
    return value - 0x1_0000_0000 if value >= 0x8000_0000 else value


def read_i64(data: bytes, at: int) -> int:
    value = read_u64(data, at)
    return value - (1 << 64) if value >= 1 << 63 else value


def read_f32(data: bytes, at: int) -> float:
    if at + 4 > len(data):
        raise short_of(data, at, 4)
    value: float = _F32.unpack_from(data, at)[0]
    return value


def read_f64(data: bytes, at: int) -> float:
    if at + 8 > len(data):
        raise short_of(data, at, 8)
    value: float = _F64.unpack_from(data, at)[0]
    return value


def read_bytes(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise short_of(data, at, size)
    return data[at : at + size]


def read_short_string(data: bytes, at: int) -> str:
    """One length octet, then UTF-8."""
    octets = read_bytes(data, at + 1, read_u8(data, at))
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"short string at {at} is not UTF-8") from error


def read_escaped_string(data: bytes, at: int) -> str:
    """One length octet, then octets that should be UTF-8; those that are not become lone surrogates
    (PEP 383), which `write_short_string` writes as they were.
    """
    return read_bytes(data, at + 1, read_u8(data, at)).decode("utf-8", "surrogateescape")


def read_long_string(data: bytes, at: int) -> bytes:
    """Four length octets, then any octets."""
    return read_bytes(data, at + 4, read_u32(data, at))


def write_u8(value: int) -> bytes:
    return bytes((value,))


def write_u16(value: int) -> bytes:
    return _U16.pack(value)


def write_u32(value: int) -> bytes:
    return _U32.pack(value)


def write_u64(value: int) -> bytes:
    return _U64.pack(value)


def write_u32_le(value: int) -> bytes:
    return _U32_LE.pack(value)


def write_f64(value: float) -> bytes:
    return _F64.pack(value)


def write_short_string(value: str) -> bytes:
    """Lone surrogates are written as the bytes that they stand for."""
    octets = value.encode("utf-8", "surrogateescape")
    if len(octets) > SHORT_STRING_BYTES_MAX:
        raise ValueError(f"a short string can have 255 octets at most, not {len(octets)}")
    return bytes((len(octets),)) + octets


def write_long_string(value: bytes) -> bytes:
    return _U32.pack(len(value)) + value
