"""The handshake on the server's side: start, login, tune, open.

    protocol header -> start -> start-ok -> (password checked) -> tune -> tune-ok, open -> open-ok

A mechanism with challenges has `secure` and `secure-ok` behind start-ok, as often as it needs. The
last word of SCRAM is a `secure` of its own, because tune has no room for it.

What happens between start-ok and tune is the same for both dialects: `dialects.login`.
"""

from typing import Final

from penstock.dialects.admission import NO_ROOT
from penstock.dialects.login import Login
from penstock.dialects.peers import Peers
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.errors import ConnectionFault
from penstock.wire.amqp091.methods_generated import ConnectionStart, ConnectionTune
from penstock.wire.amqp091.reply_codes_generated import (
    ACCESS_REFUSED,
    CONNECTION_FORCED,
    NOT_ALLOWED,
    RESOURCE_ERROR,
)

LOCALES: Final = b"en_US"
VERSION_MAJOR: Final = 0
VERSION_MINOR: Final = 9
# As long as a name of a queue may be; ledgers repeat it.
CONNECTION_NAME_MAX: Final = 255

CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


def server_properties(version: str, platform: str, cluster_name: str) -> dict[str, object]:
    capabilities: dict[str, object] = dict.fromkeys(CAPABILITIES, True)
    return {
        "product": "Penstock",
        "version": version,
        "platform": platform,
        "cluster_name": cluster_name,
        "copyright": "The Penstock authors",
        "information": "Licensed under the Apache License 2.0",
        "capabilities": capabilities,
    }


def start(properties: dict[str, object], mechanisms: list[str]) -> ConnectionStart:
    offered = " ".join(mechanisms).encode()
    return ConnectionStart(VERSION_MAJOR, VERSION_MINOR, properties, offered, LOCALES)


def not_offered(name: str, offered: list[str]) -> ConnectionFault:
    return ConnectionFault(
        NOT_ALLOWED,
        f"unsupported authentication mechanism '{name}', use one of {' '.join(offered)}",
    )


def malformed(mechanism: str, error: Malformed) -> ConnectionFault:
    return ConnectionFault(ACCESS_REFUSED, f"malformed {mechanism} response: {error}")


def refusal(mechanism: str, peer_reason: str) -> ConnectionFault:
    """The answer to a failed login; the reason is for the log alone, unless it is a server of this
    cluster that was refused.
    """
    if peer_reason:
        return ConnectionFault(ACCESS_REFUSED, peer_reason)
    return ConnectionFault(
        ACCESS_REFUSED,
        f"Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile.",
    )


def postponement(reason: str) -> ConnectionFault:
    """The answer to a client whose password was not checked. Where there is no root, another server
    may help, which is what this code says.
    """
    code = CONNECTION_FORCED if reason == NO_ROOT else RESOURCE_ERROR
    return ConnectionFault(code, reason)


def client_capability(properties: dict[str, object], name: str) -> bool:
    capabilities = properties.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get(name) is True


def connection_name(properties: dict[str, object]) -> str:
    """The client's name for its connection; empty when there is no usable one."""
    name = properties.get("connection_name")
    if not isinstance(name, str) or len(name) > CONNECTION_NAME_MAX or "\0" in name:
        return ""
    return name


def tune(wire: WireConnection, login: Login, peers: Peers | None) -> None:
    """The limits that the wire keeps, even if others are in force for new connections."""
    if login.is_peer and peers is not None:
        wire.limits = peers.limits()
        wire.accept_peer()
    limits = wire.limits
    wire.send_method(
        0, ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat_seconds)
    )


def deny(wire: WireConnection, properties: dict[str, object], fault: ConnectionFault) -> None:
    if client_capability(properties, "authentication_failure_close"):
        wire.close(fault)
    else:
        # Older clients take a silent close at this point for a refused login.
        wire.lost()
