"""Getting messages over HTTP: /api/queues/{vhost}/{name}/get.

As in RabbitMQ this consumes: what is put back is flagged as redelivered. Everything is taken and
settled in one step on the broker's loop, so that nothing stays out with a request that has gone.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from penstock.broker.errors import NotImplementedHere
from penstock.dialects.amqp091.consume import DELIVERY_COUNT
from penstock.dialects.amqp091.properties import properties_of
from penstock.server.http.api.changes import changed
from penstock.server.http.api.json_pieces import list_in_pieces
from penstock.server.http.api.message_properties import properties_row
from penstock.server.http.api.operation import Operation
from penstock.server.http.api.schema import (
    BOOLEAN,
    COUNT,
    TABLE,
    TEXT,
    Schema,
    list_of,
    object_of,
    one_of,
)
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.broker.entry import QueueEntry
    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.node.node import Node
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

# Of one request: messages, and bytes of their headers and bodies. Taking more would hold up others; whoever
# wants more asks again, and gets fewer than asked for until then.
MESSAGES_MAX: Final = 1000
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
ACKNOWLEDGE: Final = "ack_requeue_false"
_REJECT: Final = "reject_requeue_false"
_REQUEUE: Final = ("ack_requeue_true", "reject_requeue_true")
_NUMBER: Final[Schema] = {"type": ["integer", "string"]}
_BODY: Final = object_of(
    {"count": _NUMBER, "ackmode": one_of(ACKNOWLEDGE, _REJECT, *_REQUEUE), "encoding": TEXT},
    {"truncate": _NUMBER},
)
_ROW: Final = object_of(
    {
        "payload_bytes": COUNT,
        "redelivered": BOOLEAN,
        "exchange": TEXT,
        "routing_key": TEXT,
        "message_count": COUNT,
        "properties": TABLE,
        "payload": TEXT,
        "payload_encoding": one_of("string", "base64"),
    }
)


@dataclass(frozen=True, slots=True)
class Gotten:
    """One message, as it was taken."""

    exchange: str
    routing_key: str
    header: bytes
    body: bytes
    redelivered: bool
    message_count: int


class GetPage:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "POST",
                "/api/queues/{vhost}/{name}/get",
                self.get,
                f"Get messages, at most {MESSAGES_MAX} and {BODY_BYTES_MAX >> 20} MiB of them. "
                "`ackmode` says what becomes of them; `encoding` is auto or base64.",
                "queues",
                body=_BODY,
                answer=list_of(_ROW),
            )
        ]

    async def get(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), call.named("name")
        body = call.body
        count = _number(body, "count")
        if not 0 <= count <= MESSAGES_MAX:
            # A negative number of messages is all of them, as in RabbitMQ.
            count = MESSAGES_MAX
        length = _number(body, "truncate") if "truncate" in body else -1
        mode, encoding = body["ackmode"], body["encoding"]
        if encoding not in {"auto", "base64"}:
            raise Problem(400, "Unsupported encoding. Please use auto or base64.")

        def take(turn: ChangeTurn) -> list[Gotten]:
            principal = turn.principal(vhost)
            principal.check_read_queue(name)
            queue = principal.vhost.accessible_queue(name, -1)
            return taken_from(turn.node, queue, count, str(mode), turn.now)

        found = await changed(self._line, call, take)
        return await run_in_threadpool(_rows, found, encoding == "base64", length)


def taken_from(node: Node, queue: MessageQueue, count: int, mode: str, now: int) -> list[Gotten]:
    entries: list[QueueEntry] = []
    found: list[Gotten] = []
    size = 0
    try:
        while len(entries) < count and size < BODY_BYTES_MAX:
            entry = queue.get(now)
            if entry is None:
                break
            entries.append(entry)
            gotten = _gotten(node, queue, entry)
            size += len(gotten.body) + len(gotten.header)
            found.append(gotten)
    except NotImplementedHere as refusal:
        # A stream: a mistake of the request, not a lack of the server.
        raise Problem(400, refusal.text) from None
    finally:
        _settle(queue, entries, mode, now)
    return found


def _settle(queue: MessageQueue, entries: list[QueueEntry], mode: str, now: int) -> None:
    if mode == ACKNOWLEDGE:
        queue.acknowledge_many(entries)
    elif mode == _REJECT:
        for entry in entries:
            queue.reject(entry, now)
    else:
        queue.requeue(entries, now)


def _gotten(node: Node, queue: MessageQueue, entry: QueueEntry) -> Gotten:
    message = node.container.translator.for_amqp091(entry.message)
    properties = properties_of(message)
    if queue.counts_deliveries and entry.delivery_count:
        properties = properties.with_header(DELIVERY_COUNT, entry.delivery_count)
    address = message.address
    return Gotten(
        address.exchange,
        address.routing_key,
        properties.header,
        message.body,
        entry.is_redelivered,
        queue.ready_count,
    )


def _rows(found: list[Gotten], is_base64: bool, length: int) -> Response:
    """In a thread, message by message: they may have megabytes."""
    rows: list[object] = [_row(gotten, is_base64, length) for gotten in found]
    return Response(list_in_pieces(rows, 1), media_type="application/json")


def _row(gotten: Gotten, is_base64: bool, length: int) -> dict[str, object]:
    body = gotten.body if length < 0 else gotten.body[:length]
    payload, encoding = "", "base64"
    if not is_base64:
        try:
            payload, encoding = body.decode(), "string"
        except UnicodeDecodeError:
            is_base64 = True
    if is_base64:
        payload = base64.b64encode(body).decode("ascii")
    return {
        "payload_bytes": len(gotten.body),
        "redelivered": gotten.redelivered,
        "exchange": gotten.exchange,
        "routing_key": gotten.routing_key,
        "message_count": gotten.message_count,
        "properties": properties_row(gotten.header),
        "payload": payload,
        "payload_encoding": encoding,
    }


def _number(body: dict[str, object], key: str) -> int:
    """RabbitMQ takes texts of digits as well."""
    value = body[key]
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit() and len(value) <= 10):
            raise Problem(400, f"'{key}' must be a number")
        value = int(value)
    assert isinstance(value, int), "the body was checked"
    return value
