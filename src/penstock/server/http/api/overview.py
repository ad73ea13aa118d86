"""The broker at a glance: /api/overview and the pages around it that hardly ever change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import penstock
from penstock.broker.definitions.exporting import FORM
from penstock.server.http.api.node_facts import contexts, exchange_types, http_address
from penstock.server.http.api.operation import ADMINISTRATOR, Operation, RowList
from penstock.server.http.api.sampler import (
    CHURN,
    LENGTH_COUNT,
    MESSAGES,
    QUEUE,
    TOTAL,
    total_numbers,
)
from penstock.server.http.api.samples import LENGTHS, MESSAGE_RATES, ROWS_MAX, SAMPLE_MS
from penstock.server.http.api.schema import BOOLEAN, COUNT, TABLE, TEXT, list_of, object_of
from penstock.server.http.api.stats import (
    SPAN_QUERIES,
    message_stats,
    put_details,
    row_schema,
    spans_of,
    with_details,
)
from penstock.server.http.api.totals import totals_of
from penstock.server.http.api.visibility import sees_everything

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.node.node import Node
    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.operation import ApiRequest, Page
    from penstock.server.http.api.sampler import Sampler
    from penstock.server.http.api.samples import SampleHistory, Spans
    from penstock.server.http.api.totals import VisibleTotals
    from penstock.server.http.line import BrokerLine

_LISTENER: Final = object_of(
    {}, {"ip_address": TEXT, "node": TEXT, "port": COUNT, "protocol": TEXT, "socket_opts": TABLE}
)
_OVERVIEW: Final = row_schema(
    {
        "churn_rates": object_of({}, with_details(CHURN)),
        "cluster_name": TEXT,
        "contexts": list_of(TABLE),
        "disable_stats": BOOLEAN,
        "enable_queue_totals": BOOLEAN,
        "exchange_types": list_of(object_of({}, {"name": TEXT, "description": TEXT})),
        "listeners": list_of(_LISTENER),
        "management_version": TEXT,
        "message_stats": object_of({}, with_details(MESSAGES[LENGTH_COUNT:])),
        "node": TEXT,
        "object_totals": object_of(
            {},
            dict.fromkeys(("channels", "connections", "consumers", "exchanges", "queues"), COUNT),
        ),
        "product_name": TEXT,
        "product_version": TEXT,
        "queue_totals": object_of({}, with_details(QUEUE[:LENGTH_COUNT])),
        "rabbitmq_version": TEXT,
        "rates_mode": TEXT,
        "sample_retention_policies": TABLE,
        "statistics_db_event_queue": COUNT,
    }
)
_CHURN_BEGINS: Final = len(MESSAGES)


class OverviewPages:
    """Held by the table of operations."""

    def __init__(self, line: BrokerLine, sampler: Sampler) -> None:
        self._line = line
        self._sampler = sampler

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "GET",
                "/api/overview",
                self.overview,
                "The broker at a glance",
                "broker",
                answer=_OVERVIEW,
                queries=SPAN_QUERIES,
            ),
            Operation(
                "GET",
                "/api/cluster-name",
                self.cluster_name,
                "The name of the broker",
                "broker",
                answer=row_schema({"name": TEXT}),
            ),
            _fixed("/api/extensions", self.extensions, "Extensions of the management pages"),
            _fixed("/api/federation-links", self.nothing, "Links to other brokers"),
            _fixed("/api/feature-flags", self.nothing, "Feature flags", ADMINISTRATOR),
            _fixed("/api/deprecated-features", self.nothing, "Deprecated features", ADMINISTRATOR),
            _fixed(
                "/api/deprecated-features/used",
                self.nothing,
                "Deprecated features in use",
                ADMINISTRATOR,
            ),
        ]

    async def overview(self, call: ApiRequest) -> object:
        self._sampler.begin()
        spans = spans_of(call)
        row = await self._line.walk(lambda node: self._row(node, call, spans))
        if sees_everything(call.caller):
            row["contexts"] = [{**context, "node": row["node"]} for context in contexts(call)]
        return row

    async def cluster_name(self, call: ApiRequest) -> object:
        del call
        return {"name": await self._line.ask(lambda node, now: _cluster_name(node))}

    async def extensions(self, call: ApiRequest) -> object:
        """RabbitMQ's has the script of its web pages; there are none here."""
        return await self.nothing(call)

    async def nothing(self, call: ApiRequest) -> object:
        del call
        return RowList([])

    # On the broker's loop.

    def _row(self, node: Node, call: ApiRequest, spans: Spans) -> Generator[None, None, Row]:
        totals = yield from totals_of(node, call.caller)
        history = self._sampler.of_everything(not spans.is_empty)
        row = self._fixed_facts(node)
        row["object_totals"] = {
            "channels": totals.channels,
            "connections": totals.connections,
            "consumers": totals.consumers,
            "exchanges": totals.exchanges,
            "queues": totals.queues,
        }
        if sees_everything(call.caller):
            self._put_totals(row, node, totals, history, spans)
            row["listeners"] = self._listeners(node, call)
        else:
            self._put_visible(row, totals)
        return row

    def _put_totals(
        self, row: Row, node: Node, totals: VisibleTotals, history: SampleHistory, spans: Spans
    ) -> None:
        numbers = total_numbers(node, totals.sums(), totals.confirmed)
        lengths: Row = {}
        put_details(lengths, TOTAL, numbers, history, spans.of(LENGTHS), 0, LENGTH_COUNT)
        row["queue_totals"] = lengths
        span = spans.of(MESSAGE_RATES)
        row["message_stats"] = message_stats(MESSAGES, numbers, history, span, LENGTH_COUNT)
        churn: Row = {}
        end = _CHURN_BEGINS + len(CHURN)
        put_details(churn, TOTAL, numbers, history, span, _CHURN_BEGINS, end)
        row["churn_rates"] = churn

    def _put_visible(self, row: Row, totals: VisibleTotals) -> None:
        """For a caller who sees some virtual hosts: their sums, with the sums of their rates."""
        numbers = totals.sums()
        histories = [self._sampler.of_vhost(name, False) for name in totals.by_vhost]
        lengths: Row = {}
        stats: Row = {}
        for column, name in enumerate(QUEUE):
            into = lengths if column < LENGTH_COUNT else stats
            into[name] = numbers[column]
            rate = sum(history.rate(column) for history in histories)
            into[f"{name}_details"] = {"rate": rate}
        row["queue_totals"] = lengths
        row["message_stats"] = stats

    def _fixed_facts(self, node: Node) -> Row:
        name = node.configuration.cluster_name
        seconds = (ROWS_MAX - 1) * SAMPLE_MS // 1000
        return {
            "cluster_name": _cluster_name(node),
            "disable_stats": False,
            "enable_queue_totals": False,
            "exchange_types": exchange_types(),
            # Tools choose by it what they ask for.
            "management_version": FORM,
            "node": name,
            "product_name": "Penstock",
            "product_version": penstock.__version__,
            "rabbitmq_version": FORM,
            "rates_mode": "basic",
            "sample_retention_policies": {
                "global": [seconds, 6 * seconds],
                "basic": [seconds],
                "detailed": [seconds],
            },
            "statistics_db_event_queue": 0,
        }

    def _listeners(self, node: Node, call: ApiRequest) -> list[Row]:
        name = node.configuration.cluster_name
        addresses = [("amqp", *address) for address in self._line.server.listening]
        addresses.append(("http", *http_address(call)))
        return [
            {
                "ip_address": host,
                "node": name,
                "port": port,
                "protocol": protocol,
                "socket_opts": {},
            }
            for protocol, host, port in addresses
        ]


def _fixed(path: str, page: Page, summary: str, allowed: frozenset[str] | None = None) -> Operation:
    if allowed is None:
        return Operation("GET", path, page, summary, "broker", answer=TABLE, is_list=True)
    return Operation("GET", path, page, summary, "broker", allowed, answer=TABLE, is_list=True)


def _cluster_name(node: Node) -> str:
    return node.state.cluster_name(node.configuration.cluster_name)
