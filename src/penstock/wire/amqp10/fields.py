"""Fields of composites: typed reading and writing, null for what is absent (specification 1.4).

A composite is a described list. Fields at its end that are null may be left out; unknown fields at
the end are skipped, so that a peer may send more of them. A field of the wrong type is `Malformed`,
which ends the connection with amqp:decode-error.
"""

from typing import Final

from penstock.formats.octets import Malformed, read_u16, read_u32, read_u64
from penstock.wire.amqp10.decoding import Reader, skip_value, symbol_of, text_of
from penstock.wire.amqp10.encoding import (
    encode_value,
    write_binary,
    write_list,
    write_string,
    write_symbol,
    write_symbols,
    write_uint,
    write_ulong,
)
from penstock.wire.amqp10.values import Array, Timestamp, ULong, Uuid

_NULL: Final = b"\x40"
_TRUE: Final = b"\x41"
_FALSE: Final = b"\x42"


class Fields(Reader):
    """The fields of one composite, read in their order by its `decode`."""

    def __init__(self, data: bytes, at: int, end: int, depth: int, count: int) -> None:
        super().__init__(data, at, end, depth)
        self.left: int = count

    def finish(self) -> None:
        """All known fields are read; step over the others."""
        while self.left > 0:
            self.left -= 1
            self.at = skip_value(self.data, self.at, self.end)
        if self.at != self.end:
            raise Malformed(f"{self.end - self.at} octets after the last field")

    def next_code(self) -> int:
        """The constructor of the next field; that of null when it is absent."""
        if self.left == 0:
            return 0x40
        self.left -= 1
        return self.octet()

    def any(self) -> object:
        if self.left == 0:
            return None
        self.left -= 1
        return self.value()

    def is_null(self) -> bool:
        """Whether the next field is absent or null; a null is stepped over."""
        if self.left == 0:
            return True
        if self.at < self.end and self.data[self.at] == 0x40:
            self.left -= 1
            self.at += 1
            return True
        return False

    def boolean(self) -> bool | None:
        code = self.next_code()
        if code == 0x41:
            return True
        if code == 0x42:
            return False
        if code == 0x56:
            octet = self.octet()
            if octet > 1:
                raise Malformed(f"invalid boolean {octet}")
            return octet == 1
        if code == 0x40:
            return None
        raise wrong("boolean", code)

    def uint(self) -> int | None:
        code = self.next_code()
        if code == 0x43:
            return 0
        if code == 0x52:
            return self.octet()
        if code == 0x70:
            return read_u32(self.data, self.take(4))
        if code == 0x40:
            return None
        raise wrong("uint", code)

    def ulong(self) -> int | None:
        code = self.next_code()
        if code == 0x44:
            return 0
        if code == 0x53:
            return self.octet()
        if code == 0x80:
            return read_u64(self.data, self.take(8))
        if code == 0x40:
            return None
        raise wrong("ulong", code)

    def ushort(self) -> int | None:
        code = self.next_code()
        if code == 0x60:
            return read_u16(self.data, self.take(2))
        if code == 0x40:
            return None
        raise wrong("ushort", code)

    def ubyte(self) -> int | None:
        code = self.next_code()
        if code == 0x50:
            return self.octet()
        if code == 0x40:
            return None
        raise wrong("ubyte", code)

    def timestamp(self) -> int | None:
        value = self.any()
        if value is None or isinstance(value, Timestamp):
            return value
        raise Malformed(f"timestamp expected, got {type(value).__name__}")

    def binary(self) -> bytes | None:
        code = self.next_code()
        if code in {0xA0, 0xB0}:
            return self.octets(code)
        if code == 0x40:
            return None
        raise wrong("binary", code)

    def string(self) -> str | None:
        code = self.next_code()
        if code in {0xA1, 0xB1}:
            return text_of(self.octets(code))
        if code == 0x40:
            return None
        raise wrong("string", code)

    def symbol(self) -> str | None:
        code = self.next_code()
        if code in {0xA3, 0xB3}:
            return symbol_of(self.octets(code))
        if code == 0x40:
            return None
        raise wrong("symbol", code)

    def symbols(self) -> list[str]:
        """A field of many symbols: null, one alone or an array."""
        if self.left > 0 and self.at < self.end and self.data[self.at] in {0xA3, 0xB3}:
            alone = self.symbol()
            return [] if alone is None else [alone]
        value = self.any()
        if value is None:
            return []
        if isinstance(value, Array) and (value.code == 0xB3 or not value.items):
            return [str(item) for item in value.items]
        raise Malformed(f"symbols expected, got {type(value).__name__}")

    def map(self) -> dict[object, object] | None:
        value = self.any()
        if value is None or isinstance(value, dict):
            return value
        raise Malformed(f"map expected, got {type(value).__name__}")

    def named(self) -> dict[str, object] | None:
        """A map whose keys are symbols; strings are accepted as well."""
        value = self.map()
        if value is None:
            return None
        named: dict[str, object] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise Malformed(f"symbol expected as key, got {type(key).__name__}")
            named[str(key)] = item
        return named

    def message_id(self) -> object:
        value = self.any()
        if value is None or isinstance(value, (str, bytes, ULong, Uuid)):
            return value
        raise Malformed(f"message-id expected, got {type(value).__name__}")


def fields_of(reader: Reader) -> Fields:
    """The fields of the list that must be next; `reader` steps over it."""
    code = reader.octet()
    if code == 0x45:
        return Fields(reader.data, reader.at, reader.at, reader.depth + 1, 0)
    if code not in {0xC0, 0xD0}:
        raise wrong("list", code)
    reader.deeper()
    start, count = reader.compound(code)
    if count > reader.at - start:
        raise Malformed(f"list of {count} values in {reader.at - start} octets")
    fields = Fields(reader.data, start, reader.at, reader.depth, count)
    reader.depth -= 1
    return fields


def wrong(expected: str, code: int) -> Malformed:
    return Malformed(f"{expected} expected, got constructor 0x{code:02x}")


def missing(composite: str, field: str) -> Malformed:
    return Malformed(f"{composite} without {field}")


def boolean_field(value: bool | None) -> bytes:
    if value is None:
        return _NULL
    return _TRUE if value else _FALSE


def uint_field(value: int | None) -> bytes:
    return _NULL if value is None else write_uint(value)


def ulong_field(value: int | None) -> bytes:
    return _NULL if value is None else write_ulong(value)


def ushort_field(value: int | None) -> bytes:
    return _NULL if value is None else b"\x60" + value.to_bytes(2, "big")


def ubyte_field(value: int | None) -> bytes:
    return _NULL if value is None else b"\x50" + value.to_bytes(1, "big")


def timestamp_field(value: int | None) -> bytes:
    return _NULL if value is None else encode_value(Timestamp(value))


def binary_field(value: bytes | None) -> bytes:
    return _NULL if value is None else write_binary(value)


def string_field(value: str | None) -> bytes:
    return _NULL if value is None else write_string(value)


def symbol_field(value: str | None) -> bytes:
    return _NULL if value is None else write_symbol(value)


def symbols_field(value: list[str]) -> bytes:
    # Always an array: some peers do not expect a symbol alone.
    return write_symbols(value) if value else _NULL


def map_field(value: dict[object, object] | None) -> bytes:
    return _NULL if value is None else encode_value(value)


def named_field(value: dict[str, object] | None) -> bytes:
    if value is None:
        return _NULL
    pieces: list[bytes] = []
    for key, item in value.items():
        pieces.append(write_symbol(key))
        pieces.append(encode_value(item))
    return write_list(pieces, 0xC1)


def any_field(value: object) -> bytes:
    return encode_value(value)


def message_id_field(value: object) -> bytes:
    return encode_value(value)


def encode_composite(head: bytes, pieces: list[bytes]) -> bytes:
    """`head` is the descriptor; null fields at the end are left out."""
    count = len(pieces)
    while count and pieces[count - 1] == _NULL:
        count -= 1
    return head + write_list(pieces[:count], 0xC0)
