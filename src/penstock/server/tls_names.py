"""Whom a client's certificate names, in RabbitMQ's form.

The parts of a distinguished name are written as in RFC 4514: the last one first, separated by
commas, each with its short name where it has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.dialects.encryption import Encryption

if TYPE_CHECKING:
    import ssl

    from penstock.server.tls_settings import LoginFrom

_COMMON_NAME: Final = "commonName"
# By the names that Python has for them.
_SHORT_NAMES: Final = {
    _COMMON_NAME: "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "givenName": "GIVENNAME",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "serialNumber": "SERIALNUMBER",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "surname": "SN",
    "title": "TITLE",
    "userId": "UID",
}
# What would end a part, or begin the next.
_ESCAPED: Final = frozenset(',+"\\<>;')


def encryption_of(agreed: ssl.SSLObject | ssl.SSLSocket, login_from: LoginFrom) -> Encryption:
    """What a completed handshake has agreed on."""
    version = agreed.version() or ""
    cipher = agreed.cipher()
    # Empty for one that was not verified, as for none.
    shown: dict[str, Any] = agreed.getpeercert() or {}
    if not shown:
        return Encryption(version, "" if cipher is None else cipher[0])
    subject = shown.get("subject", ())
    names_whole = login_from == "distinguished_name"
    return Encryption(
        version,
        "" if cipher is None else cipher[0],
        distinguished_name(subject) if names_whole else common_name(subject),
        distinguished_name(subject),
        distinguished_name(shown.get("issuer", ())),
        f"{shown.get('notBefore', '')} - {shown.get('notAfter', '')}",
    )


def common_name(subject: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    """All of them with commas between, should there be more than one."""
    return ",".join(value for part in subject for name, value in part if name == _COMMON_NAME)


def distinguished_name(subject: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    return ",".join(
        "+".join(f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in reversed(subject)
    )


def _escaped(value: str) -> str:
    text = "".join(f"\\{letter}" if letter in _ESCAPED else letter for letter in value)
    if text.startswith((" ", "#")):
        text = f"\\{text}"
    if text.endswith(" ") and len(value) > 1:
        text = f"{text[:-1]}\\ "
    return text
