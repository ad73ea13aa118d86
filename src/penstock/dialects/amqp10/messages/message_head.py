"""Where the head of a message ends and its body begins (specification 3.2), without decoding either.

    header? delivery-annotations? message-annotations? properties? application-properties?  head
    data+ | amqp-sequence+ | amqp-value, footer?                                            body

The broker keeps both as octets. Delivery annotations are for the next hop, which is the broker, so
they are cut out.

Invariants
- A body that was accepted is complete and well formed: it is not checked again. A message without
  any section of a body is accepted with null as its body.
- Nothing is built to check it, so that a check costs no memory, and no more stack than `DEPTH_MAX`
  levels, whatever a peer sends.
"""

from typing import Final

from penstock.formats.octets import Malformed, read_u32, short_of
from penstock.wire.amqp10.decoding import (
    DEPTH_MAX,
    FIXED_WIDTHS,
    WIDEST,
    Reader,
    skip_value,
    symbol_of,
    text_of,
    unknown,
)
from penstock.wire.amqp10.performatives_generated import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    NAMES,
    PROPERTIES,
    code_of,
)

# What comes before the body. AMQP 0-9-1 puts as much into one frame, mostly 128 KiB; no application
# needs several times that. Decoded values take many times the memory of their octets.
HEAD_BYTES_MAX: Final = 1 << 20

# The section that a message without a body gets: an amqp-value that is null.
NULL_BODY: Final = b"\x00\x53\x77\x40"

_LISTS: Final = frozenset({0x45, 0xC0, 0xD0})
_MAPS: Final = frozenset({0xC1, 0xD1})
_BINARIES: Final = frozenset({0xA0, 0xB0})
_CHARACTER_MAX: Final = 0x10FFFF


def divide_message(payload: bytes) -> tuple[bytes, bytes, int]:
    """Head, body, and how many octets of the payload come before the body. Raises `Malformed` for a
    wrong order, a broken body, and a section of the head that does not end where it should;
    `read_head` looks inside the head.
    """
    size = len(payload)
    at = 0
    previous = 0
    cut_start = 0
    cut_end = 0
    while at < size:
        code = section_code(payload, at)
        if code >= DATA:
            break
        if code <= previous:
            raise out_of_order(code)
        end = skip_section(payload, at, code)
        if code == DELIVERY_ANNOTATIONS:
            check_value(payload, value_start(payload, at), end, 1)
            cut_start = at
            cut_end = end
        previous = code
        at = end
    body = payload[at:]
    if at == size or section_code(payload, at) == FOOTER:
        body = NULL_BODY + body
        check_body(body, 0)
    elif not _is_one_data(payload, at):
        check_body(payload, at)
    if at - cut_end + cut_start > HEAD_BYTES_MAX:
        raise Malformed(f"more than {HEAD_BYTES_MAX} bytes before the body")
    if cut_end:
        return payload[:cut_start] + payload[cut_end:at], body, at
    return payload[:at], body, at


def body_follows(payload: bytes, at: int) -> bool:
    """Whether everything from `at` on is one complete body, for a payload that begins with a head
    that is known. `divide_message` says what is wrong, or missing, where it is not.
    """
    if _is_one_data(payload, at):
        return True
    if at >= len(payload):
        return False
    try:
        check_body(payload, at)
    except Malformed:
        return False
    return True


def _is_one_data(payload: bytes, at: int) -> bool:
    """Nearly every body: one data section with the right size."""
    size = len(payload)
    if size - at < 5 or payload[at] != 0 or payload[at + 1] != 0x53 or payload[at + 2] != DATA:
        return False
    code = payload[at + 3]
    if code == 0xA0:
        return at + 5 + payload[at + 4] == size
    return code == 0xB0 and size - at >= 8 and at + 8 + read_u32(payload, at + 4) == size


def check_body(payload: bytes, at: int) -> None:
    size = len(payload)
    kind = 0
    while at < size:
        code = section_code(payload, at)
        if code < DATA:
            raise out_of_order(code)
        if code == FOOTER:
            break
        if kind and (code != kind or code == AMQP_VALUE):
            raise Malformed(f"section {NAMES[code]} in a body of {NAMES[kind]}")
        kind = code
        at = _check_section(payload, at, code)
    if kind == 0:
        raise Malformed("message without a body")
    if at < size:
        at = _check_section(payload, at, FOOTER)
        if at < size:
            raise Malformed(f"{size - at} octets after the footer")


def section_code(data: bytes, at: int) -> int:
    """The code of the section that begins here."""
    if len(data) - at > 2 and data[at] == 0 and data[at + 1] == 0x53:
        code = data[at + 2]
    else:
        reader = Reader(data, at, len(data))
        code = code_of(reader.described_as())
    if not HEADER <= code <= FOOTER:
        raise Malformed(f"section expected at {at} of the message")
    return code


def value_start(data: bytes, at: int) -> int:
    """Where the value of a section begins, whose code has been read."""
    return at + 3 if data[at + 1] == 0x53 else skip_value(data, at + 1, len(data))


def skip_section(data: bytes, at: int, code: int) -> int:
    """Where a section ends; it is checked for the type of its value and for its size."""
    start = value_start(data, at)
    _check_constructor(data, start, code)
    return skip_value(data, start, len(data))


def _check_section(data: bytes, at: int, code: int) -> int:
    start = value_start(data, at)
    _check_constructor(data, start, code)
    return check_value(data, start, len(data), 1)


def _check_constructor(data: bytes, at: int, code: int) -> None:
    if at >= len(data):
        raise short_of(data, at, 1)
    if code == AMQP_VALUE:
        return
    if code == DATA:
        wanted = _BINARIES
    elif code in {HEADER, PROPERTIES, AMQP_SEQUENCE}:
        wanted = _LISTS
    else:
        wanted = _MAPS
    if data[at] not in wanted:
        raise Malformed(f"section {NAMES[code]} of constructor 0x{data[at]:02x}")


def check_value(data: bytes, at: int, end: int, depth: int) -> int:
    """Where the value at `at` ends; all that is inside it is looked at."""
    if at >= end:
        raise short_of(data, at, 1)
    code = data[at]
    if code != 0:
        return _check_content(data, at + 1, end, code, depth)
    if depth > DEPTH_MAX:
        raise _too_deep()
    at = check_value(data, at + 1, end, depth + 1)
    return check_value(data, at, end, depth + 1)


def _check_content(data: bytes, at: int, end: int, code: int, depth: int) -> int:
    """What follows a constructor."""
    if code not in WIDEST:
        raise unknown(code, at - 1)
    kind = code >> 4
    width = FIXED_WIDTHS[kind]
    if width >= 0:
        if at + width > end:
            raise short_of(data, at, width)
        if code == 0x56 and data[at] > 1:
            raise Malformed(f"invalid boolean {data[at]}")
        if code == 0x73 and read_u32(data, at) > _CHARACTER_MAX:
            raise Malformed(f"invalid character at {at}")
        return at + width
    width = 4 if kind & 1 else 1
    if at + width > end:
        raise short_of(data, at, width)
    start = at + width
    after = start + (read_u32(data, at) if width == 4 else data[at])
    if after > end:
        raise short_of(data, start, after - start)
    if kind >= 0xC:
        _check_compound(data, start, after, code, depth)
    elif code & 0xF == 1:
        text_of(data[start:after])
    elif code & 0xF == 3:
        symbol_of(data[start:after])
    return after


def _check_compound(data: bytes, at: int, end: int, code: int, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise _too_deep()
    width = 4 if code >> 4 & 1 else 1
    if at + width > end:
        raise Malformed(f"compound of {end - at} octets is too short for its count")
    count = read_u32(data, at) if width == 4 else data[at]
    at += width
    if code >= 0xE0:
        at = _check_array(data, at, end, count, depth)
    else:
        if code & 0xF == 1 and count & 1:
            raise Malformed(f"map with an odd number of values, {count}")
        while count:
            at = check_value(data, at, end, depth + 1)
            count -= 1
    if at != end:
        raise Malformed(f"{end - at} octets after the last value of a compound")


def _check_array(data: bytes, at: int, end: int, count: int, depth: int) -> int:
    if at < end and data[at] == 0:
        at = check_value(data, at + 1, end, depth + 1)
    if at >= end:
        raise short_of(data, at, 1)
    code = data[at]
    at += 1
    if code not in WIDEST:
        raise unknown(code, at - 1)
    if code >> 4 == 4:
        # Elements without octets: there may be billions, and there is nothing to check in them.
        return at
    while count:
        at = _check_content(data, at, end, code, depth + 1)
        count -= 1
    return at


def out_of_order(code: int) -> Malformed:
    return Malformed(f"section {NAMES[code]} out of order")


def _too_deep() -> Malformed:
    return Malformed(f"values nested deeper than {DEPTH_MAX}")
