"""Messages of AMQP 1.0 as a consumer of AMQP 0-9-1 sees them: by the translation that serves it.

This is the only place where the pipeline uses code of the broker: rows must contain what a consumer
would see, and two translations would differ some day. It works on bytes without a running broker,
and is imported with the first such message: most streams hold none, and workers start often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.formats.octets import Malformed
from penstock.wire.amqp091.errors import ChannelFault

# Class, weight and the size of the body, which no column contains.
_FIXED: Final = b"\x00\x3c" + bytes(10)


@dataclass(frozen=True, slots=True)
class Body:
    """The body of an AMQP 1.0 message, as AMQP 0-9-1 carries it."""

    content: bytes
    # A value or a sequence, which stays encoded.
    is_encoded: bool
    footer: bytes


def basic_head(octets: bytes, body: Body | None) -> bytes:
    """The content header for a head; without a body for one that is a single data section. Raises
    `Malformed` or a `ValueError`.
    """
    from penstock.dialects.translate import as_amqp091

    try:
        if body is None:
            return _FIXED + as_amqp091(octets, False, b"")
        return _FIXED + as_amqp091(octets, body.is_encoded, body.footer)
    except ChannelFault as fault:
        raise Malformed(str(fault)) from None


def opened(octets: bytes) -> Body:
    """The body; one that cannot be read stays as it is."""
    from penstock.dialects.translate import open_body

    try:
        found = open_body(octets)
    except (Malformed, ValueError):
        return Body(octets, True, b"")
    return Body(found.content, found.is_encoded, found.footer)
