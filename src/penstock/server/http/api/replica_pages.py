"""Replicas of queues of servers that are not in one cluster: /api/ha/replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.errors import NotFound, Refusal
from penstock.broker.names import described, without_line_breaks
from penstock.broker.queues.following import QUEUE, REPLICA_COMPONENT, URI
from penstock.broker.topology import ClearParameter, DeclareQueue, QueueDeclared, SetParameter
from penstock.client.errors import ClientError
from penstock.client.uri import addresses_of
from penstock.ha.standalone.queue_replica import ReplicaState
from penstock.server.http.api.changes import changed
from penstock.server.http.api.operation import (
    ADMINISTRATOR,
    MONITORING,
    NO_CONTENT,
    Created,
    Operation,
    RowList,
)
from penstock.server.http.api.schema import COUNT, TABLE, TEXT, object_of, one_of
from penstock.server.http.api.visibility import visible_vhosts
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.node.node import Node
    from penstock.server.http.api.changes import ChangeTurn
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.line import BrokerLine

Row = dict[str, object]

_ROW: Final = object_of(
    {
        "name": TEXT,
        "vhost": TEXT,
        "source": TEXT,
        "state": one_of(*(state.value for state in ReplicaState)),
        "reason": TEXT,
        "since_ms": COUNT,
        "connected_to": TEXT,
        "messages": COUNT,
        "source_messages": COUNT,
        "fetched_messages": COUNT,
        "fetched_bytes": COUNT,
        "removed_messages": COUNT,
    }
)
_PATH: Final = "/api/ha/replicas/{vhost}/{name}"


class ReplicaPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET", "/api/ha/replicas", self.list,
                "Queues that are replicas of queues of other servers, and how far they are", "ha",
                allowed=MONITORING, answer=_ROW, is_list=True,
            ),
            Operation(
                "GET", _PATH, self.show, "A replica", "ha", allowed=MONITORING, answer=_ROW,
            ),
            Operation(
                "PUT", _PATH, self.put,
                "Declare a queue that is a replica of one of another server or cluster; `from` is its "
                "address as clients have it, several servers of a cluster separated by commas", "ha",
                allowed=ADMINISTRATOR,
                body=object_of({"from": TEXT}, {"source_queue": TEXT, "arguments": TABLE}),
            ),
            Operation(
                "DELETE", _PATH, self.delete,
                "Release a replica: it keeps what it has, and is used as any other queue", "ha",
                allowed=ADMINISTRATOR,
            ),
        ]  # fmt: skip

    async def list(self, call: ApiRequest) -> object:
        def rows(node: Node, now: int) -> list[Row]:
            names = {vhost.name for vhost in visible_vhosts(node, call.caller, "")}
            found = [
                _row(node, queue, vhost, now)
                for queue, vhost in node.state.shared.replicas.items()
                if vhost in names
            ]
            return sorted(found, key=lambda row: (str(row["vhost"]), str(row["name"])))

        return RowList(await self._line.ask(rows))

    async def show(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), call.named("name")

        def row(node: Node, now: int) -> Row:
            queue = visible_vhosts(node, call.caller, vhost)[0].queues.get(name)
            if queue is None or queue.following is None:
                raise NotFound(f"no replica {described('queue', name, vhost)}")
            return _row(node, queue, vhost, now)

        return await self._line.ask(row)

    async def put(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), without_line_breaks(call.named("name"))
        uri, source = call.body["from"], call.body.get("source_queue", name)
        arguments = call.body.get("arguments", {})
        assert isinstance(uri, str), "the schema says so"
        assert isinstance(arguments, dict), "the schema says so"
        try:
            addresses_of(uri)
        except ClientError as error:
            raise Problem(400, str(error)) from None

        def put(turn: ChangeTurn) -> Created:
            known = turn.node.state.vhost(vhost).queues.get(name)
            if known is not None and known.following is not None:
                value: Row = {**known.following.value(), URI: uri, QUEUE: source}
            else:
                value = {URI: uri, QUEUE: source}
            turn.apply_in(vhost, SetParameter(REPLICA_COMPONENT, name, value))
            try:
                result = turn.declare(vhost, DeclareQueue(name, durable=True, arguments=arguments))
            except (Refusal, Problem):
                if known is None:
                    turn.apply_in(vhost, ClearParameter(REPLICA_COMPONENT, name))
                raise
            assert isinstance(result, QueueDeclared), "a queue was declared"
            return Created(result.created)

        return await changed(self._line, call, put)

    async def delete(self, call: ApiRequest) -> object:
        vhost, name = call.named("vhost"), call.named("name")

        def delete(turn: ChangeTurn) -> None:
            queue = turn.node.state.vhost(vhost).queues.get(name)
            if queue is None or queue.following is None:
                raise NotFound(f"no replica {described('queue', name, vhost)}")
            turn.apply_in(vhost, ClearParameter(REPLICA_COMPONENT, name))

        await changed(self._line, call, delete)
        return NO_CONTENT


def _row(node: Node, queue: MessageQueue, vhost: str, now: int) -> Row:
    following = queue.following
    assert following is not None, "it is listed while it follows"
    row: Row = {
        "name": queue.name,
        "vhost": vhost,
        "source": following.source(),
        "state": ReplicaState.WAITING.value,
        "reason": "",
        "since_ms": 0,
        "connected_to": "",
        "messages": queue.message_count,
        "source_messages": 0,
        "fetched_messages": 0,
        "fetched_bytes": 0,
        "removed_messages": 0,
    }
    replica = None if node.replicas is None else node.replicas.find(queue)
    if replica is not None:
        row["state"] = replica.state.value
        row["reason"] = replica.reason
        row["since_ms"] = now - replica.changed_at
        row["connected_to"] = replica.connected_to
        row["source_messages"] = replica.source_count
        row["fetched_messages"] = replica.fetched_count
        row["fetched_bytes"] = replica.fetched_bytes
        row["removed_messages"] = replica.removed_count
    return row
