"""When certificates expire. The standard library tells that of peers' certificates and of
authorities, not of one that a server shows, so the date is read from the certificate itself.

    Certificate ::= SEQUENCE { tbsCertificate, ... }
    TBSCertificate ::= SEQUENCE { [0] version OPTIONAL, serialNumber, signature, issuer, validity, ... }
    Validity ::= SEQUENCE { notBefore, notAfter }
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK: Final = re.compile(
    r"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----(.*?)-----END (?:TRUSTED |X509 )?CERTIFICATE-----",
    re.DOTALL,
)
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
# Of a length: it stands in as many octets as the lower bits say.
_LONG: Final = 0x80
# The year of a UTCTime has two digits; from this one on it is of the last century (RFC 5280).
_LAST_CENTURY: Final = 50
# Between the version and the validity.
_BEFORE_VALIDITY: Final = ("serialNumber", "signature", "issuer")


class UnreadableCertificate(Exception):
    """It is not in the form that every certificate has."""


def expirations_in(file: Path) -> list[datetime | None]:
    """Of all certificates in a PEM file, in their order; None for one that cannot be read."""
    found: list[datetime | None] = []
    for block in _BLOCK.finditer(file.read_text(encoding="ascii", errors="replace")):
        pem = f"{ssl.PEM_HEADER}{block[1]}{ssl.PEM_FOOTER}"
        try:
            found.append(expires_at(ssl.PEM_cert_to_DER_cert(pem)))
        except (ValueError, UnreadableCertificate):
            found.append(None)
    return found


def expires_at(der: bytes) -> datetime:
    """Raises `UnreadableCertificate`."""
    _, certificate, _ = _element(der, _SEQUENCE)
    _, signed, _ = _element(certificate, _SEQUENCE)
    kind, _, after = _element(signed)
    rest = after if kind == _VERSION else signed
    for _ in _BEFORE_VALIDITY:
        _, _, rest = _element(rest)
    _, validity, _ = _element(rest, _SEQUENCE)
    _, _, rest = _element(validity)
    kind, octets, _ = _element(rest)
    return _time(kind, octets.decode("ascii", errors="replace"))


def _element(data: bytes, expected: int | None = None) -> tuple[int, bytes, bytes]:
    """The first element's kind and content, and what comes after it."""
    if len(data) < 2 or expected not in (None, data[0]):
        raise UnreadableCertificate("it is not DER of a certificate")
    start, size = 2, data[1]
    if size & _LONG:
        start += size & ~_LONG
        size = int.from_bytes(data[2:start])
    if start + size > len(data):
        raise UnreadableCertificate("it is cut off")
    return data[0], data[start : start + size], data[start + size :]


def _time(kind: int, text: str) -> datetime:
    if kind == _UTC_TIME and text[:2].isdigit():
        text = ("19" if int(text[:2]) >= _LAST_CENTURY else "20") + text
    elif kind != _GENERALIZED_TIME:
        raise UnreadableCertificate("its validity is not a time")
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise UnreadableCertificate(f"{text!r} is not a valid time") from None
