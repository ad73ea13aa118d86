"""Users: /api/users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from penstock.broker.access.users import DEFAULT_USER
from penstock.broker.topology import DeleteUser, PutUser
from penstock.server.http.api.changes import changed, no_user
from penstock.server.http.api.operation import (
    ADMINISTRATOR,
    NO_CONTENT,
    Created,
    Operation,
    RowList,
)
from penstock.server.http.api.schema import TABLE, TEXT, list_of, object_of, text_of
from penstock.server.http.api.user_credentials import credentials_of, hash_in, user_row
from penstock.server.http.api.vhost_changes import tags_of
from penstock.server.http.problems import Problem
from penstock.server.http.stream_facts import STEP_COUNT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from penstock.node.node import Node
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

Row = dict[str, object]

USER = object_of(
    {
        "name": TEXT,
        "password_hash": TEXT,
        "hashing_algorithm": TEXT,
        "tags": list_of(TEXT),
        "limits": TABLE,
    }
)
_BODY = object_of(
    {"tags": {"type": ["string", "array"], "items": TEXT}},
    {"password": TEXT, "password_hash": TEXT, "hashing_algorithm": TEXT},
)
_PATH = "/api/users/{name}"


class UserPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            self._list("/api/users", self.list, "All users"),
            self._list(
                "/api/users/without-permissions",
                self.list_without_permissions,
                "Users who have permissions in no virtual host",
            ),
            Operation(
                "POST",
                "/api/users/bulk-delete",
                self.delete_many,
                "Delete several users, all of them or none",
                "users",
                allowed=ADMINISTRATOR,
                body=object_of({"users": list_of(TEXT)}),
            ),
            Operation(
                "GET", _PATH, self.show, "A user", "users", allowed=ADMINISTRATOR, answer=USER
            ),
            Operation(
                "PUT",
                _PATH,
                self.put,
                "Add a user, or replace password and tags of one. Without `password` and with an "
                "empty `password_hash` nobody can log in with a password.",
                "users",
                allowed=ADMINISTRATOR,
                body=_BODY,
            ),
            Operation(
                "DELETE",
                _PATH,
                self.delete,
                "Delete a user, and close its connections",
                "users",
                allowed=ADMINISTRATOR,
            ),
        ]

    def _list(
        self, path: str, page: Callable[[ApiRequest], Awaitable[object]], summary: str
    ) -> Operation:
        return Operation(
            "GET", path, page, summary, "users", allowed=ADMINISTRATOR, answer=USER, is_list=True
        )

    async def list(self, call: ApiRequest) -> object:
        del call
        return RowList(await self._line.walk(lambda node: _rows(node, False)))

    async def list_without_permissions(self, call: ApiRequest) -> object:
        del call
        return RowList(await self._line.walk(lambda node: _rows(node, True)))

    async def show(self, call: ApiRequest) -> object:
        name = call.named("name")

        def row(node: Node, now: int) -> Row:
            del now
            user = node.state.users.find(name)
            if user is None:
                raise no_user(name)
            return user_row(user, node.state.user_limits.of(name))

        return await self._line.ask(row)

    async def put(self, call: ApiRequest) -> object:
        name = call.named("name")
        body = call.body
        if name != name.encode(errors="replace").decode():
            raise Problem(400, "the name of a user must be valid UTF-8")
        if "password" in body and "password_hash" in body:
            raise Problem(400, "both_password_and_password_hash_are_provided")
        tags = tags_of(body["tags"])
        password_hash, scram_keys = "", ""
        if "password" in body:
            # Not on a loop: hashing takes tens of milliseconds.
            password_hash, scram_keys = await run_in_threadpool(
                credentials_of,
                text_of(body, "password"),
                self._line.server.node.configuration.makes_scram_keys,
            )
        else:
            password_hash = hash_in(name, body)

        def put(turn: ChangeTurn) -> Created:
            known = turn.node.state.users.find(name)
            # Where somebody may come from is not said here; it stays what it was.
            loopback_only = known.loopback_only if known else name == DEFAULT_USER
            keys = scram_keys
            if known is not None and password_hash and password_hash == known.password_hash:
                # The same password: a change of tags does not end logins with SCRAM.
                keys = known.scram_keys
            turn.apply(PutUser(name, password_hash, tags, loopback_only, keys))
            return Created(known is None)

        return await changed(self._line, call, put)

    async def delete(self, call: ApiRequest) -> object:
        name = call.named("name")
        await changed(self._line, call, lambda turn: turn.apply(DeleteUser(name)))
        return NO_CONTENT

    async def delete_many(self, call: ApiRequest) -> object:
        names = call.body["users"]
        assert isinstance(names, list), "the body was checked"

        def delete(turn: ChangeTurn) -> None:
            for name in names:
                if turn.node.state.users.find(name) is None:
                    raise Problem(400, f"no user '{name}'")
            for name in dict.fromkeys(names):
                turn.apply(DeleteUser(name))

        await changed(self._line, call, delete)
        return NO_CONTENT


def _rows(node: Node, without_permissions: bool) -> Generator[None, None, list[Row]]:
    state = node.state
    permitted = {access.user for access in state.access.listed()} if without_permissions else set()
    rows: list[Row] = []
    for count, user in enumerate(state.users.listed(), 1):
        if user.name not in permitted:
            rows.append(user_row(user, state.user_limits.of(user.name)))
        if count % STEP_COUNT == 0:
            yield
    return sorted(rows, key=lambda row: str(row["name"]))
