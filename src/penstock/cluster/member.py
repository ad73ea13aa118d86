"""One server of a cluster as the record names it: name, address, store id, and whether it may be
the root.

The name is the SPID's; the order of members in a record is their seniority. The store id is made
when a data directory is formatted. It is empty while it is not known (see `record`).
"""

import re
from dataclasses import dataclass
from typing import Final

from penstock.formats.octets import Malformed, read_bytes, read_short_string, read_u8
from penstock.formats.peer_limits import BadPeerMessage

# Long enough for a host's name, short enough for a line of a log. A longer name is refused.
NAME_BYTES_MAX: Final = 64
# A host name has at most 253 characters (RFC 1035), and a short string 255. Longer is refused.
ADDRESS_BYTES_MAX: Final = 255
STORE_ID_BYTES: Final = 16
PORT_MAX: Final = 65535
TLS_PREFIX: Final = "amqps://"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MAY_BE_ROOT: Final = 1


@dataclass(frozen=True, slots=True)
class Member:
    """Held by records."""

    name: str
    # "HOST:PORT", or "amqps://HOST:PORT" for TLS.
    address: str
    # Empty while nobody has heard from it.
    store_id: bytes = b""
    may_be_root: bool = True


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """An address in its parts. Held by the links."""

    host: str
    port: int
    is_tls: bool


def parse_address(text: str) -> PeerAddress:
    """Raises a `ValueError` whose text says what is wrong."""
    is_tls = text.startswith(TLS_PREFIX)
    rest = text.removeprefix(TLS_PREFIX)
    if "://" in rest:
        raise ValueError(f"{text!r} is not a valid address: use {TLS_PREFIX} for TLS, or no scheme")
    host, _, port = rest.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is not a valid address: write an IPv6 address in brackets")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) <= PORT_MAX:
        raise ValueError(
            f"{text!r} is not a valid address: it must be HOST:PORT or amqps://HOST:PORT"
        )
    if len(text.encode()) > ADDRESS_BYTES_MAX:
        raise ValueError(f"an address has at most {ADDRESS_BYTES_MAX} bytes")
    return PeerAddress(host, int(port), is_tls)


def check_name(name: str) -> str:
    """Why a text cannot name a server; empty if it can."""
    if not _NAME.fullmatch(name):
        return (
            f"{name!r} is not a valid server name: use letters, digits, '.', '_' and '-', "
            "beginning with a letter or a digit"
        )
    if len(name) > NAME_BYTES_MAX:
        return f"a server name has at most {NAME_BYTES_MAX} characters"
    return ""


def encode_member(member: Member) -> bytes:
    name = member.name.encode()
    address = member.address.encode()
    return b"".join(
        [
            bytes((len(name),)),
            name,
            bytes((len(address),)),
            address,
            bytes((len(member.store_id),)),
            member.store_id,
            bytes((_MAY_BE_ROOT if member.may_be_root else 0,)),
        ]
    )


def member_size(member: Member) -> int:
    """Octets of the encoded member."""
    return 4 + len(member.name.encode()) + len(member.address.encode()) + len(member.store_id)


def decode_member(octets: bytes, at: int) -> Member:
    """Raises `BadPeerMessage`."""
    try:
        name = read_short_string(octets, at)
        at += 1 + octets[at]
        address = read_short_string(octets, at)
        at += 1 + octets[at]
        size = read_u8(octets, at)
        store_id = read_bytes(octets, at + 1, size)
        flags = read_u8(octets, at + 1 + size)
    except Malformed as error:
        raise BadPeerMessage(f"a member of a record is not valid: {error}") from error
    reason = check_name(name)
    if reason:
        raise BadPeerMessage(reason)
    try:
        parse_address(address)
    except ValueError as fault:  # another name: compiled, a name has one type in a function
        raise BadPeerMessage(str(fault)) from fault
    if size not in (0, STORE_ID_BYTES):
        raise BadPeerMessage(f"a store id has {STORE_ID_BYTES} octets, not {size}")
    if flags > _MAY_BE_ROOT:
        raise BadPeerMessage(f"{flags} is not a valid set of flags of a member")
    return Member(name, address, store_id, flags == _MAY_BE_ROOT)
