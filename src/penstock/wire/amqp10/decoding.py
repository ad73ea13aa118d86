"""AMQP 1.0 values out of octets (specification 1.6, 1.7).

A value is a constructor octet and what it announces; 0x00 starts a described value. The high
nibble of a constructor says how wide the rest is:

    0x4 nothing   0x5 1   0x6 2   0x7 4   0x8 8   0x9 16 octets
    0xA 1 length octet, then octets     0xB 4 length octets, then octets
    0xC 1 size and 1 count octet        0xD 4 and 4, then count values
    0xE, 0xF as 0xC, 0xD, then one constructor for all elements of an array

Invariants
- Nothing is read beyond the end that was given, nor beyond the end of the compound it is in.
- Values nest no deeper than `DEPTH_MAX`, descriptors included.
- A reader makes no more values than it has octets (and `ZERO_WIDTH_MAX` besides): elements of an
  array may be 0 octets wide, and 13 octets could ask for four thousand million of them.
"""

from typing import Final

from penstock.formats.octets import (
    Malformed,
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
)
from penstock.wire.amqp10.values import (
    Array,
    Byte,
    Char,
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

# The deepest that the specification itself makes is about 8 (an error's info in a rejected state
# of an unsettled map). Each level costs a few stack frames, thousands would end the process.
DEPTH_MAX: Final = 32
# Arrays of nulls or of empty lists have no use; this many elements are decoded all the same.
ZERO_WIDTH_MAX: Final = 256

# Octets after the constructor by its high nibble; -1 where a length follows.
FIXED_WIDTHS: Final = (-1, -1, -1, -1, 0, 1, 2, 4, 8, 16, -1, -1, -1, -1, -1, -1)

# Several constructors make the same type; arrays remember the widest.
WIDEST: Final = {
    0x40: 0x40,
    0x41: 0x56,
    0x42: 0x56,
    0x56: 0x56,
    0x50: 0x50,
    0x51: 0x51,
    0x60: 0x60,
    0x61: 0x61,
    0x43: 0x70,
    0x52: 0x70,
    0x70: 0x70,
    0x54: 0x71,
    0x71: 0x71,
    0x44: 0x80,
    0x53: 0x80,
    0x80: 0x80,
    0x55: 0x81,
    0x81: 0x81,
    0x72: 0x72,
    0x82: 0x82,
    0x73: 0x73,
    0x83: 0x83,
    0x74: 0x74,
    0x84: 0x84,
    0x94: 0x94,
    0x98: 0x98,
    0xA0: 0xB0,
    0xB0: 0xB0,
    0xA1: 0xB1,
    0xB1: 0xB1,
    0xA3: 0xB3,
    0xB3: 0xB3,
    0x45: 0xD0,
    0xC0: 0xD0,
    0xD0: 0xD0,
    0xC1: 0xD1,
    0xD1: 0xD1,
    0xE0: 0xF0,
    0xF0: 0xF0,
}


def decode_value(data: bytes) -> object:
    """The one value in `data`; anything after it is an error."""
    reader = Reader(data, 0, len(data))
    value = reader.value()
    if reader.at != len(data):
        raise Malformed(f"{len(data) - reader.at} octets after the value")
    return value


def skip_value(data: bytes, at: int, end: int) -> int:
    """Where the value at `at` ends; the content of a compound is not checked."""
    # Values still to be skipped: a descriptor puts one more in front.
    wanted = 1
    while wanted:
        if at >= end:
            raise short_of(data, at, 1)
        code = data[at]
        at += 1
        if code == 0:
            wanted += 1
            if wanted > DEPTH_MAX:
                raise Malformed(f"values nested deeper than {DEPTH_MAX}")
            continue
        if code not in WIDEST:
            raise unknown(code, at - 1)
        kind = code >> 4
        width = FIXED_WIDTHS[kind]
        if width >= 0:
            at += width
        elif kind & 1:
            at += 4 + read_u32(data, at)
        else:
            at += 1 + read_u8(data, at)
        if at > end:
            raise short_of(data, at, 0)
        wanted -= 1
    return at


def unknown(code: int, at: int) -> Malformed:
    return Malformed(f"unknown constructor 0x{code:02x} at {at}")


class Reader:
    """Reads values one after the other. Made per frame, and per composite for its fields."""

    def __init__(self, data: bytes, at: int, end: int, depth: int = 0) -> None:
        self.data: bytes = data
        self.at: int = at
        self.end: int = end
        self.depth: int = depth
        self.budget: int = end - at + ZERO_WIDTH_MAX

    def octet(self) -> int:
        at = self.at
        if at >= self.end:
            raise short_of(self.data, at, 1)
        self.at = at + 1
        return self.data[at]

    def value(self) -> object:
        code = self.octet()
        if code != 0:
            return self._of(code)
        self.deeper()
        descriptor = self.value()
        value = self.value()
        self.depth -= 1
        return Described(descriptor, value)

    def described_as(self) -> object:
        """The descriptor of the described value that must be next; the value itself follows."""
        code = self.octet()
        if code != 0:
            raise Malformed(f"described value expected, got constructor 0x{code:02x}")
        self.deeper()
        descriptor = self.value()
        self.depth -= 1
        return descriptor

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise Malformed(f"values nested deeper than {DEPTH_MAX}")

    def take(self, size: int) -> int:
        """Step over `size` octets; where they start."""
        at = self.at
        if at + size > self.end:
            raise short_of(self.data, at, size)
        self.at = at + size
        return at

    def octets(self, code: int) -> bytes:
        """The octets of a variable-width value."""
        if code >> 4 == 0xA:
            size = self.octet()
        else:
            size = read_u32(self.data, self.take(4))
        at = self.take(size)
        return self.data[at : at + size]

    def compound(self, code: int) -> tuple[int, int]:
        """Where the values of a compound start, and how many; steps over all of it."""
        width = 1 if code >> 4 & 1 == 0 else 4
        at = self.take(width)
        size = self.data[at] if width == 1 else read_u32(self.data, at)
        at = self.take(size)
        if size < width:
            raise Malformed(f"compound of {size} octets is too short for its count")
        count = self.data[at] if width == 1 else read_u32(self.data, at)
        return at + width, count

    def _of(self, code: int) -> object:
        """The value that follows a constructor."""
        if self.budget <= 0:
            raise Malformed("more values than octets")
        self.budget -= 1
        kind = code >> 4
        if kind >= 0xA:
            if kind <= 0xB:
                return self._variable(code)
            return self._of_compound(code)
        width = FIXED_WIDTHS[kind]
        if width < 0:
            raise unknown(code, self.at - 1)
        at = self.take(width)
        if kind == 4:
            return self._zero_width(code)
        if width <= 2:
            return _small(self.data, code, at)
        if width == 4:
            return _four(self.data, code, at)
        return _wide(self.data, code, at)

    def _zero_width(self, code: int) -> object:
        if code == 0x40:
            return None
        if code == 0x41:
            return True
        if code == 0x42:
            return False
        if code == 0x43:
            return UInt(0)
        if code == 0x44:
            return ULong(0)
        if code == 0x45:
            return []
        raise unknown(code, self.at - 1)

    def _variable(self, code: int) -> object:
        kind = code & 0xF
        if kind > 3 or kind == 2:
            raise unknown(code, self.at - 1)
        octets = self.octets(code)
        if kind == 0:
            return octets
        return text_of(octets) if kind == 1 else Symbol(symbol_of(octets))

    def _of_compound(self, code: int) -> object:
        if code not in WIDEST:
            raise unknown(code, self.at - 1)
        self.deeper()
        start, count = self.compound(code)
        outer = self.end
        self.end = after = self.at
        self.at = start
        value: object
        if code >= 0xE0:
            value = self._array(count)
        elif code & 0xF == 0:
            value = self._list(count)
        else:
            value = self._map(count)
        if self.at != after:
            raise Malformed(f"{after - self.at} octets after the last of {count} values")
        self.end = outer
        self.depth -= 1
        return value

    def _list(self, count: int) -> list[object]:
        values: list[object] = []
        while count:
            values.append(self.value())
            count -= 1
        return values

    def _map(self, count: int) -> dict[object, object]:
        if count & 1:
            raise Malformed(f"map with an odd number of values, {count}")
        pairs: dict[object, object] = {}
        while count:
            key = self.value()
            if not is_key(key):
                raise Malformed(f"{type(key).__name__} is not a valid map key")
            pairs[key] = self.value()
            count -= 2
        return pairs

    def _array(self, count: int) -> Array:
        code = self.octet()
        descriptor: object = None
        if code == 0:
            self.at -= 1
            descriptor = self.described_as()
            code = self.octet()
        if code not in WIDEST:
            # Also 0x00: a described value of a described type; not known to occur in an array.
            raise unknown(code, self.at - 1)
        items: list[object] = []
        while count:
            items.append(self._of(code))
            count -= 1
        return Array(WIDEST[code], items, descriptor)


def is_key(value: object) -> bool:
    """Whether a Python dict can hold it as a key; the specification would allow any value."""
    return not isinstance(value, (list, dict, Array, Described))


def text_of(octets: bytes) -> str:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("a string is not valid UTF-8") from error


def symbol_of(octets: bytes) -> str:
    try:
        return octets.decode("ascii")
    except UnicodeDecodeError as error:
        raise Malformed("a symbol is not ASCII") from error


def _small(data: bytes, code: int, at: int) -> object:
    if code == 0x50:
        return UByte(data[at])
    if code == 0x51:
        return Byte(read_i8(data, at))
    if code == 0x52:
        return UInt(data[at])
    if code == 0x53:
        return ULong(data[at])
    if code == 0x54:
        return Int(read_i8(data, at))
    if code == 0x55:
        return read_i8(data, at)
    if code == 0x56:
        if data[at] > 1:
            raise Malformed(f"invalid boolean {data[at]}")
        return data[at] == 1
    if code == 0x60:
        return UShort(read_u16(data, at))
    if code == 0x61:
        return Short(read_i16(data, at))
    raise unknown(code, at - 1)


def _four(data: bytes, code: int, at: int) -> object:
    if code == 0x70:
        return UInt(read_u32(data, at))
    if code == 0x71:
        return Int(read_i32(data, at))
    if code == 0x72:
        return Float(read_f32(data, at))
    if code == 0x73:
        point = read_u32(data, at)
        if point > 0x10FFFF:
            raise Malformed(f"invalid character 0x{point:x}")
        return Char(chr(point))
    if code == 0x74:
        return Decimal32(data[at : at + 4])
    raise unknown(code, at - 1)


def _wide(data: bytes, code: int, at: int) -> object:
    if code == 0x80:
        return ULong(read_u64(data, at))
    if code == 0x81:
        return read_i64(data, at)
    if code == 0x82:
        return read_f64(data, at)
    if code == 0x83:
        return Timestamp(read_i64(data, at))
    if code == 0x84:
        return Decimal64(data[at : at + 8])
    if code == 0x94:
        return Decimal128(data[at : at + 16])
    if code == 0x98:
        return Uuid(data[at : at + 16])
    raise unknown(code, at - 1)
