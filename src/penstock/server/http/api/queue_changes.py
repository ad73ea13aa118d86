"""Queues: declare, delete, purge, and RabbitMQ's actions on mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.names import without_line_breaks
from penstock.broker.topology import DeclareQueue, DeleteQueue, PurgeQueue, QueueDeclared
from penstock.server.http.api.changes import changed
from penstock.server.http.api.operation import NO_CONTENT, Created, Operation, Query
from penstock.server.http.api.schema import ARGUMENTS, FLAG, TEXT, arguments_in, flag_in, object_of
from penstock.server.http.api.schema import text_of as text_in
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

_PATH: Final = "/api/queues/{vhost}/{name}"
_BODY: Final = object_of(
    {}, {"durable": FLAG, "auto_delete": FLAG, "arguments": ARGUMENTS, "node": TEXT}
)
# RabbitMQ synchronizes mirrors with these. There are none here: accepted without an effect.
_ACTIONS: Final = ("sync", "cancel_sync")


class QueueChanges:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "PUT", _PATH, self.declare, "Declare a queue", "queues",
                body=_BODY, is_body_optional=True,
            ),
            Operation(
                "DELETE", _PATH, self.delete, "Delete a queue", "queues",
                queries=(
                    Query("if-empty", "true deletes it only when it has no messages."),
                    Query("if-unused", "true deletes it only when it has no consumers."),
                ),
            ),
            Operation(
                "DELETE", f"{_PATH}/contents", self.purge,
                "Purge a queue: drop the messages that are ready", "queues",
            ),
            Operation(
                "POST", f"{_PATH}/actions", self.act,
                "`sync` and `cancel_sync` of mirrors, which have no effect here", "queues",
                body=object_of({"action": TEXT}),
            ),
        ]  # fmt: skip

    async def declare(self, call: ApiRequest) -> object:
        vhost = call.named("vhost")
        body = call.body
        command = DeclareQueue(
            without_line_breaks(call.named("name")),
            durable=flag_in(body, "durable"),
            auto_delete=flag_in(body, "auto_delete"),
            arguments=arguments_in(body),
        )
        if not command.name:
            raise Problem(400, "the name of a queue must not be empty")

        def declare(turn: ChangeTurn) -> Created:
            result = turn.declare(vhost, command)
            assert isinstance(result, QueueDeclared), "a queue was declared"
            return Created(result.created)

        return await changed(self._line, call, declare)

    async def delete(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), call.named("name")
        command = DeleteQueue(name, call.is_asked("if-unused"), call.is_asked("if-empty"))

        def delete(turn: ChangeTurn) -> None:
            turn.principal(vhost).vhost.queue(name)
            turn.declare(vhost, command)

        await changed(self._line, call, delete)
        return NO_CONTENT

    async def purge(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), call.named("name")
        await changed(self._line, call, lambda turn: turn.declare(vhost, PurgeQueue(name)))
        return NO_CONTENT

    async def act(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), call.named("name")
        action = text_in(call.body, "action")
        if action not in _ACTIONS:
            raise Problem(400, f"unknown action '{action[:100]}'; known are sync and cancel_sync")
        await changed(self._line, call, lambda turn: turn.principal(vhost).vhost.queue(name))
        return NO_CONTENT
