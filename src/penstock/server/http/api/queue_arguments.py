"""Changes of a queue that is there: PATCH /api/queues/{vhost}/{name}."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.topology import ChangeQueueArguments
from penstock.server.http.api.changes import ChangeTurn, changed
from penstock.server.http.api.operation import NO_CONTENT, Operation
from penstock.server.http.api.schema import TABLE, object_of
from penstock.server.http.vhost_access import enter

if TYPE_CHECKING:
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine


class QueueArgumentPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "PATCH",
                "/api/queues/{vhost}/{name}",
                self.change,
                "Change arguments of a queue in place; null removes one",
                "queues",
                body=object_of({"arguments": TABLE}),
            )
        ]

    async def change(self, call: ApiRequest) -> object:
        """Answered when the change is durable."""
        vhost = call.named("vhost")
        arguments = call.body["arguments"]
        assert isinstance(arguments, dict), "the schema says so"
        command = ChangeQueueArguments(call.named("name"), arguments)

        def apply(turn: ChangeTurn) -> object:
            entered, access = enter(turn.node, turn.caller, vhost)
            entered.queue(command.name)
            access.check_command(command, creates=False)
            turn.apply_in(vhost, command)
            return NO_CONTENT

        return await changed(self._line, call, apply)
