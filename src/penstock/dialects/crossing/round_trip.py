"""Attributes that are translated and back without a loss.

Both directions are tried: attributes are translated, the result is translated back, and where that
differs from the original, the original is added as octets. These octets are used only if they are
needed and if, translated, they agree with the rest of the message, so that nothing can be hidden in
them and a header that a client changes takes effect. Neither check looks for octets within octets,
so nothing here can be nested.
"""

from typing import Final

from penstock.dialects.amqp091.properties import BLIND_CARBON_COPY, read_properties
from penstock.dialects.amqp10.messages.properties import TransferProperties, read_head
from penstock.dialects.crossing.labels import (
    ENCODED_TYPE,
    FOOTER_HEADER,
    HEAD_HEADER,
    PROPERTIES_ANNOTATION,
)
from penstock.dialects.crossing.parts import (
    BareParts,
    BasicParts,
    basic_facts,
    content_header,
    take_apart_bare,
    take_apart_basic,
)
from penstock.dialects.crossing.to_amqp091 import basic_parts_of
from penstock.dialects.crossing.to_amqp10 import bare_parts_of, is_footer
from penstock.dialects.crossing.typed_table import write_field
from penstock.formats.amqp091_frames import CONTENT_HEADER_FIXED_SIZE
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.errors import ChannelFault

# A content header cannot be cut into frames, and clients accept frames of 128 KiB. Headers are left
# out, the largest first, until it fits.
PROPERTIES_BYTES_MAX: Final = 128 * 1024 - CONTENT_HEADER_FIXED_SIZE - 8


def basic_octets(properties: TransferProperties, body_is_encoded: bool, footer: bytes) -> bytes:
    """AMQP 0-9-1's property flags and properties for a head."""
    bare = take_apart_bare(properties, footer)
    octets = _octets_brought_along(bare, body_is_encoded)
    if octets is not None:
        return octets
    parts = basic_parts_of(bare, body_is_encoded)
    octets = parts.octets()
    if not _leads_back_to_bare(octets, bare, body_is_encoded):
        tagged = _with_head(parts, properties.head).octets()
        if len(tagged) <= PROPERTIES_BYTES_MAX:
            return tagged
    return octets if len(octets) <= PROPERTIES_BYTES_MAX else _cut(parts)


def bare_head(parts: BasicParts, body_is_encoded: bool) -> tuple[TransferProperties, bytes]:
    """AMQP 1.0's head and footer for AMQP 0-9-1's properties."""
    brought = _head_brought_along(parts, body_is_encoded)
    if brought is not None:
        return brought
    bare = bare_parts_of(parts, body_is_encoded)
    if not _leads_back_to_basic(bare, parts, body_is_encoded):
        bare.annotations[PROPERTIES_ANNOTATION] = parts.octets()
    return read_head(bare.head()), bare.footer


def _octets_brought_along(bare: BareParts, body_is_encoded: bool) -> bytes | None:
    octets = bare.annotations.get(PROPERTIES_ANNOTATION)
    if not isinstance(octets, bytes) or len(octets) > PROPERTIES_BYTES_MAX:
        return None
    try:
        read_properties(content_header(0, octets))
        parts = take_apart_basic(octets)
    except (Malformed, ChannelFault):
        return None
    if parts.headers is not None and BLIND_CARBON_COPY in parts.headers:
        return None
    if body_is_encoded and parts.basic.type_ != ENCODED_TYPE:
        return None
    plain = bare_parts_of(parts, body_is_encoded)
    if _leads_back_to_basic(plain, parts, body_is_encoded):
        return None
    plain.annotations[PROPERTIES_ANNOTATION] = octets
    return octets if plain.facts() == bare.facts() else None


def _head_brought_along(
    parts: BasicParts, body_is_encoded: bool
) -> tuple[TransferProperties, bytes] | None:
    if parts.headers is None:
        return None
    head = parts.headers.get(HEAD_HEADER)
    if not isinstance(head, bytes):
        return None
    try:
        properties = read_head(head)
    except Malformed:
        return None
    found = parts.headers.get(FOOTER_HEADER)
    footer = found if isinstance(found, bytes) and is_footer(found) else b""
    bare = take_apart_bare(properties, footer)
    if _octets_brought_along(bare, body_is_encoded) is not None:
        return None
    plain = basic_parts_of(bare, body_is_encoded)
    if _leads_back_to_bare(plain.octets(), bare, body_is_encoded):
        return None
    said = basic_facts(_with_head(plain, head).octets())
    return (properties, footer) if said == basic_facts(parts.octets()) else None


def _with_head(parts: BasicParts, head: bytes) -> BasicParts:
    headers = dict(parts.headers or {})
    headers[HEAD_HEADER] = head
    return BasicParts(parts.basic, headers)


def _leads_back_to_bare(octets: bytes, bare: BareParts, body_is_encoded: bool) -> bool:
    again = bare_parts_of(take_apart_basic(octets), body_is_encoded)
    return again.facts() == bare.facts()


def _leads_back_to_basic(bare: BareParts, parts: BasicParts, body_is_encoded: bool) -> bool:
    again = take_apart_bare(read_head(bare.head()), bare.footer)
    octets = basic_parts_of(again, body_is_encoded).octets()
    return basic_facts(octets) == basic_facts(parts.octets())


def _cut(parts: BasicParts) -> bytes:
    headers = dict(parts.headers or {})
    sizes: list[tuple[int, str]] = []
    for name, value in headers.items():
        octets = name.encode("utf-8", "surrogateescape")
        sizes.append((1 + len(octets) + len(write_field(value)), name))
    sizes.sort()
    excess = len(parts.octets()) - PROPERTIES_BYTES_MAX
    while excess > 0:
        # The other properties fit by far, so there is a header left.
        size, name = sizes.pop()
        del headers[name]
        excess -= size
    return BasicParts(parts.basic, headers).octets()
