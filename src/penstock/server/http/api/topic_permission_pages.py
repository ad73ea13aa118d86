"""Topic permissions: /api/topic-permissions, and the lists of one user or virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.topology import ClearTopicPermissions, SetTopicPermissions
from penstock.server.http.api.changes import changed
from penstock.server.http.api.operation import (
    ADMINISTRATOR,
    NO_CONTENT,
    Created,
    Operation,
    RowList,
)
from penstock.server.http.api.permission_pages import STEP_COUNT, check_ends, check_named
from penstock.server.http.api.schema import TEXT, object_of, text_of
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.node.node import Node
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

Row = dict[str, object]

_ROW = object_of({"user": TEXT, "vhost": TEXT, "exchange": TEXT, "write": TEXT, "read": TEXT})
_BODY = object_of({"exchange": TEXT, "write": TEXT, "read": TEXT})
_PATH = "/api/topic-permissions/{vhost}/{user}"


class TopicPermissionPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            self._list("/api/topic-permissions", "All topic permissions"),
            self._list(
                "/api/vhosts/{vhost}/topic-permissions",
                "The topic permissions of all users in a virtual host",
            ),
            self._list("/api/users/{user}/topic-permissions", "The topic permissions of a user"),
            self._list(_PATH, "The topic permissions of a user in a virtual host"),
            Operation(
                "PUT",
                _PATH,
                self.put,
                "Set which routing keys of an exchange a user may publish and bind with",
                "permissions",
                allowed=ADMINISTRATOR,
                body=_BODY,
            ),
            Operation(
                "DELETE",
                _PATH,
                self.delete,
                "Clear the topic permissions of a user in a virtual host",
                "permissions",
                allowed=ADMINISTRATOR,
            ),
        ]

    def _list(self, path: str, summary: str) -> Operation:
        return Operation(
            "GET",
            path,
            self.list,
            summary,
            "permissions",
            allowed=ADMINISTRATOR,
            answer=_ROW,
            is_list=True,
        )

    async def list(self, call: ApiRequest) -> object:
        """All, or those of what the path names."""
        parts = call.request.path_params
        vhost = call.named("vhost") if "vhost" in parts else None
        user = call.named("user") if "user" in parts else None
        rows = await self._line.walk(lambda node: _rows(node, vhost, user))
        if not rows and vhost is not None and user is not None:
            raise _none(vhost, user)
        return RowList(rows)

    async def put(self, call: ApiRequest) -> object:
        vhost, user = call.named("vhost"), call.named("user")
        body = call.body
        command = SetTopicPermissions(
            user, vhost, text_of(body, "exchange"), text_of(body, "write"), text_of(body, "read")
        )
        if not command.exchange:
            raise Problem(400, "'exchange' must name an exchange")

        def put(turn: ChangeTurn) -> Created:
            check_ends(turn.node, vhost, user)
            is_new = not _has_any(turn.node, vhost, user)
            turn.apply(command)
            return Created(is_new)

        return await changed(self._line, call, put)

    async def delete(self, call: ApiRequest) -> object:
        vhost, user = call.named("vhost"), call.named("user")

        def delete(turn: ChangeTurn) -> None:
            if not _has_any(turn.node, vhost, user):
                raise _none(vhost, user)
            turn.apply(ClearTopicPermissions(user, vhost))

        await changed(self._line, call, delete)
        return NO_CONTENT


def _none(vhost: str, user: str) -> Problem:
    return Problem(404, f"user '{user}' has no topic permissions in vhost '{vhost}'")


def _has_any(node: Node, vhost: str, user: str) -> bool:
    return any(
        access.user == user and access.vhost == vhost for access in node.state.topic_access.listed()
    )


def _rows(node: Node, vhost: str | None, user: str | None) -> Generator[None, None, list[Row]]:
    check_named(node, vhost, user)
    rows: list[Row] = []
    for count, access in enumerate(node.state.topic_access.listed(), 1):
        if vhost in {None, access.vhost} and user in {None, access.user}:
            rows.append(
                {
                    "user": access.user,
                    "vhost": access.vhost,
                    "exchange": access.exchange,
                    "write": access.write,
                    "read": access.read,
                }
            )
        if count % STEP_COUNT == 0:
            yield
    return sorted(rows, key=lambda row: (str(row["vhost"]), str(row["user"]), str(row["exchange"])))
