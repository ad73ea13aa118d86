"""Limits of users and of virtual hosts: /api/user-limits and /api/vhost-limits."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from penstock.broker.parameters import MAX_CONNECTIONS, MAX_QUEUES
from penstock.broker.topology import SetVhostLimits
from penstock.server.http.api.changes import changed
from penstock.server.http.api.operation import (
    ADMINISTRATOR,
    MANAGEMENT,
    NO_CONTENT,
    Operation,
    RowList,
)
from penstock.server.http.api.permission_pages import check_named
from penstock.server.http.api.schema import TABLE, TEXT, Schema, integer_of, object_of
from penstock.server.http.api.user_credentials import MAX_CHANNELS, limits_row
from penstock.server.http.api.visibility import visible_vhosts
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

Row = dict[str, object]

# More than any machine holds of connections, channels or queues.
LIMIT_MAX: Final = 2**31 - 1
_VALUE: Final[Schema] = {"type": "integer", "maximum": LIMIT_MAX}
_BODY: Final = object_of({"value": _VALUE})
_USER_LIMITS: Final = (MAX_CONNECTIONS, MAX_CHANNELS)
_VHOST_LIMITS: Final = (MAX_CONNECTIONS, MAX_QUEUES)


class LimitPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        user_row = object_of({"user": TEXT, "value": TABLE})
        vhost_row = object_of({"vhost": TEXT, "value": TABLE})
        return [
            *(
                Operation(
                    "GET", path, self.list_of_users, summary, "limits",
                    allowed=ADMINISTRATOR, answer=user_row, is_list=True,
                )
                for path, summary in (
                    ("/api/user-limits", "Limits of users"),
                    ("/api/user-limits/{user}", "Limits of one user"),
                )
            ),
            *(
                Operation(
                    "GET", path, self.list_of_vhosts, summary, "limits",
                    allowed=MANAGEMENT, answer=vhost_row, is_list=True,
                )
                for path, summary in (
                    ("/api/vhost-limits", "Limits of virtual hosts"),
                    ("/api/vhost-limits/{vhost}", "Limits of one virtual host"),
                )
            ),
            Operation(
                "PUT", "/api/user-limits/{user}/{limit}", self.put_of_user,
                "Set max-connections or max-channels of a user; a negative value is no limit",
                "limits", allowed=ADMINISTRATOR, body=_BODY,
            ),
            Operation(
                "DELETE", "/api/user-limits/{user}/{limit}", self.clear_of_user,
                "Clear a limit of a user", "limits", allowed=ADMINISTRATOR,
            ),
            Operation(
                "PUT", "/api/vhost-limits/{vhost}/{limit}", self.put_of_vhost,
                "Set max-connections or max-queues of a virtual host; a negative value is no limit",
                "limits", allowed=ADMINISTRATOR, body=_BODY,
            ),
            Operation(
                "DELETE", "/api/vhost-limits/{vhost}/{limit}", self.clear_of_vhost,
                "Clear a limit of a virtual host", "limits", allowed=ADMINISTRATOR,
            ),
        ]  # fmt: skip

    async def list_of_users(self, call: ApiRequest) -> object:
        user = call.named("user") if "user" in call.request.path_params else None

        def rows(node: Node, now: int) -> list[Row]:
            del now
            check_named(node, None, user)
            return [
                {"user": limits.user, "value": limits_row(limits)}
                for limits in node.state.user_limits.listed()
                if user in {None, limits.user}
            ]

        return RowList(await self._line.ask(rows))

    async def list_of_vhosts(self, call: ApiRequest) -> object:
        vhost = call.named("vhost") if "vhost" in call.request.path_params else ""

        def rows(node: Node, now: int) -> list[Row]:
            del now
            return [
                {"vhost": found.name, "value": vhost_limits_row(found)}
                for found in visible_vhosts(node, call.caller, vhost)
                if vhost_limits_row(found)
            ]

        return RowList(await self._line.ask(rows))

    async def put_of_user(self, call: ApiRequest) -> object:
        limit = call.named("limit")
        if limit not in _USER_LIMITS:
            raise _unknown(limit, call.body.get("value"), "user-limits")
        return await self._limit_user(call, limit, _limit_in(call.body))

    async def clear_of_user(self, call: ApiRequest) -> object:
        return await self._limit_user(call, call.named("limit"), -1)

    async def _limit_user(self, call: ApiRequest, limit: str, value: int) -> object:
        user = call.named("user")

        def change(turn: ChangeTurn) -> None:
            if turn.node.state.users.find(user) is None:
                # 400, as RabbitMQ answers.
                raise Problem(400, f"no_such_user: no user '{user}'")
            if limit in _USER_LIMITS:
                known = turn.node.state.user_limits.of(user)
                if limit == MAX_CHANNELS:
                    turn.apply(dataclasses.replace(known, max_channels=value))
                else:
                    turn.apply(dataclasses.replace(known, max_connections=value))

        await changed(self._line, call, change)
        return NO_CONTENT

    async def put_of_vhost(self, call: ApiRequest) -> object:
        limit = call.named("limit")
        if limit not in _VHOST_LIMITS:
            raise _unknown(limit, call.body.get("value"), "limits")
        return await self._limit_vhost(call, limit, _limit_in(call.body))

    async def clear_of_vhost(self, call: ApiRequest) -> object:
        return await self._limit_vhost(call, call.named("limit"), -1)

    async def _limit_vhost(self, call: ApiRequest, limit: str, value: int) -> object:
        vhost = call.named("vhost")

        def change(turn: ChangeTurn) -> None:
            found = turn.node.state.vhost(vhost)
            if limit in _VHOST_LIMITS:
                queues, connections = found.max_queues, found.max_connections
                if limit == MAX_QUEUES:
                    turn.apply_in(vhost, SetVhostLimits(value, connections))
                else:
                    turn.apply_in(vhost, SetVhostLimits(queues, value))

        await changed(self._line, call, change)
        return NO_CONTENT


def vhost_limits_row(vhost: VirtualHost) -> Row:
    row: Row = {}
    if vhost.max_connections >= 0:
        row[MAX_CONNECTIONS] = vhost.max_connections
    if vhost.max_queues >= 0:
        row[MAX_QUEUES] = vhost.max_queues
    return row


def _limit_in(body: dict[str, object]) -> int:
    return max(-1, integer_of(body, "value"))


def _unknown(limit: str, value: object, where: str) -> Problem:
    return Problem(400, f'Unrecognised terms [{{<<"{limit}">>,{value}}}] in {where}')
