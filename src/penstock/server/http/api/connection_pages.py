"""Connections, channels and consumers: /api/connections, /api/channels, /api/consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.server.http.api.connection_rows import (
    CHANNEL_PROPERTIES,
    CHANNEL_SCHEMA,
    CONNECTION_SCHEMA,
    CONSUMER_SCHEMA,
    ChannelRecord,
    ConnectionRecord,
    ConsumerRecord,
    connection_name,
)
from penstock.server.http.api.operation import Operation, RecordList, RowList
from penstock.server.http.api.schema import TABLE, TEXT, list_of
from penstock.server.http.api.stats import SPAN_QUERIES, row_schema, spans_of
from penstock.server.http.api.visibility import not_found, sees_connection, visible_vhost

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from penstock.dialects.connection import Connection
    from penstock.dialects.facts import ConnectionFacts
    from penstock.node.node import Node
    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.operation import ApiRequest, Page
    from penstock.server.http.api.sampler import Sampler
    from penstock.server.http.api.samples import Spans
    from penstock.server.http.api.schema import Schema
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Caller

# Connections, channels or consumers in one step on the broker's loop: about a millisecond.
STEP_COUNT: Final = 50

_SHORT = row_schema({"name": TEXT, "node": TEXT, "user": TEXT, "vhost": TEXT})
_CHANNEL_WITH_CONSUMERS = row_schema(
    {
        **CHANNEL_PROPERTIES,
        "consumer_details": list_of(CONSUMER_SCHEMA),
        "deliveries": list_of(TABLE),
        "publishes": list_of(TABLE),
    }
)


class ConnectionPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine, sampler: Sampler) -> None:
        self._line = line
        self._sampler = sampler

    def operations(self) -> list[Operation]:
        return [
            self._list("/api/connections", self.connections, CONNECTION_SCHEMA, "All connections"),
            self._list(
                "/api/vhosts/{vhost}/connections",
                self.connections,
                CONNECTION_SCHEMA,
                "The connections of one virtual host",
            ),
            Operation(
                "GET",
                "/api/connections/username/{user}",
                self.of_user,
                "The connections of one user",
                "connections",
                answer=_SHORT,
                is_list=True,
            ),
            self._list(
                "/api/connections/{name}/channels",
                self.channels_of_connection,
                CHANNEL_SCHEMA,
                "The channels of one connection",
            ),
            self._show(
                "/api/connections/{name}", self.connection, CONNECTION_SCHEMA, "A connection"
            ),
            self._list("/api/channels", self.channels, CHANNEL_SCHEMA, "All channels and sessions"),
            self._list(
                "/api/vhosts/{vhost}/channels",
                self.channels,
                CHANNEL_SCHEMA,
                "The channels of one virtual host",
            ),
            self._show(
                "/api/channels/{channel}", self.channel, _CHANNEL_WITH_CONSUMERS, "A channel"
            ),
            Operation(
                "GET",
                "/api/consumers",
                self.consumers,
                "All consumers",
                "connections",
                answer=CONSUMER_SCHEMA,
                is_list=True,
            ),
            Operation(
                "GET",
                "/api/consumers/{vhost}",
                self.consumers,
                "The consumers of one virtual host",
                "connections",
                answer=CONSUMER_SCHEMA,
                is_list=True,
            ),
        ]

    def _list(self, path: str, page: Page, row: Schema, summary: str) -> Operation:
        return Operation(
            "GET",
            path,
            page,
            summary,
            "connections",
            answer=row,
            is_list=True,
            queries=SPAN_QUERIES,
        )

    def _show(self, path: str, page: Page, row: Schema, summary: str) -> Operation:
        return Operation(
            "GET", path, page, summary, "connections", answer=row, queries=SPAN_QUERIES
        )

    async def connections(self, call: ApiRequest) -> object:
        self._sampler.begin()
        spans = spans_of(call)
        wanted = Wanted(call.caller, _vhost_in(call))
        return RecordList(
            await self._line.walk(lambda node: self._connections(node, wanted, spans))
        )

    async def of_user(self, call: ApiRequest) -> object:
        user = call.named("user")
        wanted = Wanted(call.caller, "", user)
        spans = spans_of(call)
        found = await self._line.walk(lambda node: self._connections(node, wanted, spans))
        return RowList([record.short_row() for record in found])

    async def connection(self, call: ApiRequest) -> object:
        self._sampler.begin()
        name = call.named("name")
        spans = spans_of(call)
        wanted = Wanted(call.caller, name=name)
        found = await self._line.walk(lambda node: self._connections(node, wanted, spans))
        if not found:
            raise not_found("connection", name)
        return found[0].row()

    async def channels(self, call: ApiRequest) -> object:
        self._sampler.begin()
        spans = spans_of(call)
        wanted = Wanted(call.caller, _vhost_in(call))
        return RecordList(await self._line.walk(lambda node: self._channels(node, wanted, spans)))

    async def channels_of_connection(self, call: ApiRequest) -> object:
        self._sampler.begin()
        name = call.named("name")
        spans = spans_of(call)
        wanted = Wanted(call.caller, name=name)
        if not await self._line.walk(lambda node: self._connections(node, wanted, spans)):
            raise not_found("connection", name)
        return RecordList(await self._line.walk(lambda node: self._channels(node, wanted, spans)))

    async def channel(self, call: ApiRequest) -> object:
        self._sampler.begin()
        name = call.named("channel")
        spans = spans_of(call)
        # "CONNECTION (NUMBER)".
        wanted = Wanted(call.caller, name=name.rpartition(" (")[0])
        found = await self._line.walk(lambda node: self._channels(node, wanted, spans))
        for record in found:
            if record.name == name:
                consumers = await self._line.walk(lambda node: consumers_of(node, wanted))
                rows = [consumer.row() for consumer in consumers]
                row = record.row()
                row["consumer_details"] = [own for own in rows if _is_of(own, name)]
                # RabbitMQ has these figures in another mode only, and its clients read the lists.
                row.update({"deliveries": [], "publishes": []})
                return row
        raise not_found("channel", name)

    async def consumers(self, call: ApiRequest) -> object:
        wanted = Wanted(call.caller, _vhost_in(call))
        return RecordList(await self._line.walk(lambda node: consumers_of(node, wanted)))

    # On the broker's loop.

    def _connections(
        self, node: Node, wanted: Wanted, spans: Spans
    ) -> Generator[None, None, list[ConnectionRecord]]:
        found: list[ConnectionRecord] = []
        for one in wanted.among(node):
            if one is None:
                yield
            else:
                found.append(ConnectionRecord(node, *one, self._sampler, spans))
        return found

    def _channels(
        self, node: Node, wanted: Wanted, spans: Spans
    ) -> Generator[None, None, list[ChannelRecord]]:
        found: list[ChannelRecord] = []
        for one in wanted.among(node):
            if one is None:
                yield
                continue
            connection, owner = one
            for facts in connection.protocol.channel_facts():
                found.append(ChannelRecord(node, connection, owner, facts, self._sampler, spans))
                if len(found) % STEP_COUNT == 0:
                    yield
        return found


class Wanted:
    """Which connections a request is about. Held by it."""

    def __init__(self, caller: Caller, vhost: str = "", user: str = "", name: str = "") -> None:
        self._caller = caller
        self._vhost = vhost
        self._user = user
        self._name = name

    def among(self, node: Node) -> Iterator[tuple[Connection, ConnectionFacts] | None]:
        """Those of a node, with a None wherever others should have their turn. Raises a `Problem`
        where the caller may not look.
        """
        if self._vhost:
            visible_vhost(node, self._caller, self._vhost)
        for count, connection in enumerate(list(node.connections.values()), 1):
            facts = self._facts_of(connection)
            if facts is not None:
                yield connection, facts
            if count % STEP_COUNT == 0:
                yield None

    def _facts_of(self, connection: Connection) -> ConnectionFacts | None:
        """None for a connection that is not wanted, or has not opened a virtual host."""
        if self._name and connection_name(connection.peer) != self._name:
            return None
        vhost = connection.protocol.vhost_name()
        if not vhost or (self._vhost and vhost != self._vhost):
            return None
        facts = connection.protocol.facts()
        if self._user and facts.user != self._user:
            return None
        return facts if sees_connection(self._caller, facts.user) else None


def consumers_of(node: Node, wanted: Wanted) -> Generator[None, None, list[ConsumerRecord]]:
    found: list[ConsumerRecord] = []
    for one in wanted.among(node):
        if one is None:
            yield
            continue
        connection, owner = one
        for facts in connection.protocol.consumer_facts():
            found.append(ConsumerRecord(node, connection, owner, facts))
            if len(found) % STEP_COUNT == 0:
                yield
    return found


def _vhost_in(call: ApiRequest) -> str:
    return call.named("vhost") if "vhost" in call.request.path_params else ""


def _is_of(consumer: Row, channel: str) -> bool:
    details = consumer["channel_details"]
    return isinstance(details, dict) and details["name"] == channel
