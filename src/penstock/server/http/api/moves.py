"""Messages moved or copied between queues: /api/queues/{vhost}/{name}/move and .../moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.access.permissions import Permission, ResourceKind
from penstock.broker.command_events import move_cancelled_event, move_event
from penstock.broker.exchanges.kinds import TOPIC
from penstock.broker.move_table import MoveState
from penstock.broker.moves.move import NO_LIMIT, Move, MoveRequest, begin_move
from penstock.server.http.api.changes import actor_of
from penstock.server.http.api.operation import NO_CONTENT, Operation, RowList
from penstock.server.http.api.schema import BOOLEAN, COUNT, TEXT, object_of, one_of
from penstock.server.http.problems import Problem
from penstock.server.http.request_parts import NUMBER_MAX, is_writable, number
from penstock.server.http.vhost_access import enter

if TYPE_CHECKING:
    from penstock.broker.access.permissions import Access
    from penstock.node.node import Node
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

# A request waits so long for its move, and is told then how far that is; the move goes on.
WAIT_MS: Final = 5_000
WAIT_MS_MAX: Final = 30_000

_REQUEST: Final = object_of(
    {},
    {
        "destination": TEXT,
        "exchange": TEXT,
        "routing_key": TEXT,
        "selector": TEXT,
        "count": COUNT,
        "copy": BOOLEAN,
        "wait_ms": COUNT,
    },
)
_MOVE: Final = object_of(
    {
        "number": COUNT,
        "source": TEXT,
        "state": one_of(*(state.value for state in MoveState)),
        "reason": TEXT,
        "copy": BOOLEAN,
        "selector": TEXT,
        "messages": COUNT,
        "message_bytes": COUNT,
        "looked_at": COUNT,
        "began_at": COUNT,
    },
    {"destination": TEXT, "exchange": TEXT, "routing_key": TEXT, "count": COUNT},
)


class MovePages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        path = "/api/queues/{vhost}/{name}/moves"
        return [
            Operation(
                "POST",
                "/api/queues/{vhost}/{name}/move",
                self.begin,
                "Move or copy messages to another queue, or to an exchange",
                "queues",
                body=_REQUEST,
                answer=_MOVE,
            ),
            Operation(
                "GET",
                path,
                self.list,
                "Moves out of a queue: those in progress and the last ones that ended",
                "queues",
                answer=_MOVE,
                is_list=True,
            ),
            Operation(
                "GET",
                f"{path}/{{number}}",
                self.show,
                "How far a move is",
                "queues",
                answer=_MOVE,
            ),
            Operation(
                "DELETE",
                f"{path}/{{number}}",
                self.cancel,
                "Cancel a move; what was moved stays moved",
                "queues",
            ),
        ]

    async def begin(self, call: ApiRequest) -> object:
        """Answered when the move is over and all of it is durable, or when it takes too long."""
        request = _request_of(call)
        wait_ms = _count_in(call.body, "wait_ms", WAIT_MS)
        vhost = call.named("vhost")
        caller = call.caller
        actor = actor_of(call)

        def start(node: Node, now: int) -> Move:
            entered, access = enter(node, caller, vhost)
            entered.queue(request.source)
            access.check(Permission.READ, ResourceKind.QUEUE, request.source)
            access.check(Permission.WRITE, ResourceKind.EXCHANGE, request.exchange or "")
            _check_topic(node, access, request)
            move = begin_move(entered, request, now)
            facts: dict[str, object] = {
                "queue": request.source,
                "destination": request.destination,
                "exchange": request.exchange or "",
                "copy": request.copy,
                "move": move.number,
            }
            node.container.events.record(move_event(vhost, facts, actor))
            return move

        # The tick that is asked for rings the timers.
        move = await self._line.change_safely(start)
        await self._line.until(
            lambda: move.state is not MoveState.RUNNING, min(wait_ms, WAIT_MS_MAX) / 1000
        )
        return await self._line.ask(lambda node, now: _row_of(move))

    async def list(self, call: ApiRequest) -> object:
        vhost, name, caller = call.named("vhost"), call.named("name"), call.caller

        def rows(node: Node, now: int) -> list[dict[str, object]]:
            del now
            return [_row_of(move) for move in _moves_of(node, caller, vhost, name)]

        return RowList(await self._line.ask(rows))

    async def show(self, call: ApiRequest) -> object:
        vhost, name, caller = call.named("vhost"), call.named("name"), call.caller
        wanted = _number_of(call)
        return await self._line.ask(
            lambda node, now: _row_of(_found(_moves_of(node, caller, vhost, name), wanted))
        )

    async def cancel(self, call: ApiRequest) -> object:
        vhost, name, caller = call.named("vhost"), call.named("name"), call.caller
        wanted = _number_of(call)
        actor = actor_of(call)

        def stop(node: Node, now: int) -> object:
            del now
            move = _found(_moves_of(node, caller, vhost, name), wanted)
            if move.state is MoveState.RUNNING:
                move.cancel()
                facts = {"queue": name, "move": wanted, "messages": move.moved_count}
                node.container.events.record(move_cancelled_event(vhost, facts, actor))
            return NO_CONTENT

        return await self._line.change_safely(stop)


def _moves_of(node: Node, caller: Caller, vhost: str, name: str) -> list[Move]:
    entered, access = enter(node, caller, vhost)
    entered.queue(name)
    access.check(Permission.READ, ResourceKind.QUEUE, name)
    return [move for move in entered.move_table.of_queue(name) if isinstance(move, Move)]


def _found(moves: list[Move], wanted: int) -> Move:
    for move in moves:
        if move.number == wanted:
            return move
    raise Problem(404, f"there is no move {wanted} out of this queue, or it was long ago")


def _number_of(call: ApiRequest) -> int:
    return number(call.named("number"), "the number of a move")


def _check_topic(node: Node, access: Access, request: MoveRequest) -> None:
    """Topic permissions are checked for one routing key, not for that of every message."""
    if request.exchange is None:
        return
    exchange = node.state.vhost(access.vhost).exchange(request.exchange)
    topics = node.state.topic_access
    if exchange.kind != TOPIC or not topics.is_restricted(access, exchange.name):
        return
    if request.routing_key is None:
        raise Problem(
            403,
            f"user '{access.user}' has topic permissions in exchange '{exchange.name}'",
            "Name the routing key with which the messages are to be published.",
        )
    topics.check(access, exchange.name, Permission.WRITE, request.routing_key)


def _request_of(call: ApiRequest) -> MoveRequest:
    body = call.body
    exchange = _text_in(body, "exchange")
    destination = _text_in(body, "destination")
    if exchange is None and destination is None:
        raise Problem(
            400,
            "the move has no destination",
            'Send {"destination": QUEUE}, or {"exchange": EXCHANGE, "routing_key": KEY}.',
        )
    return MoveRequest(
        call.named("name"),
        destination or "",
        exchange,
        _text_in(body, "routing_key"),
        _text_in(body, "selector") or "",
        _count_in(body, "count", NO_LIMIT),
        body.get("copy") is True,
    )


def _text_in(body: dict[str, object], key: str) -> str | None:
    value = body.get(key)
    if isinstance(value, str) and not is_writable(value):
        raise Problem(400, f"'{key}' is not a valid Unicode string")
    return value if isinstance(value, str) else None


def _count_in(body: dict[str, object], key: str, default: int) -> int:
    value = body.get(key, default)
    assert isinstance(value, int), "the schema says so"
    if value > NUMBER_MAX:
        raise Problem(400, f"'{key}' is too large a number")
    return value


def _row_of(move: Move) -> dict[str, object]:
    request = move.request
    row: dict[str, object] = {
        "number": move.number,
        "source": move.source,
        "state": move.state.value,
        "reason": move.reason,
        "copy": request.copy,
        "selector": request.selector,
        "messages": move.moved_count,
        "message_bytes": move.moved_bytes,
        "looked_at": move.seen_count,
        "began_at": move.began_at,
    }
    if request.exchange is None:
        row["destination"] = request.destination
    else:
        row["exchange"] = request.exchange
    if request.routing_key is not None:
        row["routing_key"] = request.routing_key
    if request.count != NO_LIMIT:
        row["count"] = request.count
    return row
