"""Whether a message goes through a virtual host: /api/aliveness-test/{vhost}."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.topology import DeclareQueue
from penstock.server.http.api.changes import changed
from penstock.server.http.api.get_page import ACKNOWLEDGE, taken_from
from penstock.server.http.api.operation import Operation
from penstock.server.http.api.publish_page import WantedPublish
from penstock.server.http.api.schema import object_of, one_of
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

# RabbitMQ's name. The queue stays, so that the next test only uses it.
QUEUE: Final = "aliveness-test"
_MESSAGE: Final[dict[str, object]] = {
    "properties": {},
    "routing_key": QUEUE,
    "payload": "test_message",
    "payload_encoding": "string",
}


class AlivenessTest:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/api/aliveness-test/{vhost}",
                self.test,
                f"Declare the queue {QUEUE}, publish to it and get the message, with the "
                "permissions of the user who asks",
                "health",
                answer=object_of({"status": one_of("ok")}),
            )
        ]

    async def test(self, call: ApiRequest) -> object:
        vhost = call.named("vhost")
        wanted = WantedPublish("", _MESSAGE)

        def test(turn: ChangeTurn) -> bool:
            principal = turn.principal(vhost)
            if QUEUE not in principal.vhost.queues:
                turn.declare(vhost, DeclareQueue(QUEUE))
            principal.check_read_queue(QUEUE)
            wanted.run(turn, vhost)
            queue = principal.vhost.accessible_queue(QUEUE, -1)
            return bool(taken_from(turn.node, queue, 1, ACKNOWLEDGE, turn.now))

        if not await changed(self._line, call, test):
            raise Problem(503, f"the message did not reach the queue '{QUEUE}'")
        return {"status": "ok"}
