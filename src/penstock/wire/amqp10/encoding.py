"""AMQP 1.0 values into octets, each in its most compact form (specification 1.6).

`values` lists which Python type is written as which AMQP type. Raises ValueError for a value that
AMQP cannot hold: that is a defect of ours, never a fault of a peer.
"""

from struct import Struct
from typing import Final

from penstock.wire.amqp10.decoding import DEPTH_MAX
from penstock.wire.amqp10.values import (
    Array,
    Byte,
    Char,
    Composite,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Uuid,
)

_F32: Final = Struct(">f")
_F64: Final = Struct(">d")

# Constructor, octets, whether there is a sign.
_INTEGERS: Final[dict[type, tuple[int, int, bool]]] = {
    UByte: (0x50, 1, False),
    UShort: (0x60, 2, False),
    UInt: (0x70, 4, False),
    ULong: (0x80, 8, False),
    Byte: (0x51, 1, True),
    Short: (0x61, 2, True),
    Int: (0x71, 4, True),
    int: (0x81, 8, True),
    Timestamp: (0x83, 8, True),
}
_RAWS: Final[dict[type, tuple[int, int]]] = {
    Uuid: (0x98, 16),
    Decimal32: (0x74, 4),
    Decimal64: (0x84, 8),
    Decimal128: (0x94, 16),
}
# Octets of the elements of arrays whose constructor is the key, and whether they have a sign.
_INTEGER_ELEMENTS: Final = {code: (width, sign) for code, width, sign in _INTEGERS.values()}
_RAW_ELEMENTS: Final = dict(_RAWS.values())


def encode_value(value: object) -> bytes:
    return _encode(value, 1)


def write_uint(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    if value < 0x100:
        return b"\x52" + _integer(value, 1, False)
    return b"\x70" + _integer(value, 4, False)


def write_ulong(value: int) -> bytes:
    if value == 0:
        return b"\x44"
    if value < 0x100:
        return b"\x53" + _integer(value, 1, False)
    return b"\x80" + _integer(value, 8, False)


def write_binary(value: bytes) -> bytes:
    return _variable(0xA0, value)


def write_string(value: str) -> bytes:
    return _variable(0xA1, value.encode("utf-8"))


def write_symbol(value: str) -> bytes:
    return _variable(0xA3, value.encode("ascii"))


def write_symbols(values: list[str]) -> bytes:
    return _array(Array(0xB3, list(values)), 1)


def write_list(pieces: list[bytes], code: int) -> bytes:
    """Encoded values as a list (0xC0) or map (0xC1)."""
    if not pieces and code == 0xC0:
        return b"\x45"
    content = b"".join(pieces)
    count = len(pieces)
    if len(content) < 0xFF and count <= 0xFF:
        return bytes((code, len(content) + 1, count)) + content
    return b"".join(
        [
            bytes((code + 0x10,)),
            (len(content) + 4).to_bytes(4, "big"),
            count.to_bytes(4, "big"),
            content,
        ]
    )


def _encode(value: object, depth: int) -> bytes:
    if value is None:
        return b"\x40"
    # Asked before anything else: compiled, what is known to be an int is a plain one.
    kind = type(value)
    if isinstance(value, bool):  # before int: a bool is one
        return b"\x41" if value else b"\x42"
    if isinstance(value, int):
        return _encode_integer(value, kind)
    if isinstance(value, str):
        if isinstance(value, Symbol):
            return write_symbol(value)
        if isinstance(value, Char):
            return b"\x73" + ord(value).to_bytes(4, "big")
        return write_string(value)
    if isinstance(value, bytes):
        return write_binary(value)
    if isinstance(value, Float):  # before float
        return b"\x72" + _f32(value)
    if isinstance(value, float):
        return b"\x82" + _F64.pack(value)
    if isinstance(value, Composite):
        return value.encode()
    if isinstance(value, (Uuid, Decimal32, Decimal64, Decimal128)):
        code, width = _RAWS[type(value)]
        return bytes((code,)) + _raw(value.octets, width)
    return _encode_nested(value, depth)


def _encode_nested(value: object, depth: int) -> bytes:
    if depth > DEPTH_MAX:
        raise ValueError(f"values nested deeper than {DEPTH_MAX}")
    if isinstance(value, (list, tuple)):
        return write_list([_encode(item, depth + 1) for item in value], 0xC0)
    if isinstance(value, dict):
        return write_list(_pairs(value, depth), 0xC1)
    if isinstance(value, Described):
        return b"\x00" + _encode(value.descriptor, depth + 1) + _encode(value.value, depth + 1)
    if isinstance(value, Array):
        return _array(value, depth)
    raise ValueError(f"no AMQP type for {type(value).__name__}")


def _pairs(value: dict[object, object], depth: int) -> list[bytes]:
    pieces: list[bytes] = []
    for key, item in value.items():
        pieces.append(_encode(key, depth + 1))
        pieces.append(_encode(item, depth + 1))
    return pieces


def _encode_integer(value: int, kind: type) -> bytes:
    found = _INTEGERS.get(kind)
    if found is None:
        raise ValueError(f"no AMQP type for {kind.__name__}")
    code, width, sign = found
    if code == 0x70:
        return write_uint(value)
    if code == 0x80:
        return write_ulong(value)
    if code in {0x71, 0x81} and -0x80 <= value < 0x80:
        return bytes((0x54 if code == 0x71 else 0x55, value & 0xFF))
    return bytes((code,)) + _integer(value, width, sign)


def _integer(value: int, width: int, sign: bool) -> bytes:
    try:
        return value.to_bytes(width, "big", signed=sign)
    except OverflowError as error:
        raise ValueError(f"{value} needs more than {width} octets") from error


def _f32(value: float) -> bytes:
    try:
        return _F32.pack(value)
    except OverflowError as error:
        raise ValueError(f"{value} needs more than 4 octets") from error


def _raw(octets: bytes, width: int) -> bytes:
    if len(octets) != width:
        raise ValueError(f"{len(octets)} octets where {width} are wanted")
    return octets


def _variable(code: int, octets: bytes) -> bytes:
    if len(octets) <= 0xFF:
        return bytes((code, len(octets))) + octets
    return bytes((code + 0x10,)) + len(octets).to_bytes(4, "big") + octets


def _array(array: Array, depth: int) -> bytes:
    if depth > DEPTH_MAX:
        raise ValueError(f"values nested deeper than {DEPTH_MAX}")
    code = array.code
    if code in {0xB0, 0xB1, 0xB3}:
        octets = [_octets_of(item, code) for item in array.items]
        wide = any([len(item) > 0xFF for item in octets])
        width = 4 if wide else 1
        elements = [len(item).to_bytes(width, "big") + item for item in octets]
        if not wide:
            code -= 0x10
    else:
        elements = [_element(code, item, depth) for item in array.items]
    constructor = bytes((code,))
    if array.descriptor is not None:
        constructor = b"\x00" + _encode(array.descriptor, depth + 1) + constructor
    content = constructor + b"".join(elements)
    count = len(elements)
    if len(content) < 0xFF and count <= 0xFF:
        return bytes((0xE0, len(content) + 1, count)) + content
    sizes = (len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big")
    return b"\xf0" + sizes + content


def _octets_of(item: object, code: int) -> bytes:
    if isinstance(item, str) and code != 0xB0:
        return item.encode("utf-8" if code == 0xB1 else "ascii")
    if isinstance(item, bytes) and code == 0xB0:
        return item
    raise _no_element(item, code)


def _element(code: int, item: object, depth: int) -> bytes:
    """An element of an array: the value without its constructor."""
    if code == 0x40 and item is None:
        return b""
    if code == 0x56 and isinstance(item, bool):
        return b"\x01" if item else b"\x00"
    if code in _INTEGER_ELEMENTS and isinstance(item, int):
        width, sign = _INTEGER_ELEMENTS[code]
        return _integer(item, width, sign)
    if code == 0x73 and isinstance(item, str):
        return ord(item).to_bytes(4, "big")
    if code in {0x72, 0x82} and isinstance(item, float):
        return _f32(item) if code == 0x72 else _F64.pack(item)
    if code in _RAW_ELEMENTS and isinstance(item, (Uuid, Decimal32, Decimal64, Decimal128)):
        return _raw(item.octets, _RAW_ELEMENTS[code])
    if code == 0xF0 and isinstance(item, Array):
        return _widened(_array(item, depth + 1))
    if code == 0xD0 and isinstance(item, list):
        return _widened(write_list([_encode(value, depth + 1) for value in item], 0xC0))
    if code == 0xD1 and isinstance(item, dict):
        return _widened(write_list(_pairs(item, depth), 0xC1))
    raise _no_element(item, code)


def _widened(compound: bytes) -> bytes:
    """Size, count and content of a compound with four octets for each of the first two."""
    if compound[0] >> 4 in {0xD, 0xF}:
        return compound[1:]
    content = compound[3:]
    count = compound[2] if len(compound) > 2 else 0
    return (len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + content


def _no_element(item: object, code: int) -> ValueError:
    return ValueError(f"{type(item).__name__} in an array of constructor 0x{code:02x}")
