"""Where a message would go, and why: POST /api/explain/{vhost}."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.broker.access.permissions import (
    DEFAULT_EXCHANGE_ALIAS,
    Access,
    Permission,
    ResourceKind,
)
from penstock.broker.errors import AccessRefused
from penstock.broker.exchanges.kinds import TOPIC
from penstock.broker.publishing.explain import Explanation
from penstock.server.http.api.binding_keys import exchange_name
from penstock.server.http.api.message_properties import (
    check_names,
    properties_in,
    short_text,
)
from penstock.server.http.api.message_rows import plain
from penstock.server.http.api.operation import ADMINISTRATOR, Operation
from penstock.server.http.api.schema import BOOLEAN, COUNT, TABLE, TEXT, list_of, object_of, one_of
from penstock.server.http.problems import Problem
from penstock.server.http.request_parts import NUMBER_MAX
from penstock.server.http.vhost_access import access_of, enter

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.broker.exchanges.exchange import Exchange
    from penstock.broker.message import Properties
    from penstock.broker.publishing.explain import PassedExchange
    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

Row = dict[str, object]

# Bindings that are described in one step on the broker's loop: about a millisecond.
STEP_COUNT: Final = 200
# Routing keys in CC and BCC: each is compared with each binding. More are refused.
COPIES_MAX: Final = 100
# Bindings in one answer, of all exchanges together, a megabyte of JSON. Those that match come
# first; how many are left out is said at each exchange.
BINDINGS_MAX: Final = 2_000
# Queues in one answer; `queue_count` says how many there are.
QUEUES_MAX: Final = 2_000

_REQUEST: Final = object_of(
    {"exchange": TEXT},
    {
        "routing_key": TEXT,
        "headers": TABLE,
        "properties": TABLE,
        "payload_bytes": COUNT,
        "user": TEXT,
    },
)
_BINDING: Final = object_of(
    {
        "destination": TEXT,
        "destination_type": one_of("queue", "exchange"),
        "routing_key": TEXT,
        "arguments": TABLE,
        "matched": BOOLEAN,
        "reason": TEXT,
    }
)
_STEP: Final = object_of(
    {
        "exchange": TEXT,
        "type": TEXT,
        "reached_by": one_of("publish", "binding", "alternate exchange"),
        "reached_from": TEXT,
        "note": TEXT,
        "bindings": list_of(_BINDING),
        "bindings_left_out": COUNT,
    }
)
_QUEUE: Final = object_of({"name": TEXT, "type": TEXT, "messages_ready": COUNT, "note": TEXT})
_ANSWER: Final = object_of(
    {
        "outcome": one_of("enqueued", "delayed", "unrouted", "refused"),
        "reason": TEXT,
        "routing_keys": list_of(TEXT),
        "queues": list_of(_QUEUE),
        "queue_count": COUNT,
        "delayed_in": list_of(TEXT),
        "steps": list_of(_STEP),
    },
    {"permission": object_of({"user": TEXT, "allowed": BOOLEAN, "reason": TEXT})},
)


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """What was asked for, checked."""

    vhost: str
    caller: Caller
    exchange: str
    routing_key: str
    properties: Properties
    body_bytes: int
    # The user whose right to publish is in question; empty for nobody's.
    user: str


class ExplainPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "POST",
                "/api/explain/{vhost}",
                self.explain,
                "Where a message would go, and why; nothing is published",
                "exchanges",
                body=_REQUEST,
                answer=_ANSWER,
            )
        ]

    async def explain(self, call: ApiRequest) -> object:
        request = _request_of(call)
        if request.user not in {"", call.caller.name}:
            # As everywhere, permissions of others are for administrators to see.
            call.caller.need_one_of(ADMINISTRATOR)
        return await self._line.walk(lambda node: _explained(node, request))


def _request_of(call: ApiRequest) -> ExplainRequest:
    body = call.body
    table = dict(_table(body, "properties"))
    if "headers" in body:
        if "headers" in table:
            raise Problem(400, "'headers' stand beside the properties or in them, not both")
        table["headers"] = _table(body, "headers")
    check_names(table)
    size = body.get("payload_bytes", 0)
    if not isinstance(size, int) or size > NUMBER_MAX:
        raise Problem(400, "'payload_bytes' is too large a number")
    exchange = _text(body, "exchange")
    properties = properties_in(table, size)
    if len(properties.extra_keys()) > COPIES_MAX:
        raise Problem(400, f"CC and BCC have more than {COPIES_MAX} routing keys")
    return ExplainRequest(
        call.named("vhost"),
        call.caller,
        exchange_name(exchange),
        _text(body, "routing_key"),
        properties,
        size,
        _text(body, "user"),
    )


def _table(body: Row, key: str) -> Row:
    value = body.get(key, {})
    assert isinstance(value, dict), "the schema says so"
    return value


def _text(body: Row, key: str) -> str:
    return short_text(f"'{key}'", body.get(key, ""))


def _explained(node: Node, request: ExplainRequest) -> Generator[None, None, Row]:
    vhost, _ = enter(node, request.caller, request.vhost)
    exchange = vhost.exchange(request.exchange)
    found = Explanation(
        vhost.routing, vhost.bindings, exchange, request.routing_key, request.properties
    )
    permission = _permission(node, vhost, exchange, request)
    yield
    queues = found.target.queues
    notes = [found.room_in(queue, request.body_bytes) for queue in queues[:QUEUES_MAX]]
    steps: list[Row] = []
    room = BINDINGS_MAX
    for passed in found.passed.values():
        step = yield from _step_of(found, passed, room)
        bindings = step["bindings"]
        assert isinstance(bindings, list)
        room -= len(bindings)
        steps.append(step)
    outcome, reason = _outcome(found, permission, exchange.internal, notes)
    answer: Row = {
        "outcome": outcome,
        "reason": reason,
        "routing_keys": found.keys,
        "queues": [
            _queue_row(queue, note) for queue, note in zip(queues[:QUEUES_MAX], notes, strict=True)
        ],
        "queue_count": len(queues),
        "delayed_in": [delaying.name for delaying in found.target.delayed],
        "steps": steps,
    }
    if permission:
        answer["permission"] = permission
    return answer


def _step_of(found: Explanation, passed: PassedExchange, room: int) -> Generator[None, None, Row]:
    rows: list[Row] = []
    left_out = 0
    per_step = max(1, STEP_COUNT // len(found.keys))
    for count, binding in enumerate(found.bindings_of(passed), 1):
        if len(rows) < room:
            rows.append(
                {
                    "destination": binding.destination_name,
                    "destination_type": (
                        "queue" if binding.destination_queue is not None else "exchange"
                    ),
                    "routing_key": binding.routing_key,
                    "arguments": plain(binding.arguments),
                    "matched": binding in passed.selected,
                    "reason": found.why(passed, binding),
                }
            )
        else:
            left_out += 1
        if count % per_step == 0:
            yield
    return {
        "exchange": passed.exchange.name,
        "type": passed.exchange.kind,
        "reached_by": passed.reached_by,
        "reached_from": passed.reached_from,
        "note": passed.note,
        "bindings": rows,
        "bindings_left_out": left_out,
    }


def _permission(node: Node, vhost: VirtualHost, exchange: Exchange, request: ExplainRequest) -> Row:
    """Whether a user could publish this; empty when nobody was named."""
    if not request.user:
        return {}
    caller = request.caller
    has_token = caller.grant is not None and caller.name == request.user
    if has_token:
        access = access_of(node, caller, vhost.name)
    else:
        access = node.state.access.find(request.user, vhost.name)
    name = request.exchange or DEFAULT_EXCHANGE_ALIAS
    reason = f"the write permission matches '{name}'"
    allowed = True
    if not has_token and node.state.users.find(request.user) is None:
        allowed, reason = False, f"there is no user '{request.user}'"
    elif access is None or not access.is_granted:
        allowed, reason = False, f"the user has no permissions in vhost '{vhost.name}'"
    elif not access.may(Permission.WRITE, ResourceKind.EXCHANGE, request.exchange):
        allowed = False
        reason = f"the write permission '{access.write}' does not match '{name}'"
        if has_token:
            reason = f"no scope of the token gives write permission on '{name}'"
    else:
        key = _refused_key(node, access, exchange, request)
        if key is not None:
            allowed = False
            reason = f"the topic permission of the user does not match the routing key '{key}'"
    return {"user": request.user, "allowed": allowed, "reason": reason}


def _refused_key(
    node: Node, access: Access, exchange: Exchange, request: ExplainRequest
) -> str | None:
    """The first key that the user's topic permission does not allow; None when it allows all."""
    if exchange.kind != TOPIC:
        return None
    topics = node.state.topic_access
    for key in (request.routing_key, *request.properties.extra_keys()):
        try:
            topics.check(access, exchange.name, Permission.WRITE, key)
        except AccessRefused:
            return key
    return None


def _outcome(
    found: Explanation, permission: Row, is_internal: bool, notes: list[str]
) -> tuple[str, str]:
    target = found.target
    if permission and not permission["allowed"]:
        return "refused", f"access is refused: {permission['reason']}"
    if is_internal:
        return "refused", "clients cannot publish to an internal exchange"
    if not target.reaches_any:
        return "unrouted", (
            "no queue gets the message: it is returned if it is mandatory, and dropped otherwise"
        )
    refusing = [note for note in notes if "refuses" in note]
    if refusing:
        return "refused", f"{len(refusing)} of its queues would refuse it: {refusing[0]}"
    if target.delayed and not target.queues:
        return "delayed", "it waits in a delayed exchange first"
    return "enqueued", f"{len(target.queues)} queues get the message"


def _queue_row(queue: MessageQueue, note: str) -> Row:
    return {
        "name": queue.name,
        "type": queue.queue_type.value,
        "messages_ready": queue.ready_count,
        "note": note,
    }
