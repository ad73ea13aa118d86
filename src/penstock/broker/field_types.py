"""Names of argument types, as RabbitMQ's refusals say them.

A dialect hands arguments over as Python values. The width of an integer on the wire is gone by
then, so an integer that fits 32 bits is called `signedint` and a wider one `long`, which is what
clients send.
"""

from typing import Final

_SIGNED_INT_MIN: Final = -(2**31)
_SIGNED_INT_MAX: Final = 2**31 - 1


def type_name(value: object) -> str:
    # A boolean is an int to Python, so it is tested first.
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if _SIGNED_INT_MIN <= value <= _SIGNED_INT_MAX else "long"
    if isinstance(value, str):
        return "longstr"
    if isinstance(value, (bytes, bytearray)):
        return "binary"
    if isinstance(value, float):
        return "double"
    if value is None:
        return "void"
    if isinstance(value, dict):
        return "table"
    if isinstance(value, list):
        return "array"
    return type(value).__name__.lower()


def same_value(one: object, other: object) -> bool:
    """Equal and of one kind: `1`, `1.0` and `true` are three different values in a field table."""
    if one.__class__ is not other.__class__:
        # A dialect's timestamp, and the same one read back from disk.
        seconds = getattr(one, "seconds", None)
        return seconds is not None and seconds == getattr(other, "seconds", None)
    return one == other
