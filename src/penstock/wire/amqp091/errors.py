"""Faults: what went wrong, with the specification's reply code and the level it ends.

Raised by this room and by listeners; `Connection.receive` catches both and
answers with channel.close or connection.close.
"""

from typing import Final

from penstock.formats.octets import SHORT_STRING_BYTES_MAX
from penstock.wire.amqp091.reply_codes_generated import REPLY_NAMES

_ELLIPSIS: Final = "..."


class Fault(Exception):
    """What both levels share. Never raised itself."""

    def __init__(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(code, text)
        self.code: int = code
        self.text: str = text
        # The method that was at fault; the connection fills them in when both are 0.
        self.class_id: int = class_id
        self.method_id: int = method_id
        # True when the peer closed with this reason, False when we did.
        self.from_peer: bool = False

    def reply_text(self) -> str:
        """`NAME - text` as RabbitMQ says it, cut to what a short string holds."""
        if self.from_peer:
            return self.text
        name = REPLY_NAMES.get(self.code, "")
        if not name or not self.text:
            return _cut(name or self.text)
        return _cut(f"{name} - {self.text}")

    def __str__(self) -> str:
        return f"{self.code} {self.reply_text()}"


class ChannelFault(Fault):
    """Ends one channel; the connection goes on."""


class ConnectionFault(Fault):
    """Ends the whole connection."""


def _cut(text: str) -> str:
    # A lone surrogate (an undecodable octet of a name) must not stop the report about it.
    octets = text.encode("utf-8", "replace")
    if len(octets) <= SHORT_STRING_BYTES_MAX:
        return octets.decode("utf-8")
    kept = octets[: SHORT_STRING_BYTES_MAX - len(_ELLIPSIS)]
    return kept.decode("utf-8", "ignore") + _ELLIPSIS
