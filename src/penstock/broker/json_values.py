"""Which JSON values can be arguments and parameters, and what is wrong with one that cannot."""

import math
from typing import Final

from penstock.broker.names import NAME_OCTETS_MAX

# What a field table can carry over the wire, which is where arguments end: 64 bits, keys of one
# length octet, and as many levels as the decoder takes.
INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1
DEPTH_MAX: Final = 32


def text_fault(value: str) -> str:
    """Bytes that are not UTF-8 travel as lone surrogates (PEP 383); other surrogates are
    invalid.
    """
    try:
        value.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return "is not a valid Unicode string"
    return ""


def name_fault(name: object) -> str:
    if not isinstance(name, str):
        return expected("a string", True, name)
    fault = text_fault(name)
    if not fault and len(name.encode(errors="surrogateescape")) > NAME_OCTETS_MAX:
        fault = f"its key is longer than {NAME_OCTETS_MAX} bytes"
    return fault


def value_fault(value: object, depth: int) -> str:
    """Why a value cannot be an argument; empty when it can."""
    if isinstance(value, str):
        return text_fault(value)
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, float):
        # JSON's numbers have no limit: 1e400 is read as infinity, which JSON cannot write.
        return (
            "" if math.isfinite(value) else "is not a finite number; the largest is about 1.8e308"
        )
    if isinstance(value, int):
        return "" if INTEGER_MIN <= value <= INTEGER_MAX else "needs more than 64 bits"
    if depth >= DEPTH_MAX:
        return f"is nested deeper than {DEPTH_MAX} levels"
    if isinstance(value, list):
        for member in value:
            fault = value_fault(member, depth + 1)
            if fault:
                return fault
        return ""
    if isinstance(value, dict):
        for name, member in value.items():
            fault = name_fault(name) or value_fault(member, depth + 1)
            if fault:
                return fault
        return ""
    return f"a value of type {type(value).__name__} is not a JSON value"


def expected(what: str, is_there: bool, value: object) -> str:
    return f"must be {what}, not {_json_kind(value)}" if is_there else f"is missing ({what})"


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else type(value).__name__
