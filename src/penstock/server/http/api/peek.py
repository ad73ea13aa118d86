"""Looking at messages without touching them: GET /api/queues/{vhost}/{name}/peek."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from penstock.broker.access.permissions import Permission, ResourceKind
from penstock.broker.queues.message_queue import NO_AGE
from penstock.broker.queues.peek import Peek, PeekAtHeld, PeekPlace
from penstock.broker.selectors.selector import Selector
from penstock.broker.topology import NO_CONNECTION
from penstock.dialects.amqp091.properties import properties_of
from penstock.server.http.api.json_pieces import json_in_pieces
from penstock.server.http.api.listing import with_columns
from penstock.server.http.api.message_properties import properties_row
from penstock.server.http.api.message_rows import BodyForm, Row, payload_row
from penstock.server.http.api.operation import Operation, Query
from penstock.server.http.api.pace import Pace
from penstock.server.http.api.schema import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    TABLE,
    TEXT,
    list_of,
    object_of,
    one_of,
)
from penstock.server.http.problems import Problem
from penstock.server.http.request_parts import asked, number
from penstock.server.http.vhost_access import enter
from penstock.storage.errors import Damaged

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.broker.entry import QueueEntry
    from penstock.broker.message import Message
    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.broker.queues.peek import Peeked
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

COUNT_DEFAULT: Final = 10
# Messages in one answer. Who wants to read all of a queue consumes it, or copies it.
COUNT_MAX: Final = 1_000
# Of one body, and of all headers and bodies of one answer; the rest of a body is cut off, and an
# answer that has so much ends, with `next` for the others.
BODY_BYTES_DEFAULT: Final = 64 * 1024
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
# A text of the caller's that is parsed in the HTTP server's thread.
SELECTOR_LENGTH_MAX: Final = 10_000
# Messages of AMQP 1.0 that are translated in one step: below a millisecond.
TRANSLATED_COUNT: Final = 50
# Deliveries that are looked through in one step for those of a queue: below a millisecond.
HELD_COUNT: Final = 5_000

_PLACE: Final = re.compile(r"(?:([0-9]{1,3}):)?([0-9]{1,19})")
_MESSAGE: Final = object_of(
    {
        "position": COUNT,
        "state": one_of("ready", "unacked"),
        "redelivered": BOOLEAN,
        "delivery_count": COUNT,
        "exchange": TEXT,
        "routing_key": TEXT,
        "properties": TABLE,
        "payload_bytes": COUNT,
    },
    {
        "payload": ANYTHING,
        "payload_encoding": one_of("string", "json", "base64"),
        "age_ms": COUNT,
        "expires_at": COUNT,
    },
)
_ANSWER: Final = object_of(
    {"messages": list_of(_MESSAGE), "next": TEXT, "end": BOOLEAN, "looked_at": COUNT}
)


class MessageState(Enum):
    READY = "ready"
    UNACKED = "unacked"


_QUERIES: Final = (
    Query("offset", "Where to begin: a position, or `next` of the answer before."),
    Query("count", f"Messages in the answer, at most {COUNT_MAX}.", COUNT),
    Query("selector", "Only messages that this selector (as of AMQP 1.0 receivers) matches."),
    Query(
        "state",
        "Messages that are ready, or that are unacknowledged.",
        one_of(*[state.value for state in MessageState]),
    ),
    Query("body", "How bodies are shown.", one_of(*[form.value for form in BodyForm])),
    Query("body_bytes", f"Bytes of each body, at most {BODY_BYTES_MAX}.", COUNT),
)


@dataclass(frozen=True, slots=True)
class PeekRequest:
    """What was asked for, checked."""

    vhost: str
    queue: str
    caller: Caller
    place: PeekPlace
    selector: Selector | None
    state: MessageState
    count: int
    form: BodyForm
    body_bytes: int


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found, with bodies cut on the broker's loop; JSON is made elsewhere."""

    rows: list[tuple[Row, Message, bytes, int]]
    next: str
    is_at_end: bool
    looked_at: int


class PeekPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/api/queues/{vhost}/{name}/peek",
                self.peek,
                "Look at messages without changing order, flags, counts or expiry",
                "queues",
                answer=_ANSWER,
                queries=_QUERIES,
            )
        ]

    async def peek(self, call: ApiRequest) -> object:
        request = _request_of(call)
        now = self._line.server.now
        try:
            looked = await self._line.walk(lambda node: _look(node, request, now()))
        except Damaged as damage:
            raise Problem(
                500, f"a message cannot be read back: {damage}", "See the broker's log."
            ) from None
        # In a thread, message by message: they may have megabytes.
        return await run_in_threadpool(_answer, looked, request.form, call.query("columns"))


def _answer(looked: Looked, form: BodyForm, columns: str) -> Response:
    messages: list[object] = []
    for row, message, body, size in looked.rows:
        row["properties"] = properties_row(properties_of(message).header)
        row.update(payload_row(body, form, size))
        messages.append(row)
    found: Row = {
        "messages": messages,
        "next": looked.next,
        "end": looked.is_at_end,
        "looked_at": looked.looked_at,
    }
    written = json_in_pieces(with_columns(found, {"columns": columns}), Pace(), 1)
    return Response(b"".join(written), media_type="application/json")


def _request_of(call: ApiRequest) -> PeekRequest:
    text = call.query("selector")
    if len(text) > SELECTOR_LENGTH_MAX:
        raise Problem(400, f"the selector is longer than {SELECTOR_LENGTH_MAX} characters")
    return PeekRequest(
        call.named("vhost"),
        call.named("name"),
        call.caller,
        _place_in(call.query("offset", "0")),
        Selector.parse(text) if text else None,
        MessageState(_word(call, "state", [state.value for state in MessageState])),
        _bounded(call, "count", COUNT_DEFAULT, COUNT_MAX),
        BodyForm(_word(call, "body", [form.value for form in BodyForm])),
        _bounded(call, "body_bytes", BODY_BYTES_DEFAULT, BODY_BYTES_MAX),
    )


def _word(call: ApiRequest, key: str, words: list[str]) -> str:
    """The first one when nothing is said."""
    word = call.query(key, words[0])
    if word not in words:
        raise Problem(400, f"{key}={word[:30]} is not one of: {', '.join(words)}")
    return word


def _bounded(call: ApiRequest, key: str, default: int, largest: int) -> int:
    value = asked(call.request, key, default)
    if value > largest:
        raise Problem(400, f"{key} must be at most {largest}")
    return value


def _place_in(text: str) -> PeekPlace:
    match = _PLACE.fullmatch(text)
    if match is None:
        raise Problem(
            400,
            f"offset={text[:30]} is not a position",
            "Send a number, or `next` of an earlier answer.",
        )
    return PeekPlace(int(match[1] or 0), number(match[2], "a position"))


def _place_text(queue: MessageQueue, place: PeekPlace) -> str:
    if queue.settings.max_priority == 0:
        return str(place.position)
    return f"{place.level}:{place.position}"


def _look(node: Node, request: PeekRequest, now: int) -> Generator[None, None, Looked]:
    # Other members of a cluster have no messages in memory.
    node.container.admission.check_root(now)
    entered, access = enter(node, request.caller, request.vhost)
    entered.queue(request.queue)
    access.check(Permission.READ, ResourceKind.QUEUE, request.queue)
    queue = entered.accessible_queue(request.queue, NO_CONNECTION)
    peek = Peek(
        queue,
        request.place,
        request.selector,
        request.count,
        request.body_bytes,
        ANSWER_BYTES_MAX,
    )
    if request.state is MessageState.UNACKED:
        entries: list[QueueEntry] = yield from held_entries(node, queue)
        held = PeekAtHeld(peek, request.place.position, entries)
        while held.step(now):
            yield
        return (yield from _looked(node, request, peek, str(held.next_position)))
    while peek.step(now):
        yield
    return (yield from _looked(node, request, peek, _place_text(queue, peek.next)))


def held_entries(node: Node, queue: MessageQueue) -> Generator[None, None, list[QueueEntry]]:
    """What is out with consumers, channel by channel and link by link."""
    if queue.keeps_messages:
        raise Problem(
            400, "messages of a stream are not unacknowledged", "Leave out `state=unacked`."
        )
    held: list[QueueEntry] = []
    for number_of in list(node.connections):
        connection = node.connections.get(number_of)
        if connection is not None:
            for part in connection.protocol.unsettled_parts():
                while not part.is_over:
                    held += [entry for of, entry in part.take(HELD_COUNT) if of is queue]
                    yield
        yield
    suspended: list[tuple[MessageQueue, QueueEntry]] = []
    node.amqp10.links.add_unsettled(suspended)
    yield from _keep(suspended, queue, held)
    return held


def _keep(
    found: list[tuple[MessageQueue, QueueEntry]], queue: MessageQueue, held: list[QueueEntry]
) -> Generator[None, None, None]:
    for start in range(0, len(found), HELD_COUNT):
        held += [entry for of, entry in found[start : start + HELD_COUNT] if of is queue]
        yield


def _looked(
    node: Node, request: PeekRequest, peek: Peek, place: str
) -> Generator[None, None, Looked]:
    wall = node.state.wall
    rows: list[tuple[Row, Message, bytes, int]] = []
    for peeked in peek.found:
        # A consumer of AMQP 0-9-1 would get it like this.
        message = node.container.translator.for_amqp091(peeked.message)
        row = _row_of(peeked, request.state)
        if peeked.expires_at:
            row["expires_at"] = wall.at(peeked.expires_at)
        shown = 0 if request.form is BodyForm.NONE else request.body_bytes
        rows.append((row, message, message.body[:shown], len(message.body)))
        if len(rows) % TRANSLATED_COUNT == 0:
            yield
    return Looked(rows, place, peek.is_at_end, peek.looked_at)


def _row_of(peeked: Peeked, state: MessageState) -> Row:
    address = peeked.message.address
    row: Row = {
        "position": peeked.position,
        "state": state.value,
        "redelivered": peeked.is_redelivered,
        "delivery_count": peeked.delivery_count,
        "exchange": address.exchange,
        "routing_key": address.routing_key,
    }
    if peeked.age_ms != NO_AGE:
        row["age_ms"] = peeked.age_ms
    return row
