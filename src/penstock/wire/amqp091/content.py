"""Content headers of class basic: the fourteen properties, whole or only what a broker acts on.

 0       2        4           12      14
+-------+--------+-----------+-------+------------------------+
| class | weight | body size | flags | properties, flag order |
+-------+--------+-----------+-------+------------------------+

A property is there when its flag is set. Flag bit 0 would announce a second word of flags, which
class basic has no use for: it is refused, and so are unassigned flags and trailing octets.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.formats.amqp091_frames import (
    CONTENT_HEADER_FIXED_SIZE,
    CONTENT_HEADER_SIZE_MIN,
    CONTENT_HEADER_START,
)
from penstock.formats.octets import (
    Malformed,
    read_escaped_string,
    read_short_string,
    read_u8,
    read_u16,
    read_u32,
    read_u64,
    short_of,
    write_short_string,
    write_u8,
    write_u16,
    write_u64,
)
from penstock.wire.amqp091.field_table import decode_table, encode_table
from penstock.wire.amqp091.property_flags_generated import (
    APP_ID,
    CLUSTER_ID,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    EXPIRATION,
    HEADERS,
    MESSAGE_ID,
    PRIORITY,
    REPLY_TO,
    TIMESTAMP,
    TYPE,
    USER_ID,
)

PERSISTENT: Final = 2  # delivery mode

_UNASSIGNED_FLAGS: Final = 0x0003


class BasicProperties:
    """All properties of one content; None is an absent one.

    For clients and tools: a broker passes headers on as bytes and uses `scan_properties`.
    """

    def __init__(
        self,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, object] | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: str | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type_: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.content_type: str | None = content_type
        self.content_encoding: str | None = content_encoding
        self.headers: dict[str, object] | None = headers
        self.delivery_mode: int | None = delivery_mode
        self.priority: int | None = priority
        self.correlation_id: str | None = correlation_id
        self.reply_to: str | None = reply_to
        self.expiration: str | None = expiration
        self.message_id: str | None = message_id
        self.timestamp: int | None = timestamp
        self.type_: str | None = type_
        self.user_id: str | None = user_id
        self.app_id: str | None = app_id
        self.cluster_id: str | None = cluster_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BasicProperties) and encode_properties(self) == encode_properties(
            other
        )

    def __hash__(self) -> int:
        return hash(encode_properties(self))

    def __repr__(self) -> str:
        return f"<BasicProperties {encode_properties(self)!r}>"


@mypyc_attr(acyclic=True)
class ScannedProperties:
    """What a broker acts on. Absent numbers are -1, absent texts None, an absent table empty."""

    def __init__(self) -> None:
        self.delivery_mode: int = -1
        self.priority: int = -1
        self.expiration: str | None = None
        self.user_id: str | None = None
        self.reply_to: str | None = None
        # The headers table with its size octets is header[headers_start:headers_end].
        self.headers_start: int = 0
        self.headers_end: int = 0


def encode_header(body_size: int, properties: BasicProperties) -> bytes:
    """The payload of a content header frame."""
    return CONTENT_HEADER_START + write_u64(body_size) + encode_properties(properties)


def body_size_of(header: bytes) -> int:
    return read_u64(header, 4)


def decode_properties(header: bytes) -> BasicProperties:
    """From the payload of a content header frame. Octets of a text that are not UTF-8 come as lone
    surrogates, as in field tables, and `encode_properties` writes them again as they were.
    """
    flags = _flags_of(header)
    at = CONTENT_HEADER_SIZE_MIN
    properties = BasicProperties()
    if flags & CONTENT_TYPE:
        properties.content_type = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & CONTENT_ENCODING:
        properties.content_encoding = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & HEADERS:
        properties.headers = decode_table(header, at)
        at += 4 + read_u32(header, at)
    if flags & DELIVERY_MODE:
        properties.delivery_mode = read_u8(header, at)
        at += 1
    if flags & PRIORITY:
        properties.priority = read_u8(header, at)
        at += 1
    if flags & CORRELATION_ID:
        properties.correlation_id = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & REPLY_TO:
        properties.reply_to = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & EXPIRATION:
        properties.expiration = read_escaped_string(header, at)
        at += 1 + header[at]
    _decode_identities(header, at, flags, properties)
    return properties


def _decode_identities(header: bytes, at: int, flags: int, properties: BasicProperties) -> None:
    """The last six properties, and the end of the header."""
    if flags & MESSAGE_ID:
        properties.message_id = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & TIMESTAMP:
        properties.timestamp = read_u64(header, at)
        at += 8
    if flags & TYPE:
        properties.type_ = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & USER_ID:
        properties.user_id = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & APP_ID:
        properties.app_id = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & CLUSTER_ID:
        properties.cluster_id = read_escaped_string(header, at)
        at += 1 + header[at]
    _expect_end(header, at)


def scan_properties(header: bytes, must_be_utf8: bool = True) -> ScannedProperties:
    """Walks over all properties, so that a malformed header is refused, and reads five of them.

    Texts are checked to be UTF-8, unless the header was stored by a version that did not check. The
    headers table is checked for its size only.
    """
    flags = _flags_of(header)
    found = ScannedProperties()
    timestamp = 0
    at = CONTENT_HEADER_SIZE_MIN
    if flags & CONTENT_TYPE:
        at += 1 + read_u8(header, at)
    if flags & CONTENT_ENCODING:
        at += 1 + read_u8(header, at)
    if flags & HEADERS:
        found.headers_start = at
        at += 4 + read_u32(header, at)
        found.headers_end = at
    if flags & DELIVERY_MODE:
        found.delivery_mode = read_u8(header, at)
        at += 1
    if flags & PRIORITY:
        found.priority = read_u8(header, at)
        at += 1
    if flags & CORRELATION_ID:
        at += 1 + read_u8(header, at)
    if flags & REPLY_TO:
        found.reply_to = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & EXPIRATION:
        found.expiration = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & MESSAGE_ID:
        at += 1 + read_u8(header, at)
    if flags & TIMESTAMP:
        timestamp = at
        at += 8
    if flags & TYPE:
        at += 1 + read_u8(header, at)
    if flags & USER_ID:
        found.user_id = read_escaped_string(header, at)
        at += 1 + header[at]
    if flags & APP_ID:
        at += 1 + read_u8(header, at)
    if flags & CLUSTER_ID:
        at += 1 + read_u8(header, at)
    _expect_end(header, at)
    if must_be_utf8 and not _is_ascii(header, timestamp):
        _check_texts(header, flags)
    return found


def _is_ascii(header: bytes, timestamp: int) -> bool:
    """Whether all properties, except for a timestamp at this place, are ASCII: then every text is
    UTF-8, and mostly no text has to be checked by itself.
    """
    if timestamp == 0:
        return header[CONTENT_HEADER_SIZE_MIN:].isascii()
    after = timestamp + 8
    return header[CONTENT_HEADER_SIZE_MIN:timestamp].isascii() and (
        after == len(header) or header[after:].isascii()
    )


def _check_texts(header: bytes, flags: int) -> None:
    """Refuse a text that is not UTF-8; the header has been walked over before."""
    at = CONTENT_HEADER_SIZE_MIN
    if flags & CONTENT_TYPE:
        at = _text_end(header, at)
    if flags & CONTENT_ENCODING:
        at = _text_end(header, at)
    if flags & HEADERS:
        at += 4 + read_u32(header, at)
    if flags & DELIVERY_MODE:
        at += 1
    if flags & PRIORITY:
        at += 1
    if flags & CORRELATION_ID:
        at = _text_end(header, at)
    if flags & REPLY_TO:
        at = _text_end(header, at)
    if flags & EXPIRATION:
        at = _text_end(header, at)
    if flags & MESSAGE_ID:
        at = _text_end(header, at)
    if flags & TIMESTAMP:
        at += 8
    if flags & TYPE:
        at = _text_end(header, at)
    if flags & USER_ID:
        at = _text_end(header, at)
    if flags & APP_ID:
        at = _text_end(header, at)
    if flags & CLUSTER_ID:
        _text_end(header, at)


def encode_properties(properties: BasicProperties) -> bytes:
    """Flags and property list: what follows the body size in a content header."""
    flags = 0
    pieces: list[bytes] = [b""]
    flags |= _put_text(pieces, CONTENT_TYPE, properties.content_type)
    flags |= _put_text(pieces, CONTENT_ENCODING, properties.content_encoding)
    if properties.headers is not None:
        flags |= HEADERS
        pieces.append(encode_table(properties.headers))
    if properties.delivery_mode is not None:
        flags |= DELIVERY_MODE
        pieces.append(write_u8(properties.delivery_mode))
    if properties.priority is not None:
        flags |= PRIORITY
        pieces.append(write_u8(properties.priority))
    flags |= _put_text(pieces, CORRELATION_ID, properties.correlation_id)
    flags |= _put_text(pieces, REPLY_TO, properties.reply_to)
    flags |= _put_text(pieces, EXPIRATION, properties.expiration)
    flags |= _put_text(pieces, MESSAGE_ID, properties.message_id)
    if properties.timestamp is not None:
        flags |= TIMESTAMP
        pieces.append(write_u64(properties.timestamp))
    flags |= _put_text(pieces, TYPE, properties.type_)
    flags |= _put_text(pieces, USER_ID, properties.user_id)
    flags |= _put_text(pieces, APP_ID, properties.app_id)
    flags |= _put_text(pieces, CLUSTER_ID, properties.cluster_id)
    pieces[0] = write_u16(flags)
    return b"".join(pieces)


def _put_text(pieces: list[bytes], flag: int, text: str | None) -> int:
    if text is None:
        return 0
    pieces.append(write_short_string(text))
    return flag


def _text_end(header: bytes, at: int) -> int:
    """Where the text at `at` ends, which must be UTF-8."""
    read_short_string(header, at)
    return at + 1 + header[at]


def _flags_of(header: bytes) -> int:
    flags = read_u16(header, CONTENT_HEADER_FIXED_SIZE)
    if flags & _UNASSIGNED_FLAGS:
        raise Malformed(f"invalid property flags {flags:#06x} of class basic")
    return flags


def _expect_end(header: bytes, at: int) -> None:
    if at > len(header):
        raise short_of(header, len(header), at - len(header))
    if at < len(header):
        raise Malformed(f"{len(header) - at} octets after the last property")
