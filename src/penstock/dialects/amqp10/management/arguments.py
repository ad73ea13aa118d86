"""Arguments of queues, exchanges and bindings: AMQP 1.0's types to the broker's, and back.

The broker's are those that a field table of AMQP 0-9-1 can hold: widths of numbers and the
difference between symbol and string are gone. On the way back an integer that fits 32 bits is an
`int`, which is what literals are in Java and C#: their clients look for a binding by comparing its
arguments with their own, type for type.
"""

from decimal import Decimal
from operator import index
from typing import Final

from penstock.broker import header_values
from penstock.broker.names import NAME_OCTETS_MAX
from penstock.dialects.amqp10.management.refusals import bad_request
from penstock.wire.amqp10.values import Array, Int, Raw, Timestamp, Uuid

# Leaves room for the levels that a response has around its arguments (the codec takes 32).
DEPTH_MAX: Final = 24
INTEGER_MAX: Final = 2**63 - 1  # of a field table

_INT_MIN: Final = -(2**31)
_INT_MAX: Final = 2**31 - 1
_TYPE_NAMES: Final = {
    "NoneType": "null",
    "bool": "boolean",
    "int": "long",
    "float": "double",
    "str": "string",
    "bytes": "binary",
    "dict": "map",
}


def type_name(value: object) -> str:
    """As the specification calls it."""
    name = value.__class__.__name__
    return _TYPE_NAMES.get(name, name.lower())


def neutral_arguments(value: object) -> dict[str, object]:
    """The field `arguments` of a request."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request(f"arguments must be a map, not {type_name(value)}")
    return _neutral_table(value, "", 1)


def wire_arguments(arguments: dict[str, object]) -> dict[object, object]:
    return _wire_table(arguments, 1)


def _neutral_table(table: dict[object, object], path: str, depth: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in table.items():
        if not isinstance(key, str):
            raise bad_request(f"unsupported argument: a key must be a string, not {type_name(key)}")
        name = _plain_text(key)
        if len(name.encode()) > NAME_OCTETS_MAX:
            raise bad_request(
                f"unsupported argument '{name[:40]}...': its key is longer than "
                f"{NAME_OCTETS_MAX} bytes"
            )
        found[name] = _neutral(value, f"{path}.{name}" if path else name, depth)
    return found


def _neutral(value: object, path: str, depth: int) -> object:
    """`path` names the argument in errors."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Timestamp):  # before int
        return header_values.Timestamp(int(value) // 1000)
    if isinstance(value, int):
        if value > INTEGER_MAX:
            raise bad_request(f"unsupported argument '{path}': needs more than 63 bits")
        # Exactly of class int, even where a compiler would omit `int(value)`.
        return index(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return _plain_text(value)
    if isinstance(value, bytes):
        return value
    if isinstance(value, Uuid):
        return _urn(value)
    if depth >= DEPTH_MAX:
        raise bad_request(f"unsupported argument '{path}': nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, dict):
        return _neutral_table(value, path, depth + 1)
    if isinstance(value, Array):
        value = value.items
    if isinstance(value, list):
        return [_neutral(item, path, depth + 1) for item in value]
    raise bad_request(f"unsupported argument '{path}': its type is {type_name(value)}")


def _plain_text(value: object) -> str:
    """Exactly a `str`, also for a subclass. The parameter is an object, because a compiler that
    knows it as a string would not convert it.
    """
    return str(value)


def _urn(value: Raw) -> str:
    digits = value.octets.hex()
    return f"urn:uuid:{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _wire_table(table: dict[str, object], depth: int) -> dict[object, object]:
    return {_wire_text(key): _wire(value, depth) for key, value in table.items()}


def _wire(value: object, depth: int) -> object:
    if value is None or isinstance(value, (bool, float, bytes)):
        return value
    if isinstance(value, int):
        if _INT_MIN <= value <= _INT_MAX:
            return Int(value)
        return value
    if isinstance(value, str):
        return _wire_text(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (dict, list)) and depth >= DEPTH_MAX:
        # A table of AMQP 0-9-1 may nest deeper than a response can.
        return None
    if isinstance(value, dict):
        return _wire_table(value, depth + 1)
    if isinstance(value, list):
        return [_wire(item, depth + 1) for item in value]
    seconds = getattr(value, "seconds", None)
    # The timestamps of the broker and of either dialect.
    return Timestamp(seconds * 1000) if isinstance(seconds, int) else str(value)


def _wire_text(text: str) -> object:
    """A string; binary when it came over AMQP 0-9-1 with octets that are not UTF-8."""
    octets = text.encode(errors="surrogateescape")
    try:
        octets.decode()
    except UnicodeDecodeError:
        return octets
    return text
