"""Field tables of AMQP 0-9-1 in the types of AMQP 1.0, so that no width is lost on the way.

    t boolean  b byte  B ubyte  s short  u ushort  I int  i uint  l L long  f float  d double
    D decimal64  S string  x binary  T timestamp  A list  F map  V null

in both directions; a long string that is not UTF-8 is read as binary. AMQP 1.0 has more types than
there are letters: a symbol, a character and an uuid are written as long strings, an ulong as `l` or,
above that, as its digits, an array as `A`, and of a described value the value.

Invariants: whatever AMQP 1.0 can hold can be written; a table nests no deeper than its values did.
"""

from decimal import Decimal
from struct import Struct
from typing import Final

from penstock.dialects.amqp10.messages.neutral_values import (
    decimal64_of,
    number_of,
    plain_text,
    text_of_identifier,
    text_of_uuid,
)
from penstock.formats.octets import (
    SHORT_STRING_BYTES_MAX,
    read_f32,
    read_f64,
    read_i8,
    read_i16,
    read_i32,
    read_i64,
    read_u16,
    read_u32,
    read_u64,
    write_f64,
    write_long_string,
    write_u64,
)
from penstock.wire.amqp091.field_table import decode_table
from penstock.wire.amqp10.values import (
    Array,
    Byte,
    Described,
    Float,
    Int,
    Raw,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Uuid,
)

# The end of the year 9999, after which client libraries have no dates and fail to read the table.
SECONDS_MAX: Final = 253_402_300_799
_INT64_MAX: Final = 2**63 - 1
_SCALE_MAX: Final = 255
_F32: Final = Struct(">f")
_DECIMAL: Final = Struct(">Bi")
# Letter, octets and whether there is a sign.
_INTEGERS: Final[dict[type, tuple[bytes, int, bool]]] = {
    Byte: (b"b", 1, True),
    UByte: (b"B", 1, False),
    Short: (b"s", 2, True),
    UShort: (b"u", 2, False),
    Int: (b"I", 4, True),
    UInt: (b"i", 4, False),
    int: (b"l", 8, True),
}


def read_typed_table(data: bytes, at: int) -> dict[str, object]:
    """The table whose size octets start at `at`. Octets of names that are not UTF-8 are kept as
    surrogates, as `decode_table` does.
    """
    # It checks sizes, letters and depth, so that the readers here need not.
    decode_table(data, at)
    table: dict[str, object] = {}
    end = at + 4 + read_u32(data, at)
    at += 4
    while at < end:
        size = data[at]
        at += 1 + size
        table[data[at - size : at].decode("utf-8", "surrogateescape")] = _read_value(data, at)
        at += 1 + _value_size(data, at)
    return table


def fields_in(data: bytes, at: int) -> list[bytes]:
    """The fields of a table as octets, with their names."""
    fields: list[bytes] = []
    end = at + 4 + read_u32(data, at)
    at += 4
    while at < end:
        start = at
        at += 1 + data[at]
        at += 1 + _value_size(data, at)
        fields.append(data[start:at])
    return fields


def _value_size(data: bytes, at: int) -> int:
    letter = data[at]
    if letter in b"SxAF":
        return 4 + read_u32(data, at + 1)
    if letter in b"tbB":
        return 1
    if letter in b"su":
        return 2
    if letter in b"Iif":
        return 4
    if letter == 0x44:  # D
        return 5
    return 0 if letter == 0x56 else 8  # V


def _read_value(data: bytes, at: int) -> object:
    letter = data[at]
    at += 1
    if letter in b"SxAF":
        end = at + 4 + read_u32(data, at)
        if letter == 0x46:  # F
            return _read_map(data, at + 4, end)
        if letter == 0x41:  # A
            return _read_list(data, at + 4, end)
        octets = data[at + 4 : end]
        return octets if letter == 0x78 else _text_or_octets(octets)
    if letter == 0x74:  # t
        return data[at] != 0
    if letter == 0x56:  # V
        return None
    if letter == 0x54:  # T
        seconds = read_u64(data, at)
        if seconds * 1000 > _INT64_MAX:
            return ULong(seconds)
        return Timestamp(seconds * 1000)
    return _read_number(data, letter, at)


def _read_number(data: bytes, letter: int, at: int) -> object:
    if letter == 0x49:  # I
        return Int(read_i32(data, at))
    if letter == 0x64:  # d
        return read_f64(data, at)
    if letter == 0x66:  # f
        return Float(read_f32(data, at))
    if letter == 0x62:  # b
        return Byte(read_i8(data, at))
    if letter == 0x42:  # B
        return UByte(data[at])
    if letter == 0x73:  # s
        return Short(read_i16(data, at))
    if letter == 0x75:  # u
        return UShort(read_u16(data, at))
    if letter == 0x69:  # i
        return UInt(read_u32(data, at))
    if letter == 0x44:  # D
        unscaled = read_i32(data, at + 1)
        digits = tuple([int(digit) for digit in str(abs(unscaled))])
        return decimal64_of(Decimal((1 if unscaled < 0 else 0, digits, -data[at])))
    return read_i64(data, at)


def _read_map(data: bytes, at: int, end: int) -> dict[object, object]:
    pairs: dict[object, object] = {}
    while at < end:
        size = data[at]
        at += 1 + size
        name = _text_or_octets(data[at - size : at])
        key = Symbol(name) if isinstance(name, str) and name.isascii() else name
        pairs[key] = _read_value(data, at)
        at += 1 + _value_size(data, at)
    return pairs


def _read_list(data: bytes, at: int, end: int) -> list[object]:
    items: list[object] = []
    while at < end:
        items.append(_read_value(data, at))
        at += 1 + _value_size(data, at)
    return items


def _text_or_octets(octets: bytes) -> object:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets


def write_typed_table(table: dict[str, object]) -> bytes:
    """With its size octets. Names are known to fit."""
    pieces: list[bytes] = []
    for name, value in table.items():
        octets = name.encode("utf-8", "surrogateescape")
        pieces.append(bytes((len(octets),)) + octets)
        pieces.append(write_field(value))
    return write_long_string(b"".join(pieces))


def write_field(value: object) -> bytes:
    """One AMQP 1.0 value with its letter."""
    if value is None:
        return b"V"
    # Asked before anything else: compiled, what is known to be an int is a plain one.
    kind = type(value)
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, str):
        return _write_text(plain_text(value))
    if isinstance(value, int):
        return _write_integer(value, kind)
    if isinstance(value, bytes):
        return b"x" + write_long_string(value)
    if isinstance(value, Float):
        return b"f" + _F32.pack(value)
    if isinstance(value, float):
        return b"d" + write_f64(value)
    if isinstance(value, (list, Array)):
        items = value.items if isinstance(value, Array) else value
        return b"A" + write_long_string(b"".join([write_field(item) for item in items]))
    if isinstance(value, dict):
        return b"F" + _write_map(value)
    if isinstance(value, Described):
        return write_field(value.value)
    if isinstance(value, Uuid):
        return _write_text(text_of_uuid(value))
    assert isinstance(value, Raw), "every type of AMQP 1.0 is written"
    return _write_decimal(value)


def _write_text(text: str) -> bytes:
    return b"S" + write_long_string(text.encode("utf-8"))


def _write_integer(value: int, kind: type) -> bytes:
    if kind is Timestamp:
        if 0 <= value < (SECONDS_MAX + 1) * 1000:
            return b"T" + write_u64(value // 1000)
        kind = int
    if kind is ULong:
        if value > _INT64_MAX:
            return _write_text(str(int(value)))
        kind = int
    letter, width, sign = _INTEGERS[kind]
    return letter + value.to_bytes(width, "big", signed=sign)


def _write_decimal(value: Raw) -> bytes:
    number = number_of(value)
    if number is None:
        return b"x" + write_long_string(value.octets)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "a finite number"
    coefficient = 0
    for digit in digits:
        coefficient = coefficient * 10 + digit
    if sign:
        coefficient = -coefficient
    if not -_SCALE_MAX <= exponent <= 0 or not -0x8000_0000 <= coefficient < 0x8000_0000:
        return _write_text(str(number))
    return b"D" + _DECIMAL.pack(-exponent, coefficient)


def _write_map(pairs: dict[object, object]) -> bytes:
    pieces: list[bytes] = []
    for key, value in pairs.items():
        octets = key if isinstance(key, bytes) else text_of_identifier(key).encode("utf-8")
        if len(octets) > SHORT_STRING_BYTES_MAX:
            # A table cannot hold such names.
            continue
        pieces.append(bytes((len(octets),)) + octets)
        pieces.append(write_field(value))
    return write_long_string(b"".join(pieces))
