"""AMQP 1.0 values that Python has no type for (specification 1.6).

    null None           boolean bool        long int            double float
    binary bytes        string str          list list           map dict

are Python's own; every other type has a class here, so that a value is written again with the type
that it was read with. Numbers and symbols are subclasses of Python's: a symbol equals a string with
the same characters and an ubyte can be added to a long. Ranges are checked when a value is written.
"""

from mypy_extensions import mypyc_attr


@mypyc_attr(native_class=False)
class Symbol(str):
    """ASCII characters from a closed vocabulary."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Char(str):
    """One Unicode character."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class UByte(int):
    """8 bits."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class UShort(int):
    """16 bits."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class UInt(int):
    """32 bits."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class ULong(int):
    """64 bits."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Byte(int):
    """8 bits with a sign."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Short(int):
    """16 bits with a sign."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Int(int):
    """32 bits with a sign."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Timestamp(int):
    """Milliseconds since 1970, 64 bits with a sign: more than a datetime can hold."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Float(float):
    """32 bits."""

    __slots__ = ()


class Raw:
    """Bytes that are passed on without decoding. The width distinguishes the three decimals."""

    def __init__(self, octets: bytes) -> None:
        self.octets: bytes = octets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Raw) and type(self) is type(other) and self.octets == other.octets

    def __hash__(self) -> int:
        return hash(self.octets)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.octets.hex()})"


class Uuid(Raw):
    """16 octets."""


class Decimal32(Raw):
    """4 octets, IEEE 754-2008 decimal32."""


class Decimal64(Raw):
    """8 octets."""


class Decimal128(Raw):
    """16 octets."""


class Described:
    """A value with a descriptor, mostly a symbol or an ulong, that says how to read it."""

    def __init__(self, descriptor: object, value: object) -> None:
        self.descriptor: object = descriptor
        self.value: object = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Described)
            and self.descriptor == other.descriptor
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((self.descriptor, self.value))

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


class Array:
    """Values of one type. `code` is that type's widest constructor (0x70 for uint, 0xB3 for
    symbol, 0x56 for boolean); a described array has its descriptor once for all items.
    """

    def __init__(self, code: int, items: list[object], descriptor: object = None) -> None:
        self.code: int = code
        self.items: list[object] = items
        self.descriptor: object = descriptor

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Array)
            and self.code == other.code
            and self.descriptor == other.descriptor
            and self.items == other.items
        )

    def __hash__(self) -> int:
        return hash((self.code, len(self.items)))

    def __repr__(self) -> str:
        described = "" if self.descriptor is None else f", {self.descriptor!r}"
        return f"Array(0x{self.code:02x}, {self.items!r}{described})"


class Composite:
    """Parent of the generated classes: performatives, states, termini and message sections."""

    def identity(self) -> int:
        """The numeric descriptor."""
        raise NotImplementedError

    def wire_name(self) -> str:
        raise NotImplementedError

    def encode(self) -> bytes:
        """With its descriptor."""
        raise NotImplementedError

    def shown(self) -> list[tuple[str, object]]:
        """Fields with their names, for people."""
        return []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Composite) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def __repr__(self) -> str:
        fields = " ".join(f"{name}={value!r}" for name, value in self.shown() if value is not None)
        return f"<{self.wire_name()} {fields}>" if fields else f"<{self.wire_name()}>"
