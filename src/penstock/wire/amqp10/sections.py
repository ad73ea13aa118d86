"""Where the sections of a message are (specification 3.2), without decoding them.

    header? delivery-annotations? message-annotations?          may change on the way
    properties? application-properties? body                    the bare message, never changed
    footer?                                                     may change on the way

The body is data sections, amqp-sequence sections or one amqp-value. A broker passes the bare
message on as octets; a section is decoded only when it is needed.
"""

from typing import Final

from penstock.formats.octets import Malformed
from penstock.wire.amqp10.decoding import Reader, skip_value
from penstock.wire.amqp10.performatives_generated import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    DATA,
    FOOTER,
    HEADER,
    NAMES,
    PROPERTIES,
    code_of,
    decode_composite,
)
from penstock.wire.amqp10.values import Composite

_BODIES: Final = frozenset({DATA, AMQP_SEQUENCE, AMQP_VALUE})
_ABSENT: Final = -1


class Sections:
    """Positions in one message. Made when a section of the message is needed."""

    def __init__(self, message: bytes) -> None:
        self.message: bytes = message
        # Start of each section by its code; of body sections, that of the first.
        self._starts: list[int] = [_ABSENT] * (FOOTER - HEADER + 1)
        self._ends: list[int] = [_ABSENT] * (FOOTER - HEADER + 1)
        # The bare message: from properties to the end of the body.
        self.bare_start: int = 0
        self.bare_end: int = len(message)
        # DATA, AMQP_SEQUENCE or AMQP_VALUE; 0 when there is no body.
        self.body_kind: int = 0
        self._scan()

    def _scan(self) -> None:
        message = self.message
        size = len(message)
        at = 0
        previous = 0
        in_front = True
        while at < size:
            code = _section_at(message, at)
            if code < previous or (code == previous and code not in {DATA, AMQP_SEQUENCE}):
                raise Malformed(f"section {NAMES[code]} out of order")
            if code in _BODIES and self.body_kind not in {0, code}:
                raise Malformed(f"section {NAMES[code]} in a body of {NAMES[self.body_kind]}")
            end = skip_value(message, at, size)
            if in_front and code >= PROPERTIES:
                self.bare_start = at
                in_front = False
            if code in _BODIES:
                self.body_kind = code
            if code == FOOTER:
                self.bare_end = at
            if code != previous:
                self._starts[code - HEADER] = at
            self._ends[code - HEADER] = end
            previous = code
            at = end
        if in_front:
            self.bare_start = size

    def octets(self, code: int) -> bytes:
        """A section as it stands, with its descriptor; all of them for a body. b"" when absent."""
        start = self._starts[code - HEADER]
        return b"" if start < 0 else self.message[start : self._ends[code - HEADER]]

    def bare(self) -> bytes:
        return self.message[self.bare_start : self.bare_end]

    def decode(self, code: int) -> Composite | None:
        """One section; None when it is absent."""
        start = self._starts[code - HEADER]
        if start < 0:
            return None
        return decode_composite(Reader(self.message, start, self._ends[code - HEADER]))


def _section_at(message: bytes, at: int) -> int:
    """The code of the section that begins here."""
    if len(message) - at > 2 and message[at] == 0 and message[at + 1] == 0x53:
        code = message[at + 2]
    else:
        reader = Reader(message, at, len(message))
        code = code_of(reader.described_as())
    if not HEADER <= code <= FOOTER:
        raise Malformed(f"section expected at {at} of the message")
    return code
