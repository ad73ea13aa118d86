"""Field tables: named, typed values in arguments, properties and headers (specification 4.2.5.5).

RabbitMQ's reading of the type letters is used where the specification contradicts itself ("errata"):

    t bool   b i8   B u8   s i16   u u16   I i32   i u32   l i64   L i64   f float   d double
    D decimal (scale octet, i32)   S long string   x byte array   T timestamp   A array
    F table   V void

In Python they are bool, int, float, `decimal.Decimal`, str, bytes (only x), `Timestamp`, list,
dict and None. A long string or key that is not UTF-8 keeps its octets as lone surrogates (PEP 383),
so that decoding and encoding again gives the same type and the same octets. Every Python type is
written with a letter that all clients read: t, I (l when 32 bits are too few), d, D, S, x, T, A, F,
V.

Invariants: nothing is read beyond a table's own size; nesting deeper than `DEPTH_MAX` is refused,
so that no peer can exhaust our stack; size is bounded by the frame a table came in.
"""

from decimal import Decimal
from struct import Struct
from typing import Final

from penstock.formats.octets import (
    SHORT_STRING_BYTES_MAX,
    Malformed,
    read_bytes,
    read_f32,
    read_f64,
    read_i8,
    read_i16,
    read_i32,
    read_i64,
    read_u8,
    read_u16,
    read_u32,
    read_u64,
    short_of,
    write_f64,
    write_u32,
    write_u64,
)

# RabbitMQ's own deepest table (x-death in headers) has depth 3; no client library makes more than
# a handful. Each level costs a few stack frames, thousands would end the process.
DEPTH_MAX: Final = 32

_DECIMAL_SCALE_MAX: Final = 255
# Octets of a value by its type letter: those of the values of fixed size, and two that stand for
# the others.
_VARIABLE_SIZE: Final = 0xFE
_UNKNOWN_LETTER: Final = 0xFF
_SIZES_BY_LETTERS: Final = {
    "V": 0,
    "tbB": 1,
    "su": 2,
    "Iif": 4,
    "D": 5,
    "lLdT": 8,
    "SxAF": _VARIABLE_SIZE,
}
_FIXED_SIZES: Final = bytes(
    next((size for letters, size in _SIZES_BY_LETTERS.items() if chr(octet) in letters), 0xFF)
    for octet in range(256)
)
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_DECIMAL: Final = Struct(">Bi")


class Timestamp:
    """Seconds since 1970 as the wire has them: 64 bits, more than a datetime can hold."""

    def __init__(self, seconds: int) -> None:
        self.seconds: int = seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.seconds == other.seconds

    def __hash__(self) -> int:
        return hash(self.seconds)

    def __repr__(self) -> str:
        return f"Timestamp({self.seconds})"


class Long:
    """An integer to be written in 64 bits however small it is: some clients cast without a check
    (the count in `x-death`). Read back it is a plain int.
    """

    def __init__(self, value: int) -> None:
        self.value: int = value


def decode_table(data: bytes, at: int) -> dict[str, object]:
    """The table whose size octets start at `at`; it ends at `at + 4 + read_u32(data, at)`."""
    return _read_table(data, at, len(data), 1)


def check_table(data: bytes, at: int) -> None:
    """Raises `Malformed` where `decode_table` would, without creating the values."""
    _check_table(data, at, len(data), 1)


def encode_table(table: dict[str, object]) -> bytes:
    """With its size octets. Raises ValueError for a value that no field type can hold."""
    pieces: list[bytes] = []
    _write_table(pieces, table, 1)
    return b"".join(pieces)


def _read_table(data: bytes, at: int, end: int, depth: int) -> dict[str, object]:
    at, end = _bounds(data, at, end, depth)
    table: dict[str, object] = {}
    while at < end:
        size = data[at]
        at += 1 + size
        if at >= end:
            raise short_of(data, at - size, size + 1)
        key = data[at - size : at].decode("utf-8", "surrogateescape")
        table[key] = _read_value(data, at, end, depth)
        at += 1 + _value_size(data, at)
    return table


def _read_array(data: bytes, at: int, end: int, depth: int) -> list[object]:
    at, end = _bounds(data, at, end, depth)
    array: list[object] = []
    while at < end:
        array.append(_read_value(data, at, end, depth))
        at += 1 + _value_size(data, at)
    return array


def _check_table(data: bytes, at: int, end: int, depth: int) -> None:
    at, end = _bounds(data, at, end, depth)
    while at < end:
        size = data[at]
        at += 1 + size
        if at >= end:
            raise short_of(data, at - size, size + 1)
        at = _checked_end(data, at, end, depth)


def _check_array(data: bytes, at: int, end: int, depth: int) -> None:
    at, end = _bounds(data, at, end, depth)
    while at < end:
        at = _checked_end(data, at, end, depth)


def _checked_end(data: bytes, at: int, end: int, depth: int) -> int:
    """Where the value whose type letter is at `at` ends, which must be before `end`."""
    letter = data[at]
    at += 1
    size = _FIXED_SIZES[letter]
    if size == _VARIABLE_SIZE:
        if letter == 0x46:  # F
            _check_table(data, at, end, depth + 1)
        elif letter == 0x41:  # A
            _check_array(data, at, end, depth + 1)
        size = 4 + read_u32(data, at)
    elif size == _UNKNOWN_LETTER:
        raise _unknown_letter(letter, at)
    if at + size > end:
        raise short_of(data, at, size)
    return at + size


def _bounds(data: bytes, at: int, end: int, depth: int) -> tuple[int, int]:
    if depth > DEPTH_MAX:
        raise Malformed(f"field table nested deeper than {DEPTH_MAX}")
    start = at + 4
    stop = start + read_u32(data, at)
    if start > end or stop > end:
        raise short_of(data, start, stop - start)
    return start, stop


def _value_size(data: bytes, at: int) -> int:
    """Octets after the type letter of a value that has been read already."""
    size = _FIXED_SIZES[data[at]]
    return 4 + read_u32(data, at + 1) if size == _VARIABLE_SIZE else size


def _read_value(data: bytes, at: int, end: int, depth: int) -> object:
    letter = data[at]
    at += 1
    if letter == 0x53:  # S
        return _read_octets(data, at, end).decode("utf-8", "surrogateescape")
    if letter == 0x78:  # x
        return _read_octets(data, at, end)
    if letter == 0x46:  # F
        return _read_table(data, at, end, depth + 1)
    if letter == 0x41:  # A
        return _read_array(data, at, end, depth + 1)
    if letter == 0x56:  # V
        return None
    value = _read_scalar(data, letter, at)
    if at + _value_size(data, at - 1) > end:
        raise short_of(data, at, _value_size(data, at - 1))
    return value


def _read_octets(data: bytes, at: int, end: int) -> bytes:
    size = read_u32(data, at)
    if at + 4 + size > end:
        raise short_of(data, at + 4, size)
    return read_bytes(data, at + 4, size)


def _read_scalar(data: bytes, letter: int, at: int) -> object:
    if letter == 0x74:  # t
        return read_u8(data, at) != 0
    if letter == 0x49:  # I
        return read_i32(data, at)
    if letter in b"lL":
        return read_i64(data, at)
    if letter == 0x64:  # d
        return read_f64(data, at)
    if letter == 0x66:  # f
        return read_f32(data, at)
    if letter == 0x54:  # T
        return Timestamp(read_u64(data, at))
    if letter == 0x44:  # D
        return _read_decimal(data, at)
    return _read_small_int(data, letter, at)


def _read_small_int(data: bytes, letter: int, at: int) -> int:
    if letter == 0x62:  # b
        return read_i8(data, at)
    if letter == 0x42:  # B
        return read_u8(data, at)
    if letter == 0x73:  # s
        return read_i16(data, at)
    if letter == 0x75:  # u
        return read_u16(data, at)
    if letter == 0x69:  # i
        return read_u32(data, at)
    raise _unknown_letter(letter, at)


def _unknown_letter(letter: int, at: int) -> Malformed:
    return Malformed(f"unknown field type {bytes((letter,))!r} at {at - 1}")


def _read_decimal(data: bytes, at: int) -> Decimal:
    scale = read_u8(data, at)
    unscaled = read_i32(data, at + 1)
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((1 if unscaled < 0 else 0, digits, -scale))


def _write_table(pieces: list[bytes], table: dict[str, object], depth: int) -> None:
    if depth > DEPTH_MAX:
        raise ValueError(f"field table nested deeper than {DEPTH_MAX}")
    inner: list[bytes] = []
    for key, value in table.items():
        octets = key.encode("utf-8", "surrogateescape")
        if len(octets) > SHORT_STRING_BYTES_MAX:
            raise ValueError(
                f"field name of {len(octets)} octets is longer than {SHORT_STRING_BYTES_MAX}"
            )
        inner.append(bytes((len(octets),)))
        inner.append(octets)
        _write_value(inner, value, depth)
    _write_sized(pieces, b"".join(inner))


def _write_sized(pieces: list[bytes], octets: bytes) -> None:
    pieces.append(write_u32(len(octets)))
    pieces.append(octets)


def _write_value(pieces: list[bytes], value: object, depth: int) -> None:
    if value is None:
        pieces.append(b"V")
    elif isinstance(value, str):
        pieces.append(b"S")
        _write_sized(pieces, value.encode("utf-8", "surrogateescape"))
    elif isinstance(value, bool):  # before int: a bool is one
        pieces.append(b"t\x01" if value else b"t\x00")
    elif isinstance(value, int):
        _write_int(pieces, value)
    elif isinstance(value, float):
        pieces.append(b"d" + write_f64(value))
    elif isinstance(value, (bytes, bytearray)):
        pieces.append(b"x")
        _write_sized(pieces, bytes(value))
    elif isinstance(value, dict):
        pieces.append(b"F")
        _write_table(pieces, value, depth + 1)
    elif isinstance(value, (list, tuple)):
        if depth >= DEPTH_MAX:
            raise ValueError(f"field array nested deeper than {DEPTH_MAX}")
        inner: list[bytes] = []
        for item in value:
            _write_value(inner, item, depth + 1)
        pieces.append(b"A")
        _write_sized(pieces, b"".join(inner))
    elif isinstance(value, Long):
        pieces.append(b"l" + _I64.pack(value.value))
    elif isinstance(value, Timestamp):
        pieces.append(b"T" + write_u64(value.seconds))
    elif isinstance(value, Decimal):
        _write_decimal(pieces, value)
    else:
        raise ValueError(f"no field type for {type(value).__name__}")


def _write_int(pieces: list[bytes], value: int) -> None:
    if -0x8000_0000 <= value < 0x8000_0000:
        pieces.append(b"I" + _I32.pack(value))
    elif -(1 << 63) <= value < 1 << 63:
        pieces.append(b"l" + _I64.pack(value))
    else:
        raise ValueError(f"{value} needs more than 64 bits")


def is_field_decimal(value: Decimal) -> bool:
    """Whether a field table has room for its digits."""
    unscaled = _unscaled(value)
    exponent = value.as_tuple().exponent
    if unscaled is None or not isinstance(exponent, int):
        return False
    return -exponent <= _DECIMAL_SCALE_MAX and -0x8000_0000 <= unscaled < 0x8000_0000


def _unscaled(value: Decimal) -> int | None:
    """Without its decimal point; None when it is infinite or not a number."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    unscaled = 0
    for digit in digits:
        unscaled = unscaled * 10 + digit
    if exponent > 0:
        # Ten digits are more than 32 bits hold; the exponent is bounded before ten is raised to it.
        unscaled *= 10 ** min(exponent, 10)
    return -unscaled if sign else unscaled


def _write_decimal(pieces: list[bytes], value: Decimal) -> None:
    if not is_field_decimal(value):
        raise ValueError(f"{value} does not fit a field-table decimal")
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "it is finite"
    pieces.append(b"D" + _DECIMAL.pack(max(-exponent, 0), _unscaled(value)))
