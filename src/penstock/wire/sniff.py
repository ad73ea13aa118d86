"""Which protocol the first bytes of a connection announce.

Every AMQP connection begins with eight octets, `AMQP`, a protocol id and a version. Some other
protocols are recognised so that the log can name them. The answer to any header but ours is our own
header, after which the connection is closed (specification 4.2.2).
"""

from enum import Enum
from typing import Final

HEADER_SIZE: Final = 8

_AMQP: Final = b"AMQP"
_TLS_HANDSHAKE: Final = b"\x16\x03"  # record type handshake, major version of SSL 3 and all TLS
_HTTP_WORDS: Final = (
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PRI * ",
)


class Announced(Enum):
    UNDECIDED = "too few octets to tell"
    AMQP_0_9_1 = "AMQP 0-9-1"
    AMQP_1_0 = "AMQP 1.0"
    AMQP_1_0_SASL = "AMQP 1.0 with SASL"
    AMQP_1_0_TLS = "AMQP 1.0 with TLS"
    OTHER_AMQP = "an unsupported AMQP version"
    TLS = "a TLS handshake"
    HTTP = "an HTTP request"
    UNKNOWN = "an unknown protocol"


_BY_HEADER: Final = {
    b"AMQP\x00\x00\x09\x01": Announced.AMQP_0_9_1,
    b"AMQP\x00\x01\x00\x00": Announced.AMQP_1_0,
    b"AMQP\x02\x01\x00\x00": Announced.AMQP_1_0_TLS,
    b"AMQP\x03\x01\x00\x00": Announced.AMQP_1_0_SASL,
}


def sniff(data: bytes) -> Announced:
    """Decides as soon as possible: a wrong first byte is enough."""
    if not data:
        return Announced.UNDECIDED
    if data[:4] == _AMQP[: len(data)]:
        if len(data) < HEADER_SIZE:
            return Announced.UNDECIDED
        return _BY_HEADER.get(data[:HEADER_SIZE], Announced.OTHER_AMQP)
    if data[:2] == _TLS_HANDSHAKE[: len(data)]:
        return Announced.TLS if len(data) >= 2 else Announced.UNDECIDED
    for word in _HTTP_WORDS:
        if data[: len(word)] == word[: len(data)]:
            return Announced.HTTP if len(data) >= len(word) else Announced.UNDECIDED
    return Announced.UNKNOWN
