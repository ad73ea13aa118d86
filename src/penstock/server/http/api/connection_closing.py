"""Closing connections: DELETE of /api/connections/{name} and /api/connections/username/{user}."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.topology import CloseConnection
from penstock.server.http.api.changes import changed_here
from penstock.server.http.api.operation import ADMINISTRATOR, NO_CONTENT, Operation
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.dialects.connection import Connection
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

_REASON_HEADER: Final = "x-reason"
# RabbitMQ's, when nobody says one.
_NO_REASON: Final = "Closed via management plugin"
# It travels in a short string, behind words of the broker's own.
REASON_LENGTH_MAX: Final = 180


class ConnectionClosing:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "DELETE",
                "/api/connections/username/{user}",
                self.close_of_user,
                "Close all connections of a user: an administrator may, and the user itself. The "
                "header X-Reason is the reason that clients see.",
                "connections",
            ),
            Operation(
                "DELETE",
                "/api/connections/{name}",
                self.close,
                "Close a connection: an administrator may, and the user of the connection. The "
                "header X-Reason is the reason that the client sees.",
                "connections",
            ),
        ]

    async def close(self, call: ApiRequest) -> object:
        name = call.named("name")
        reason = _reason(call)

        def close(turn: ChangeTurn) -> None:
            for connection in list(turn.node.connections.values()):
                if is_called(connection, name):
                    _check_may_close(call, connection.protocol.user_name())
                    turn.apply(CloseConnection(connection.number, reason))
                    return
            raise Problem(404, f"no connection '{name[:200]}'")

        await changed_here(self._line, call, close)
        return NO_CONTENT

    async def close_of_user(self, call: ApiRequest) -> object:
        user = call.named("user")
        reason = _reason(call)
        _check_may_close(call, user)

        def close(turn: ChangeTurn) -> None:
            for connection in list(turn.node.connections.values()):
                if connection.protocol.user_name() == user:
                    turn.apply(CloseConnection(connection.number, reason))

        await changed_here(self._line, call, close)
        return NO_CONTENT


def is_called(connection: Connection, name: str) -> bool:
    """Whether a path means this connection: by RabbitMQ's name, which begins with the peer's end and
    an arrow, by that end alone, or by the number that the log has.
    """
    peer = connection.peer
    host = f"[{peer.host}]" if ":" in peer.host else peer.host
    end = f"{host}:{peer.port}" if peer.host else f"connection {peer.number}"
    return name == end or name.startswith(f"{end} -> ") or name == f"connection {peer.number}"


def _check_may_close(call: ApiRequest, owner: str) -> None:
    if owner != call.caller.name:
        call.caller.need_one_of(ADMINISTRATOR)


def _reason(call: ApiRequest) -> str:
    given = call.request.headers.get(_REASON_HEADER, "")
    printable = "".join(character for character in given if character.isprintable())
    return printable[:REASON_LENGTH_MAX] or _NO_REASON
