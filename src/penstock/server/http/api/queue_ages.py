"""How old the messages of a queue are, and how long they were there: GET .../{name}/ages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.access.permissions import Permission, ResourceKind
from penstock.broker.queues.ages import BUCKETS_MS
from penstock.broker.queues.message_queue import NO_AGE
from penstock.server.http.api.operation import Operation
from penstock.server.http.api.schema import COUNT, INTEGER, Schema, list_of, object_of
from penstock.server.http.vhost_access import enter

if TYPE_CHECKING:
    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

Row = dict[str, object]

_NOTHING: Final[Schema] = {"type": ["integer", "null"], "minimum": 0}
_BUCKET: Final = object_of({"up_to_ms": _NOTHING, "deliveries": COUNT})
# Columns of a queue; a list of queues may have them too.
AGE_COLUMNS: Final = {
    "oldest_message_age_ms": _NOTHING,
    "head_message_timestamp": _NOTHING,
    "time_in_queue": {
        **object_of({"deliveries": COUNT, "sum_ms": INTEGER, "buckets": list_of(_BUCKET)}),
        "type": ["object", "null"],
    },
}


def age_columns(queue: MessageQueue, now: int) -> Row:
    """What does not exist is null: the age of an empty queue, times before the first delivery."""
    age = queue.oldest_age_ms(now)
    row: Row = {
        "oldest_message_age_ms": None if age == NO_AGE else age,
        "head_message_timestamp": _head_timestamp(queue),
        "time_in_queue": None,
    }
    waited = queue.time_in_queue()
    if waited is not None and waited.count:
        bounds: list[int | None] = [*BUCKETS_MS, None]
        row["time_in_queue"] = {
            "deliveries": waited.count,
            "sum_ms": waited.sum_ms,
            "buckets": [
                {"up_to_ms": bound, "deliveries": count}
                for bound, count in zip(bounds, waited.counts, strict=True)
            ],
        }
    return row


def _head_timestamp(queue: MessageQueue) -> int | None:
    """Seconds since 1970, as the publisher of the next message has said; None when it did not, or
    when the message would have to be read from disk.
    """
    head = queue.head_in_memory()
    if head is None:
        return None
    properties = head.message.properties
    seconds = properties.text_of("timestamp")
    if seconds.isdigit():
        return int(seconds)
    # AMQP 1.0's.
    milliseconds = properties.text_of("creation_time")
    return int(milliseconds) // 1000 if milliseconds.isdigit() else None


class AgePages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/api/queues/{vhost}/{name}/ages",
                self.show,
                "Age of the oldest message, and how long messages were in the queue",
                "queues",
                answer=object_of(AGE_COLUMNS),
            )
        ]

    async def show(self, call: ApiRequest) -> object:
        vhost, name, caller = call.named("vhost"), call.named("name"), call.caller

        def look(node: Node, now: int) -> Row:
            # Other members of a cluster have no messages in memory.
            node.container.admission.check_root(now)
            entered, access = enter(node, caller, vhost)
            queue = entered.queue(name)
            access.check(Permission.READ, ResourceKind.QUEUE, name)
            return age_columns(queue, now)

        return await self._line.ask(look)
