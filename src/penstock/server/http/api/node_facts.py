"""What the pages about the broker as a whole share: kinds of exchanges, mechanisms, listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.exchanges.kinds import KINDS
from penstock.dialects.mechanisms import ALL_MECHANISMS

if TYPE_CHECKING:
    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.operation import ApiRequest

_DESCRIPTIONS: Final = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent hashing exchange",
    "x-delayed-message": "Exchange that delays messages",
}
_MECHANISMS: Final = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "User and password in a table",
    "EXTERNAL": "Name of the user from the client's certificate",
    "SCRAM-SHA-256": "SASL SCRAM-SHA-256 authentication mechanism",
    "ANONYMOUS": "Clients that name no user",
}


def exchange_types() -> list[Row]:
    return [
        {"name": kind, "description": _DESCRIPTIONS.get(kind, ""), "enabled": True}
        for kind in sorted(KINDS)
    ]


def mechanisms() -> list[Row]:
    return [
        {"name": name, "description": _MECHANISMS.get(name, ""), "enabled": True}
        for name in ALL_MECHANISMS
    ]


def http_address(call: ApiRequest) -> tuple[str, int]:
    """Where this request came in."""
    server = call.request.scope.get("server")
    return (str(server[0]), int(server[1] or 0)) if server else ("", 0)


def contexts(call: ApiRequest) -> list[Row]:
    host, port = http_address(call)
    return [
        {
            "description": "Penstock management API",
            "ip": host,
            "path": "/",
            "port": str(port),
            "ssl_opts": [],
        }
    ]
