"""Permissions of users in virtual hosts: /api/permissions, and the lists of one user or vhost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.topology import ClearPermissions, SetPermissions
from penstock.server.http.api.changes import changed, no_user
from penstock.server.http.api.operation import (
    ADMINISTRATOR,
    NO_CONTENT,
    Created,
    Operation,
    RowList,
)
from penstock.server.http.api.schema import TEXT, object_of, text_of
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from penstock.broker.access.permissions import Access
    from penstock.node.node import Node
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

Row = dict[str, object]

_ROW = object_of({"user": TEXT, "vhost": TEXT, "configure": TEXT, "write": TEXT, "read": TEXT})
_BODY = object_of({"configure": TEXT, "write": TEXT, "read": TEXT})
_PATH = "/api/permissions/{vhost}/{user}"
# Rows that are made in one step on the broker's loop: less than a millisecond.
STEP_COUNT = 1000


class PermissionPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            self._list("/api/permissions", self.list, "All permissions"),
            self._list(
                "/api/vhosts/{vhost}/permissions",
                self.list,
                "The permissions of all users in a virtual host",
            ),
            self._list("/api/users/{user}/permissions", self.list, "The permissions of a user"),
            self._one("GET", self.show, "The permissions of a user in a virtual host"),
            self._one("PUT", self.put, "Set the permissions of a user in a virtual host"),
            self._one("DELETE", self.delete, "Clear the permissions of a user in a virtual host"),
        ]

    def _list(
        self, path: str, page: Callable[[ApiRequest], Awaitable[object]], summary: str
    ) -> Operation:
        return Operation(
            "GET",
            path,
            page,
            summary,
            "permissions",
            allowed=ADMINISTRATOR,
            answer=_ROW,
            is_list=True,
        )

    def _one(
        self, method: str, page: Callable[[ApiRequest], Awaitable[object]], summary: str
    ) -> Operation:
        body = _BODY if method == "PUT" else None
        return Operation(
            method, _PATH, page, summary, "permissions", ADMINISTRATOR, body, answer=_ROW
        )

    async def list(self, call: ApiRequest) -> object:
        """All, or those of the user or of the virtual host that the path names."""
        parts = call.request.path_params
        vhost = call.named("vhost") if "vhost" in parts else None
        user = call.named("user") if "user" in parts else None
        return RowList(await self._line.walk(lambda node: _rows(node, vhost, user)))

    async def show(self, call: ApiRequest) -> object:
        vhost, user = call.named("vhost"), call.named("user")
        return await self._line.ask(lambda node, now: _row(_found(node, vhost, user)))

    async def put(self, call: ApiRequest) -> object:
        vhost, user = call.named("vhost"), call.named("user")
        body = call.body
        command = SetPermissions(
            user, vhost, text_of(body, "configure"), text_of(body, "write"), text_of(body, "read")
        )

        def put(turn: ChangeTurn) -> Created:
            check_ends(turn.node, vhost, user)
            is_new = turn.node.state.access.find(user, vhost) is None
            turn.apply(command)
            return Created(is_new)

        return await changed(self._line, call, put)

    async def delete(self, call: ApiRequest) -> object:
        vhost, user = call.named("vhost"), call.named("user")

        def delete(turn: ChangeTurn) -> None:
            _found(turn.node, vhost, user)
            turn.apply(ClearPermissions(user, vhost))

        await changed(self._line, call, delete)
        return NO_CONTENT


def check_ends(node: Node, vhost: str, user: str) -> None:
    """Of a permission that is set. RabbitMQ answers 400, not 404."""
    if vhost not in node.state.vhosts:
        raise Problem(400, f"vhost_or_user_not_found: no vhost '{vhost}'")
    if node.state.users.find(user) is None:
        raise Problem(400, f"vhost_or_user_not_found: no user '{user}'")


def check_named(node: Node, vhost: str | None, user: str | None) -> None:
    """Of a list: raises a `Problem` for a user or a virtual host that is not there."""
    if vhost is not None:
        node.state.vhost(vhost)
    if user is not None and node.state.users.find(user) is None:
        raise no_user(user)


def _found(node: Node, vhost: str, user: str) -> Access:
    access = node.state.access.find(user, vhost)
    if access is None:
        raise Problem(404, f"user '{user}' has no permissions in vhost '{vhost}'")
    return access


def _rows(node: Node, vhost: str | None, user: str | None) -> Generator[None, None, list[Row]]:
    check_named(node, vhost, user)
    rows: list[Row] = []
    for count, access in enumerate(node.state.access.listed(), 1):
        if vhost in {None, access.vhost} and user in {None, access.user}:
            rows.append(_row(access))
        if count % STEP_COUNT == 0:
            yield
    return sorted(rows, key=lambda row: (str(row["vhost"]), str(row["user"])))


def _row(access: Access) -> Row:
    return {
        "user": access.user,
        "vhost": access.vhost,
        "configure": access.configure,
        "write": access.write,
        "read": access.read,
    }
