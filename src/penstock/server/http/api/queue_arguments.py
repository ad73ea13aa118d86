"""Changes of a queue that is there: PATCH /api/queues/{vhost}/{name}."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.topology import ChangeQueueArguments
from penstock.server.http.api.operation import NO_CONTENT, Operation
from penstock.server.http.api.schema import TABLE, object_of
from penstock.server.http.vhost_access import enter

if TYPE_CHECKING:
    from penstock.node.node import Node
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
        user = call.caller.name

        def apply(node: Node, now: int) -> object:
            entered, access = enter(node, user, vhost)
            entered.queue(command.name)
            access.check_command(command, creates=False)
            node.apply_to_vhost(vhost, command, now)
            return NO_CONTENT

        return await self._line.change_safely(apply)
